"""``onefit inspect``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from onefit.cli.outputs import read_model
from onefit.cli.text import as_pairs, bullet, show_number

__all__ = ["run"]


def run(options: argparse.Namespace) -> None:
    """Say what a model file holds."""
    model, metadata = read_model(options.model)
    facts = {
        **metadata,
        "file_bytes": Path(options.model).stat().st_size,
        "expansion_rows": len(model[-1].support_),
    }
    print(json.dumps(facts, allow_nan=False) if options.json else _as_text(facts))


def _as_text(facts: dict[str, Any]) -> str:
    score, error = (show_number(facts[name]) for name in ("cv_score", "standard_error"))
    general = [
        ("estimator", facts["estimator"]),
        ("task", facts["task"]),
        ("target", facts["target"]),
        ("classes", ", ".join(map(str, facts["classes"] or [])) or "-"),
        ("trained on", f"{facts['rows']:,} rows, {facts['labels']:,} of them labelled"),
        ("kernel rows kept", f"{facts['expansion_rows']:,}"),
        ("file", f"{facts['file_bytes']:,} bytes"),
        ("made", f"{facts['created']} by onefit {facts['onefit']}"),
        ("versions", ", ".join(f"{k} {v}" for k, v in facts["versions"].items())),
        ("command", facts["command"]),
    ]
    scores = [
        (facts["scoring"], f"{score} (standard error about {error})"),
        ("corrected for choosing", facts["corrected_score"]),
    ]
    scores += [(one["name"], one["cv_score"]) for one in facts["baselines"]]
    parts = [
        ("Model", as_pairs(general)),
        ("Parameters", as_pairs(facts["best_params"].items())),
        ("Cross-validated score", as_pairs(scores)),
        ("Columns", as_pairs(facts["columns"].items())),
        ("Data and decisions", "\n".join(bullet(str(note)) for note in facts["notes"])),
    ]
    return "\n\n".join(f"{title}\n{text}" for title, text in parts)
