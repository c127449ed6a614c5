"""``onefit select``."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from typing import Any

import numpy as np

from onefit.cli.options import UsageError
from onefit.cli.outputs import check_paths, check_suffix, metadata_of, write_outputs
from onefit.cli.selection import Selection, Settings, select
from onefit.cli.text import as_pairs, bullet, printable, show_number
from onefit.preparation import Prepared, prepare
from onefit.tables import read_table

__all__ = ["run", "summary"]


def run(options: argparse.Namespace) -> None:
    """Read, prepare, search, say, write."""
    outputs = [options.out, options.report, options.results, options.checkpoint]
    check_paths(outputs, [options.data])
    if options.results is not None:
        check_suffix(options.results, (".csv", ".txt"))
    prepared = _prepared(options)
    talks = not (options.json or options.quiet)
    if talks:
        print("\n".join(["Data", *map(bullet, prepared.notes), ""]), flush=True)
    selection = select(prepared, _settings(options))
    metadata = metadata_of(selection, options.words)
    files = {name: getattr(options, name) for name in ("out", "report", "results")}
    title = printable(f"{prepared.target} of {options.data}")
    write_outputs(selection, metadata, title=title, **files)
    if options.json:
        print(json.dumps({**metadata, "files": files}, allow_nan=False))
    elif talks:
        print(summary(selection, metadata))
        print(_say_files(files))


def _prepared(options: argparse.Namespace) -> Prepared:
    frame = read_table(options.data, format=options.format, max_bytes=options.max_bytes)
    target = options.target
    if target is None:
        # LIBSVM files have no names, and only one target.
        if frame.columns[0] != "target" or not str(frame.columns[-1]).startswith("x"):
            shown = ", ".join(repr(str(name)) for name in frame.columns[:12])
            raise UsageError(f"say which column to predict with --target; there are {shown}.")
        target = "target"
    return prepare(
        frame,
        target,
        task=options.task,
        unlabeled=options.unlabeled,
        drop=options.drop,
        keep=options.keep,
    )


def _settings(options: argparse.Namespace) -> Settings:
    given = {f.name: getattr(options, f.name) for f in fields(Settings) if f.name != "verbose"}
    return Settings(**given, verbose=0 if options.quiet else 1)


def summary(selection: Selection, metadata: dict[str, Any]) -> str:
    """The result for people: what was chosen, how good it is, what that is worth."""
    lines = [
        f"{metadata['estimator']} for {selection.prepared.target!r}: chosen among "
        f"{metadata['candidates']:,} candidates, each on {metadata['folds']} folds, in "
        f"{metadata['seconds']:.1f} seconds",
        as_pairs(selection.best_params.items()),
        *map(bullet, selection.notes[len(selection.prepared.notes) :]),
        "",
        f"Cross-validated {_score_name(selection.scoring)}",
        _score_table(selection),
        "",
        "What it would cost to trust it",
        *map(bullet, _trust_lines(selection)),
    ]
    return "\n".join(lines)


def _is_cost(scoring: str) -> bool:
    """Whether scikit-learn turns the sign, so that larger is better."""
    return scoring.startswith("neg_")


def _score_name(scoring: str) -> str:
    words = scoring.removeprefix("neg_").replace("_", " ")
    return f"{words} (lower is better)" if _is_cost(scoring) else words


def _shown(score: float, scoring: str) -> str:
    score = -score if _is_cost(scoring) else score
    return f"{score:.3f}" if abs(score) < 1 else show_number(float(score))


def _score_table(selection: Selection) -> str:
    own = ("onefit", float(selection.search.best_score_), selection.std)
    return as_pairs(
        (name, f"{_shown(mean, selection.scoring)}  (std over folds {show_number(std)})")
        for name, mean, std in [*selection.baselines, own]
    )


def _trust_lines(selection: Selection) -> list[str]:
    trust, scoring = selection.trust, selection.scoring
    # The best with the best: the rule of choice may have taken another candidate.
    best = float(np.nanmax(selection.search.cv_results_["mean_test_score"]))
    gain = best - selection.baselines[1][1]
    optimism = [
        f"It was chosen among {trust.n_candidates:,} by such scores, and so is too good: the best "
        f"on the other folds each time reach {_shown(trust.corrected_score, scoring)}."
    ]
    if best > selection.search.best_score_ + 1e-9:
        optimism.append(
            f"The best score is {_shown(best, scoring)}. Of the candidates within one standard "
            "error of it, the one was taken that agrees best with the others on the unlabelled "
            "rows."
        )
    lines = [
        f"It rests on {trust.n_labels:,} labels: its standard error is about "
        f"{show_number(trust.standard_error)}. To halve that takes {trust.labels_to_halve:,} more "
        "labels.",
        *(optimism if trust.n_candidates > 1 else []),
        "The choice is that of exact cross-validation."
        if trust.certified
        else "The choice is that of an approximation, and not certified; --criterion exact is.",
    ]
    if gain <= 0.0:
        lines.append("Labels only do as well: unlabelled rows do not help here.")
    elif gain <= trust.standard_error:
        lines.append(
            "The gain over labels only is within one standard error: unlabelled rows may not help "
            "here."
        )
    return lines


def _say_files(files: dict[str, str | None]) -> str:
    written = [(name, path) for name, path in files.items() if path is not None]
    if not written:
        return "\nNothing was written: --out MODEL keeps the model, --report HTML a report."
    names = {"out": "model", "report": "report", "results": "candidates"}
    return "\nWritten\n" + as_pairs((names[name], path) for name, path in written)
