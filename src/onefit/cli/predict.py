"""``onefit predict``: blocks of rows in, the same rows with predictions out."""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.pipeline import Pipeline

from onefit._files import write_aside
from onefit.cli.outputs import TABLES, check_paths, check_suffix, read_model
from onefit.persistence import ModelFileError
from onefit.preparation import conform
from onefit.tables import iter_table

__all__ = ["predictions", "run"]

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
Write = Callable[[pd.DataFrame], None]


def run(options: argparse.Namespace) -> None:
    """Predict block by block; the file appears when all blocks are written."""
    if options.out != "-":
        check_paths([options.out], [options.data, options.model])
        check_suffix(options.out, TABLES)
    model, metadata = read_model(options.model)
    _compare_versions(metadata)
    blocks = iter_table(
        options.data,
        format=options.format,
        columns=list(metadata["columns"]),
        max_bytes=options.max_bytes,
    )
    n_rows = 0
    with _writer(options.out) as write:
        for block in blocks:
            added = predictions(model, metadata, block)
            _check_free(block, added)
            write(pd.concat([block, added], axis=1))
            n_rows += len(block)
    if options.out != "-" and not options.quiet:
        print(f"{n_rows:,} rows with predictions: {options.out}", file=sys.stderr)


def predictions(model: Pipeline, metadata: dict[str, Any], block: pd.DataFrame) -> pd.DataFrame:
    """Predictions, with decision values or probabilities, for the rows of a table.

    Parameters
    ----------
    model, metadata
        As :func:`~onefit.persistence.load_model` gives them.
    block : DataFrame
        Rows as :mod:`onefit.tables` reads them.
    """
    X = conform(block, metadata["columns"])
    try:
        return _answers(model, metadata, X)
    except (ValueError, TypeError, MemoryError):
        raise
    except Exception as error:  # a crafted model can fail in any way
        raise ModelFileError(
            f"the model cannot predict ({type(error).__name__}: {error}); its file is damaged."
        ) from error


def _answers(model: Pipeline, metadata: dict[str, Any], X: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    if metadata["task"] == "regression":
        columns["prediction"] = model.predict(X)
        return pd.DataFrame(columns, index=X.index)
    kind, values = "decision", None
    if hasattr(model, "predict_proba"):
        kind, values = "probability", model.predict_proba(X)
    else:
        values = model.decision_function(X)
    names = [_class_name(label, metadata) for label in model[-1].classes_.tolist()]
    if values.ndim == 1:
        names, values = names[1:], values[:, None]
    labels = [_class_name(label, metadata) for label in model.predict(X).tolist()]
    columns["prediction"] = labels
    columns |= {f"{kind}_{name}": values[:, j] for j, name in enumerate(names)}
    return pd.DataFrame(columns, index=X.index)


def _class_name(label: Any, metadata: dict[str, Any]) -> Any:
    """A class as the user's file has it."""
    return metadata["renamed_classes"].get(label, label)


def _check_free(block: pd.DataFrame, added: pd.DataFrame) -> None:
    taken = [name for name in added.columns if name in block.columns]
    if taken:
        raise ValueError(f"DATA has a column {taken[0]!r} already; rename it.")


def _compare_versions(metadata: dict[str, Any]) -> None:
    written, here = metadata.get("versions", {}).get("scikit-learn"), version("scikit-learn")
    if written != here:
        print(
            f"onefit: warning: the model was written with scikit-learn {written}, this is {here}; "
            "predictions may differ.",
            file=sys.stderr,
        )


@contextmanager
def _writer(out: str) -> Iterator[Write]:
    """A function that appends blocks to a file, or to standard output."""
    if out == "-":
        yield _text_writer(sys.stdout, ",")
        return
    path = Path(out)
    suffix = path.suffix.lower()
    with write_aside(out) as aside:
        if suffix in (".parquet", ".pq"):
            with _parquet_writer(aside) as write:
                yield write
            return
        inner = path.with_suffix("").suffix.lower() if suffix in _OPENERS else suffix
        opener = _OPENERS.get(suffix, open)
        with opener(aside, "wt", encoding="utf-8", newline="") as file:
            yield _text_writer(file, "\t" if inner in (".tsv", ".tab") else ",")


def _text_writer(file: Any, delimiter: str) -> Write:
    is_first = True

    def write(block: pd.DataFrame) -> None:
        nonlocal is_first
        block.to_csv(file, sep=delimiter, index=False, header=is_first, lineterminator="\n")
        is_first = False

    return write


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(block: pd.DataFrame) -> None:
        nonlocal writer
        declared = {name: str for name in block if block[name].dtype == "category"}
        table = pa.Table.from_pandas(block.astype(declared), preserve_index=False)
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema)
        writer.write_table(table.cast(writer.schema))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
