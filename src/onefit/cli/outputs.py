"""What a selection leaves: metadata, a model file, a report, a table of candidates."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from onefit import __version__
from onefit._files import check_regular, write_aside
from onefit.cli.selection import Selection
from onefit.cli.text import plain
from onefit.persistence import ModelFileError, load_model, write_model
from onefit.preparation import TASKS

__all__ = [
    "TABLES",
    "check_paths",
    "check_suffix",
    "compression_of",
    "metadata_of",
    "read_model",
    "write_outputs",
]

_BINARY = (".parquet", ".pq")
#: Suffixes of tables that can be written.
TABLES = (".csv", ".tsv", ".tab", ".txt", *_BINARY)
_COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".bz2": "bz2"}
_SCORES = ("cv_score", "standard_error", "corrected_score")
#: Metadata that other commands rely on, and what they must be.
_FACTS: dict[type, tuple[str, ...]] = {
    str: ("onefit", "created", "task", "target", "estimator", "scoring", "command"),
    int: ("rows", "labels"),
    dict: ("versions", "renamed_classes", "best_params"),
    list: ("baselines", "notes"),
}


def check_paths(outputs: Sequence[str | None], inputs: Sequence[str] = ()) -> None:
    """Refuse before any work what could not be written after it."""
    taken = {_resolved(path) for path in inputs if path != "-"}
    for name in outputs:
        if name is None:
            continue
        if name == "-" or name.endswith(os.sep):
            raise ValueError(f"{name}: is no name of a file; expected one to write to.")
        path, place = Path(name), _resolved(name)
        if place in taken:
            raise ValueError(f"{name}: is named twice, or is an input; use another name.")
        taken.add(place)
        check_regular(path)
        if not path.parent.is_dir():
            raise ValueError(f"{name}: cannot be written, because its folder does not exist.")
        if not os.access(path.parent, os.W_OK):
            raise ValueError(f"{name}: cannot be written, because its folder is write-protected.")


def _resolved(name: str) -> Path:
    """Where a name leads; a loop of links or a NUL leads nowhere."""
    try:
        return Path(name).resolve()
    except (RuntimeError, ValueError, OSError) as error:
        raise ValueError(f"{name}: is no name of a file ({error}); use another name.") from error


def check_suffix(name: str, known: Collection[str]) -> None:
    """Refuse a name that promises a format which is not written; no suffix is fine."""
    is_packed = compression_of(name) is not None
    suffix = Path(name).with_suffix("").suffix if is_packed else Path(name).suffix
    if suffix.lower() not in {"", *known} or (is_packed and suffix.lower() in _BINARY):
        raise ValueError(
            f"{name}: is no name of a format that is written; expected {', '.join(known)}, text "
            f"also with {', '.join(_COMPRESSIONS)} after it."
        )


def compression_of(path: str) -> str | None:
    """Compression by the name of a file, as pandas calls it."""
    return _COMPRESSIONS.get(Path(path).suffix.lower())


def read_model(path: str) -> tuple[Pipeline, dict[str, Any]]:
    """A model and its metadata, if they are such as :func:`metadata_of` makes."""
    model, metadata = load_model(path)
    facts = [(name, kind) for kind, names in _FACTS.items() for name in names]
    wrong = [name for name, kind in facts if not isinstance(metadata.get(name), kind)]
    wrong += [name for name in _SCORES if not _is_number(metadata.get(name, ""))]
    if metadata.get("task") not in TASKS:
        wrong.append("task")
    if not isinstance(metadata.get("classes", ""), list | None):
        wrong.append("classes")
    if not wrong and not all(map(_is_baseline, metadata["baselines"])):
        wrong.append("baselines")
    if wrong:
        raise ModelFileError(
            f"{path}: has metadata that onefit select does not write ({wrong[0]!r}); use a file "
            "as it was written."
        )
    return model, metadata


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _is_baseline(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value and _is_number(value.get("cv_score", ""))


def metadata_of(selection: Selection, command: str) -> dict[str, Any]:
    """What travels with the model."""
    search, trust, prepared = selection.search, selection.trust, selection.prepared
    final = search.best_estimator_[-1]
    classes = final.classes_.tolist() if is_classifier(final) else None
    return plain(
        {
            "onefit": __version__,
            "versions": _versions(),
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "task": prepared.task,
            "target": prepared.target,
            "classes": classes,
            "renamed_classes": prepared.renamed,
            "columns": prepared.kinds,
            "rows": len(prepared.y),
            "labels": trust.n_labels,
            "estimator": type(final).__name__,
            "n_components": final.n_components,
            "best_params": selection.best_params,
            "scoring": selection.scoring,
            "cv_score": search.best_score_,
            "cv_std": selection.std,
            "standard_error": trust.standard_error,
            "corrected_score": trust.corrected_score,
            "baselines": [
                {"name": name, "cv_score": mean, "cv_std": std}
                for name, mean, std in selection.baselines
            ],
            "criterion": search.criterion,
            "holdout": search.holdout,
            "candidates": trust.n_candidates,
            "folds": search.n_splits_,
            "certified": trust.certified,
            "seconds": search.search_time_ + search.refit_time_,
            "notes": selection.notes,
            "command": command,
        }
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "pandas", "skops"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_outputs(
    selection: Selection,
    metadata: dict[str, Any],
    *,
    title: str,
    out: str | None = None,
    report: str | None = None,
    results: str | None = None,
) -> None:
    """Write the files that are wanted: all of them, or none."""
    with ExitStack() as stack:
        if out is not None:
            aside = stack.enter_context(write_aside(out))
            write_model(selection.search.best_estimator_, aside, metadata)
        if results is not None:
            aside = stack.enter_context(write_aside(results))
            _write_results(selection, aside, compression_of(results))
        if report is not None:
            aside = stack.enter_context(write_aside(report))
            text = _report(selection, title, metadata["command"])
            aside.write_text(text, encoding="utf-8")


def _write_results(selection: Selection, path: Path, compression: Any) -> None:
    columns = {
        name.replace("param_model__", "param_"): column
        for name, column in selection.search.cv_results_.items()
        if name != "params"
    }
    pd.DataFrame(columns).to_csv(path, index=False, compression=compression)


def _report(selection: Selection, title: str, command: str) -> str:
    from onefit.report import render_report

    return render_report(
        selection.search,
        selection.prepared.X,
        selection.prepared.y,
        title=title,
        target_name=selection.prepared.target,
        baselines=selection.baselines,
        notes=selection.notes,
        command=command,
    )
