"""Tables from files: CSV, TSV, Parquet, ARFF and LIBSVM, plain or compressed, whole or in blocks.

Cells of text formats come as they are written, as strings: what they mean is decided by
:mod:`onefit.preparation`. Columns of formats that declare types come with these types.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import itertools
import lzma
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file

__all__ = ["FORMATS", "MAX_BYTES", "TableError", "iter_table", "read_table"]

#: Names of the formats.
FORMATS = ("csv", "tsv", "parquet", "arff", "libsvm")
#: What a file may expand to, in bytes, unless told otherwise.
MAX_BYTES = 2 * 10**9
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arff": "arff",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".svm": "libsvm",
}
_COMPRESSED: Mapping[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
_COMPRESSION_SUFFIXES = (".gz", ".xz", ".bz2")
#: First bytes of files that are no tables, and what to do about them.
_STRANGERS = {
    b"PK\x03\x04": "a zip archive or an Excel file; unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save the sheet as CSV",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"%PDF": "a PDF document; export the table as CSV",
}
_BOM = b"\xef\xbb\xbf"
_PEEK = 2**16
_BLOCK_CELLS = 10**6
_LONGEST_LINE = 2**24
_MOST_COLUMNS = 10**5
_LIBSVM_LINE = re.compile(rb"\s*[-+]?[\w.+-]+(\s+(qid:)?\d+:\S+)+\s*(#.*)?$")
_DELIMITERS = ",;\t|"


class TableError(ValueError):
    """A file that cannot be read as a table; the message is one line."""

    def __init__(self, message: str) -> None:
        # What libraries say, and names of files, may have line ends.
        super().__init__(" ".join(message.split()))


@dataclass(frozen=True)
class _Source:
    """An open file: its name for messages, its bytes decompressed, and its format."""

    name: str
    stream: io.BufferedReader
    format: str
    max_bytes: int

    def error(self, what: str) -> TableError:
        """An error that names the file."""
        return TableError(f"{self.name}: {what}")


def read_table(
    path: str | os.PathLike[str], *, format: str | None = None, max_bytes: int = MAX_BYTES
) -> pd.DataFrame:
    """The whole table.

    Parameters
    ----------
    path : path-like
        File, or ``"-"`` for standard input.
    format : str, optional
        One of ``FORMATS``; by the file's name or first bytes when None.
    max_bytes : int
        Most bytes that the file may hold, after decompression.

    Returns
    -------
    DataFrame
        Text formats have strings in all cells. LIBSVM files have the columns ``target`` and
        ``x1``, ``x2`` and so on.
    """
    with _opened(path, format, max_bytes) as source:
        return _joined(list(_blocks(source, None)))


def _joined(blocks: list[pd.DataFrame]) -> pd.DataFrame:
    if len(blocks) == 1:
        return blocks[0]
    widest = max(blocks, key=lambda block: block.shape[1])
    blocks = [_with_columns(block, list(widest.columns)) for block in blocks]
    whole = pd.concat(blocks, ignore_index=True)
    # Blocks with different categories become plain text when they are joined.
    declared = [name for name in widest if isinstance(widest[name].dtype, pd.CategoricalDtype)]
    return whole.astype(dict.fromkeys(declared, "category"))


def iter_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Iterator[pd.DataFrame]:
    """The table in blocks of rows, of about a million cells each.

    Parameters
    ----------
    path, format, max_bytes
        As in :func:`read_table`.
    columns : sequence of str, optional
        Columns that a LIBSVM file shall have: those it does not name are 0, others are left out.
    """
    with _opened(path, format, max_bytes) as source:
        yield from _blocks(source, columns)


def _blocks(source: _Source, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
    """Blocks of a source, their rows numbered through; at least one row."""
    n_rows = 0
    for block in _READERS[source.format](source, columns):
        block.index = pd.RangeIndex(n_rows, n_rows + len(block))
        n_rows += len(block)
        yield block
    if not n_rows:
        raise source.error("has no rows below its header; expected at least one.")


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str], format: str | None, max_bytes: int) -> Iterator[_Source]:
    """The source, with every error of reading it turned into a TableError."""
    name = "standard input" if str(path) == "-" else str(path) or "''"
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(_raw_bytes(path, name))
        try:
            stream = stack.enter_context(_decompressed(raw, name, max_bytes))
            head = stream.peek(_PEEK)[:_PEEK]
            if not head.strip(b"\r\n\t " + _BOM):
                raise TableError(f"{name}: is empty; expected a table with a header and rows.")
            yield _Source(name, stream, format or _guess_format(str(path), head), max_bytes)
        except (OSError, lzma.LZMAError, EOFError, zlib.error) as error:
            raise TableError(
                f"{name}: is damaged or cut short ({error}); get a whole copy."
            ) from error
        except UnicodeDecodeError as error:
            raise TableError(
                f"{name}: is not UTF-8 text (byte 0x{error.object[error.start]:02x}); convert it, "
                "for instance by iconv -f latin1 -t utf-8."
            ) from error
        except csv.Error as error:
            raise TableError(f"{name}: {error}; expected quotes to be closed.") from error


@contextlib.contextmanager
def _raw_bytes(path: str | os.PathLike[str], name: str) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115
    except IsADirectoryError:
        raise TableError(f"{name}: is a folder; expected a file.") from None
    except (OSError, ValueError) as error:
        # A ValueError is a NUL in the name.
        reason = getattr(error, "strerror", None) or error
        raise TableError(f"{name}: cannot be read ({reason}); expected a file.") from error
    with file:
        yield file


class _Limited(io.RawIOBase):
    """A stream that refuses to give more than a number of bytes."""

    def __init__(self, stream: BinaryIO, name: str, max_bytes: int) -> None:
        self._stream = stream
        self._name = name
        self._max_bytes = max_bytes
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._given += len(data)
        if self._given > self._max_bytes:
            raise TableError(
                f"{self._name}: expands to more than {self._max_bytes:,} bytes; if it is meant to "
                "be that large, raise --max-bytes."
            )
        buffer[: len(data)] = data
        return len(data)


@contextlib.contextmanager
def _decompressed(raw: BinaryIO, name: str, max_bytes: int) -> Iterator[io.BufferedReader]:
    buffered = io.BufferedReader(raw, _PEEK) if not hasattr(raw, "peek") else raw  # type: ignore[type-var]
    head = buffered.peek(8)
    opener = next((tool for magic, tool in _COMPRESSED.items() if head.startswith(magic)), None)
    stream = buffered if opener is None else opener(buffered)
    yield io.BufferedReader(_Limited(stream, name, max_bytes), _PEEK)


def _guess_format(path: str, head: bytes) -> str:
    """Format by the name of the file, or by its first bytes."""
    base = path.lower()
    for suffix in _COMPRESSION_SUFFIXES:
        base = base.removesuffix(suffix)
    by_name = _SUFFIXES.get(os.path.splitext(base)[1])
    if by_name is not None:
        return by_name
    if head.startswith(b"PAR1"):
        return "parquet"
    lines = [line for line in head.removeprefix(_BOM).splitlines() if line.strip()]
    first = next((line for line in lines if not line.startswith((b"%", b"#"))), b"")
    if first.lower().lstrip().startswith(b"@relation"):
        return "arff"
    if _LIBSVM_LINE.match(first):
        return "libsvm"
    return "csv"


def _text(source: _Source) -> Iterator[str]:
    """Lines of UTF-8 text; binary files are refused."""
    head = source.stream.peek(_PEEK)[:_PEEK]
    for magic, what in _STRANGERS.items():
        if head.startswith(magic):
            raise source.error(f"is {what}.")
    if b"\x00" in head:
        raise source.error(
            f"is not text (it has NUL bytes); expected {source.format.upper()}. Say --format if it "
            "is another format."
        )
    text = io.TextIOWrapper(source.stream, encoding="utf-8-sig", newline="")
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise source.error(f"has a line of more than {_LONGEST_LINE:,} characters; mend it.")
        if "\x00" in line:
            raise source.error("has NUL bytes in its text; remove them, or get a whole copy.")
        yield line
    text.detach()


# CSV and TSV.


def _read_delimited(source: _Source, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
    lines = _text(source)
    first = next((line for line in lines if line.strip()), "")
    delimiter = "\t" if source.format == "tsv" else _delimiter_of(first)
    rows = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
    names = _column_names(source, next(rows))
    yield from _text_blocks(source, rows, names)


def _delimiter_of(line: str) -> str:
    """The commonest separator of a header, quoted parts left out."""
    bare = re.sub(r'"[^"]*"', "", line)
    return max(_DELIMITERS, key=bare.count)


def _column_names(source: _Source, header: Sequence[str]) -> list[str]:
    if not header:
        raise source.error("has no columns; expected a header that names them.")
    if len(header) > _MOST_COLUMNS:
        raise source.error(
            f"has {len(header):,} columns; expected at most {_MOST_COLUMNS:,}. Use Python and "
            "sparse matrices."
        )
    names = [name.strip() or f"column {i}" for i, name in enumerate(header, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise source.error(f"has two columns named {twice[0]!r}; rename one of them.")
    return names


def _text_blocks(source: _Source, rows: Any, names: list[str]) -> Iterator[pd.DataFrame]:
    """Blocks of strings; every row must have as many cells as there are names."""
    size = max(100, _BLOCK_CELLS // len(names))
    checked = (row for row in rows if row and _has_length(source, rows, row, len(names)))
    while block := list(itertools.islice(checked, size)):
        yield pd.DataFrame(block, columns=names, dtype=str)


def _has_length(source: _Source, rows: Any, row: Sequence[str], n_columns: int) -> bool:
    if len(row) != n_columns:
        raise source.error(
            f"has {len(row)} cells in line {rows.line_num}, but {n_columns} columns; mend the line."
        )
    return True


# ARFF.

_ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)\s+(\{.*\}|\S+)""", re.IGNORECASE
)
_ARFF_NUMBERS = ("numeric", "real", "integer")


