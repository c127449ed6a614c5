"""Results on disk: one CSV file for each data set, written aside and renamed, never half."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import where_measured

from onefit._files import write_aside

RESULTS = Path(__file__).parent / "results"


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file; none when there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to a CSV file: all of them or, if the process is killed, none."""
    rows = [*read(path), *rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_aside(path) as aside, aside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def record_machine(folder: Path, name: str) -> None:
    """Write where results are made, once for each kind of machine and set of versions."""
    path = folder / "machines.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    here = where_measured()
    here.pop("threads", None)
    entries = known.setdefault(name, [])
    if here not in entries:
        entries.append(here)
        folder.mkdir(parents=True, exist_ok=True)
        with write_aside(path) as aside:
            aside.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
