"""The page: sections, style, script and data in one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from onefit.report import sections as parts
from onefit.report.evidence import Evidence, compare_on_sample, gather, map_rows
from onefit.report.markup import json_block, text
from onefit.report.reproduce import snippet, versions
from onefit.report.words import score_text
from onefit.search.surface import Surface, search_surface

__all__ = ["render_report"]

_CONTENTS = (
    ("choice", "Choice"),
    ("surface-s", "Scores"),
    ("profiles", "Parameters"),
    ("baselines", "Baselines"),
    ("predictions", "Predictions"),
    ("map", "Map"),
    ("agreement", "Exact or approximate"),
    ("checks", "Data"),
    ("reproduce", "Reproduce"),
)


def render_report(
    search: Any,
    X: Any,
    y: Any,
    *,
    title: str,
    target_name: str,
    baselines: Sequence[tuple[str, float, float]] = (),
    notes: Sequence[str] = (),
    command: str | None = None,
) -> str:
    """One HTML page about a finished search, complete in itself: it asks the network for nothing.

    Parameters
    ----------
    search : ManifoldSearchCV
        Fitted, with ``refit`` on; its estimator is one of ours or a Pipeline that ends in one.
    X : array-like, sparse matrix or data frame of shape (N, n_features)
        The rows that it was fitted to.
    y : array-like of shape (N,) or (N, q)
        Their targets, with unlabelled rows marked.
    title : str
        Heading of the page.
    target_name : str
        What ``y`` is called.
    baselines : sequence of (name, mean, std), optional
        Cross-validated scores of simpler models on the same folds.
    notes : sequence of str, optional
        What is noteworthy about the data, a sentence each.
    command : str, optional
        Command line that made the search.

    Returns
    -------
    str
        The page. Names and values are escaped wherever they come from.

    Examples
    --------
    >>> from onefit import LapRLSClassifier, ManifoldSearchCV
    >>> from onefit.datasets import load_penguins, make_partially_labeled
    >>> from onefit.report import render_report
    >>> X, truth = load_penguins(return_X_y=True)
    >>> y = make_partially_labeled(truth, n_labeled=30, random_state=0)
    >>> grid = {"ambient_penalty": [1e-4, 1e-2], "manifold_penalty": [0.0, 1.0]}
    >>> search = ManifoldSearchCV(LapRLSClassifier(), grid, random_state=0).fit(X, y)
    >>> page = render_report(search, X, y, title="Penguins", target_name="species")
    >>> page.startswith("<!DOCTYPE html>"), len(page) < 500_000
    (True, True)
    """
    evidence = gather(search, X, y)
    surface = search_surface(search)
    made = _sections(search, evidence, surface, target_name, baselines)
    made["checks"] = parts.checks_section(evidence, _n_columns(X), notes)
    made["reproduce"] = parts.reproduce_section(snippet(search), command, versions())
    made = {key: made[key] for key, _ in _CONTENTS if made[key]}
    style, script = _resource("report.css") + _palette_rules(), _resource("report.js")
    return Template(_resource("report.html")).substitute(
        policy=_policy(style, script),
        title=text(title),
        lead=text(_lead(search, evidence, target_name)),
        figures=_figures(search, surface, evidence),
        contents="".join(
            f'<li><a href="#{key}">{text(name)}</a></li>' for key, name in _CONTENTS if key in made
        ),
        sections="\n".join(made.values()),
        data=json_block(parts.surface_data(surface)),
        style=style,
        script=script,
        version=text(dict(versions())["onefit"]),
    )


def _sections(
    search: Any,
    evidence: Evidence,
    surface: Surface,
    target_name: str,
    baselines: Sequence[tuple[str, float, float]],
) -> dict[str, str]:
    shown = map_rows(evidence)
    quadratic = evidence.model._make_loss().is_quadratic
    return {
        "choice": parts.choice_section(search, surface),
        "surface-s": parts.surface_section(surface),
        "profiles": parts.profiles_section(surface),
        "baselines": parts.baselines_section(surface, baselines),
        "predictions": parts.predictions_section(evidence, target_name, shown),
        "map": parts.map_section(evidence, shown, target_name),
        "agreement": parts.agreement_section(
            compare_on_sample(evidence, search.holdout), quadratic
        ),
    }


def _n_columns(X: Any) -> int:
    return int(np.shape(X)[1])


def _resource(name: str) -> str:
    return files("onefit.report").joinpath(name).read_text(encoding="utf-8")


def _palette_rules() -> str:
    return "\n".join(f".v{i} {{ fill: {colour}; }}" for i, colour in enumerate(parts.PALETTE))


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and nothing run but this style and this script."""
    digests = [
        base64.b64encode(hashlib.sha256(part.encode("utf-8")).digest()).decode("ascii")
        for part in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _lead(search: Any, evidence: Evidence, target_name: str) -> str:
    n, known = evidence.labelled.size, int(evidence.labelled.sum())
    return (
        f"A model that predicts {target_name} for {n:,} rows, of which {known:,} have a label, "
        "chosen by cross-validation."
    )


def _figures(search: Any, surface: Surface, evidence: Evidence) -> str:
    mean, std = float(surface.mean[surface.best]), float(surface.std[surface.best])
    entries = (
        (f"cross-validated {surface.score}", score_text(mean), f"± {score_text(std)}"),
        ("labelled rows", f"{int(evidence.labelled.sum()):,}", f"of {evidence.labelled.size:,}"),
        ("candidates", f"{surface.mean.size:,}", f"on {search.n_splits_:,} folds"),
        ("seconds to search", f"{search.search_time_:.1f}", ""),
    )
    return "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)} <small>{text(more)}</small></dd></div>"
        for name, value, more in entries
    )