def _read_arff(source: _Source, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
    lines = (line for line in _text(source) if line.strip() and not line.startswith("%"))
    kinds = _arff_header(source, lines)
    names = _column_names(source, list(kinds))
    head = next(lines, "")
    if head.lstrip().startswith("{"):
        raise source.error("is a sparse ARFF file; convert it to LIBSVM or to a dense ARFF file.")
    rows = csv.reader(
        itertools.chain([head], lines),
        quotechar='"' if head.count('"') > head.count("'") else "'",
        escapechar="\\",
        skipinitialspace=True,
        strict=True,
    )
    for block in _text_blocks(source, rows, names):
        yield pd.DataFrame(
            {name: _arff_column(source, block[name].str.strip(), kinds[name]) for name in names}
        )


def _arff_header(source: _Source, lines: Iterator[str]) -> dict[str, str]:
    """Types of the attributes by name."""
    kinds: dict[str, str] = {}
    for line in lines:
        word = line.split(maxsplit=1)[0].lower()
        if word == "@data":
            break
        if word == "@relation":
            continue
        found = _ATTRIBUTE.match(line.strip())
        if not found:
            raise source.error(f"has the line {line.strip()[:60]!r} in its header; expected ARFF.")
        name = re.sub(r"\\(.)", r"\1", found[1].strip("'\""))
        if name in kinds:
            raise source.error(f"has two columns named {name!r}; rename one of them.")
        kinds[name] = "nominal" if found[2].startswith("{") else found[2].lower()
    if not kinds:
        raise source.error("declares no @attribute; expected ARFF.")
    return kinds


def _arff_column(source: _Source, column: pd.Series[Any], kind: str) -> pd.Series[Any]:
    known = column.mask(column == "?")
    if kind == "nominal":
        return known.astype("category")
    if kind not in _ARFF_NUMBERS:
        return known
    try:
        return pd.to_numeric(known).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise source.error(f"column {column.name!r} is declared {kind}, but {error}.") from error


# LIBSVM.


def _read_libsvm(source: _Source, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
    if b"\x00" in source.stream.peek(_PEEK)[:_PEEK]:
        raise source.error("is not text (it has NUL bytes); expected LIBSVM.")
    first = 0
    while lines := source.stream.readlines(_LONGEST_LINE):
        try:
            X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
        except (ValueError, OverflowError) as error:
            raise source.error(
                f"has lines from {first + 1} that are no LIBSVM: {error}; expected lines such as "
                "'1 1:0.5 3:2'."
            ) from error
        first += len(lines)
        if 8 * X.shape[0] * X.shape[1] > source.max_bytes:
            raise source.error(
                f"has {X.shape[1]:,} columns, too many for a table of {source.max_bytes:,} bytes; "
                "use Python and sparse matrices, or raise --max-bytes."
            )
        if X.shape[0]:
            yield _libsvm_frame(X, y, columns)


def _libsvm_frame(X: Any, y: Any, columns: Sequence[str] | None) -> pd.DataFrame:
    names = [f"x{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(X.toarray(), columns=names)
    if names and not X[:, [0]].nnz:
        frame = frame.drop(columns="x0")
    frame.insert(0, "target", y)
    return frame if columns is None else _with_columns(frame, ["target", *columns])


def _with_columns(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """These columns; those that no line named are 0."""
    return frame.reindex(columns=list(dict.fromkeys(columns)), fill_value=0.0)


# Parquet.

_TEXT_TYPES = ("string", "large_string", "binary", "large_binary")
_ROW_LABELS = re.compile(r"__index_level_\d+__")


def _read_parquet(source: _Source, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow; install it with onefit[all].") from error
    try:
        content = io.BytesIO(source.stream.read())
        file = pq.ParquetFile(content)
        _check_parquet_size(source, file.metadata)
        # A text that is stored once and used often stays one text in memory.
        text = [one.name for one in file.schema_arrow if str(one.type) in _TEXT_TYPES]
        file = pq.ParquetFile(content, read_dictionary=text)
        names = _column_names(source, file.schema_arrow.names)
        schema = _plain_schema(source, pa, file.schema_arrow)
        # Row labels that pandas wrote are no column.
        labels = [name for name in names if _ROW_LABELS.fullmatch(name)]
        for batch in file.iter_batches(batch_size=max(100, _BLOCK_CELLS // max(1, len(names)))):
            block = pa.Table.from_batches([batch]).cast(schema).to_pandas()
            yield _declared_text(block.set_axis(names, axis="columns").drop(columns=labels))
    except (pa.ArrowException, OSError) as error:
        raise source.error(f"is no Parquet file that can be read ({error}).") from error


def _check_parquet_size(source: _Source, metadata: Any) -> None:
    declared = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    cells = 8 * metadata.num_rows * metadata.num_columns
    if max(declared, cells) > source.max_bytes:
        raise source.error(
            f"expands to {max(declared, cells):,} bytes, more than {source.max_bytes:,}; if it is "
            "meant to be that large, raise --max-bytes."
        )


def _plain_schema(source: _Source, pa: Any, schema: Any) -> Any:
    """The schema with decimals as floats and without the notes of pandas; one value a cell."""
    for i, column in enumerate(schema):
        if pa.types.is_nested(column.type):
            raise source.error(
                f"column {column.name!r} holds {column.type}; expected one number, text, date or "
                "truth value a cell. Leave the column out of the file."
            )
        if pa.types.is_decimal(column.type):
            schema = schema.set(i, column.with_type(pa.float64()))
    return schema.remove_metadata()


def _declared_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Text of a format that could have declared numbers is a category."""
    text = [name for name in frame if pd.api.types.is_string_dtype(frame[name].dtype)]
    return frame.astype(dict.fromkeys(text, "category"))


_READERS: Mapping[str, Callable[[_Source, Sequence[str] | None], Iterator[pd.DataFrame]]] = {
    "csv": _read_delimited,
    "tsv": _read_delimited,
    "arff": _read_arff,
    "libsvm": _read_libsvm,
    "parquet": _read_parquet,
}
