"""What the benchmark scripts share: data, interleaved timing, and where a result was measured."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

import onefit
from onefit.datasets import load_libsvm_data

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"
IMAGES = DOCS / "images"


@dataclass(frozen=True)
class Split:
    """A data set as in the paper: 70 % of the rows to train on, a tenth of them labelled."""

    X: np.ndarray
    y: np.ndarray
    labelled: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def paper_split(name: str, seed: int = 0) -> Split:
    """Read a data set, split it at random and standardise its columns on the training rows.

    Classes are -1.0 and 1.0.
    """
    data = load_libsvm_data(name)
    X = data.data.toarray() if sparse.issparse(data.data) else data.data
    y = 2.0 * data.target - 1.0 if data.task == "classification" else data.target
    rng = np.random.default_rng(seed)
    rows = rng.permutation(X.shape[0])
    train, test = np.split(rows, [int(0.7 * rows.size)])
    scaler = StandardScaler().fit(X[train])
    labelled = np.zeros(train.size, dtype=bool)
    labelled[rng.permutation(train.size)[: train.size // 10]] = True
    X = scaler.transform(X)
    return Split(X[train], y[train], labelled, X[test], y[test])


def interleaved(jobs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every job in every repeat; jobs take turns, so that noise falls on all alike."""
    for job in jobs.values():
        job()  # warm up
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def where_measured() -> dict[str, Any]:
    """Machine and versions."""
    pools = threadpool_info()
    libraries = {f"{pool['internal_api']} {pool['version']}" for pool in pools if pool["version"]}
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": {pool["internal_api"]: pool["num_threads"] for pool in pools},
        "blas": ", ".join(sorted(libraries)),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "onefit": onefit.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def save(name: str, result: Mapping[str, Any]) -> None:
    """Write raw results with the place of measurement."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(
        json.dumps({"measured": where_measured(), **result}, indent=1) + "\n", encoding="utf-8"
    )
    print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def load(name: str) -> dict[str, Any]:
    """Read raw results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def write_table(
    name: str, header: list[str], rows: list[list[str]], result: Mapping[str, Any]
) -> None:
    """Write docs/tables/NAME.md, with machine and versions below the table; print it too."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    where = result["measured"]
    versions = ", ".join(f"{k} {where[k]}" for k in ("python", "numpy", "scipy", "scikit-learn"))
    lines += ["", f"Measured on {where['processor']}, {where['cores']} cores; {versions}."]
    folder = DOCS / "tables"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines), end="\n\n")
