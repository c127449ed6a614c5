"""Results on disk: one CSV file for each data set, written aside and renamed, never half.

Rows come in units, each the outcome of one evaluation. The last column is a checksum of all rows of
the unit, and its name one of the names: a unit counts only where all of it is whole, and is
computed again where it is not. Units are sorted, and each is there once, whoever came to store it.
"""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.common import where_measured

from onefit._files import locked, write_aside

RESULTS = Path(__file__).parent / "results"
Row = Mapping[str, Any]


def unit_of(row: Row) -> tuple[str, int, str]:
    """Data set, repeat and method of a row, as far as it has them."""
    return row.get("set", ""), int(row.get("repeat", 0)), row.get("method", "")


def read(path: Path) -> list[dict[str, str]]:
    """Rows of the units that are whole, and a notice where some are not; none without a file."""
    units, n_lost = _read_units(path)
    if n_lost:
        print(f"{path}: {n_lost} rows of damaged units are left out; run the experiment again")
    return [row for unit in units for row in unit]


def append(path: Path, rows: Iterable[Row]) -> None:
    """Add one unit to a file: all of its rows or, if the process is killed, none.

    What another process has stored of it meanwhile stays, and these rows are not needed.
    """
    unit = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent):
        units, _ = _read_units(path)
        known = {unit_of(row) for one in units for row in one}
        if known.isdisjoint(map(unit_of, unit)):
            write(path, [*units, unit])


def write(path: Path, units: Iterable[Sequence[Row]]) -> None:
    """Write a file of these units."""
    units = sorted(units, key=lambda unit: unit_of(unit[0]))
    columns = list(units[0][0])
    if any(list(row) != columns for unit in units for row in unit):
        raise ValueError(f"{path}: rows with other columns than {columns}; use another folder.")
    names = _line(columns)
    lines = [names + b",check=" + _checksum(names)]
    for unit in units:
        bodies = [_line(row.values()) for row in unit]
        end = b"," + _checksum(names, *bodies)
        lines += [body + end for body in bodies]
    try:
        with write_aside(path) as aside:
            aside.write_bytes(b"\n".join([*lines, b""]))
    except OSError as error:
        raise OSError(
            error.errno,
            f"{path} cannot be written ({error.strerror}). What it holds is good: make room, then "
            "run the same experiment again",
        ) from error


def _read_units(path: Path) -> tuple[list[list[dict[str, str]]], int]:
    """The units of a file that are whole, and how many lines belong to none."""
    if not path.exists():
        return [], 0
    first, *rest = path.read_bytes().split(b"\n")
    lines = [line for line in rest if line]
    names = _names(first)
    if names is not None:
        units = _whole_units(names, lines)
    else:  # files of a folder have the same columns
        others = (_names(other.read_bytes().split(b"\n")[0]) for other in _beside(path))
        found = (_whole_units(names, lines) for names in others if names is not None)
        units = next(filter(None, found), [])
        if lines and not units:
            raise ValueError(
                f"{path}: the first line is damaged, or it holds no results with checksums. Take "
                "the first line of another file of its kind, or remove the file to start again."
            )
    return units, len(lines) - sum(map(len, units))


def _beside(path: Path) -> list[Path]:
    return sorted(path.parent.glob("*.csv"))


def _names(line: bytes) -> bytes | None:
    """Names of the columns in a first line, without the last; None where it is damaged."""
    names, _, end = line.rpartition(b",")
    return names if end == b"check=" + _checksum(names) else None


def _whole_units(names: bytes, lines: Sequence[bytes]) -> list[list[dict[str, str]]]:
    columns = next(csv.reader([names.decode()]))
    parts = [line.rpartition(b",") for line in lines]
    units = []
    for check, group in groupby(parts, key=lambda part: part[2]):
        bodies = [body for body, _, _ in group]
        if check == _checksum(names, *bodies):
            texts = csv.reader(body.decode() for body in bodies)
            units.append([dict(zip(columns, text, strict=True)) for text in texts])
    return units


def _line(values: Iterable[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue().encode()


def _checksum(*lines: bytes) -> bytes:
    return b"%08x" % zlib.crc32(b"\n".join(lines))


def record_machine(folder: Path, name: str) -> None:
    """Write where results are made, once for each kind of machine and set of versions."""
    path = folder / "machines.json"
    here = where_measured()
    here.pop("threads", None)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        entries = known.setdefault(name, [])
        if here not in entries:
            entries.append(here)
            with write_aside(path) as aside:
                aside.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
