"""Numbers on the data sets of the paper: scores and gradients over its whole grid.

    python benchmarks/robustness.py --rows 200 --labels 40 --sample 2000

More rows than in ``tests/test_numbers.py``, from which the checks come. For each set: the search of
the square loss over all 13,365 candidates; single fits of every loss at the 32 corners of the grid;
fits by the bases of the search, with and without intercept, of the whole grid for the square loss
and of a random sample for the others. The last also for the hostile data of the tests. Results go
to benchmarks/results/robustness.json after every set; what it holds already is left out.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save
from sklearn.base import clone

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import reference
import test_numbers as checks
from onefit import LapRLSClassifier, ManifoldSearchCV
from onefit.datasets import libsvm_datasets
from onefit.search.candidates import group_candidates


def whole_grid(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Scores and warnings of the search over the paper's grid."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search = ManifoldSearchCV(LapRLSClassifier(), "paper", cv=5).fit(X, y)
    columns = [search.cv_results_[name] for name in ("mean_test_score", "mean_test_loss")]
    return {
        "candidates": len(columns[0]),
        "not_finite": int(sum((~np.isfinite(column)).sum() for column in columns)),
        "warnings": sorted({f"{one.category.__name__}: {one.message}" for one in caught}),
        "seconds": round(search.search_time_, 1),
    }


def corners(name: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fits at the corners: how many stopped short, and the largest gradient of the others."""
    estimator, loss = checks.ESTIMATORS[name]
    kernels = {width: reference.gaussian_kernel(X, X, width) for width in checks.WIDTHS}
    gradients, stopped = [], 0
    for params in checks.CORNERS:
        model = clone(estimator).set_params(**params)
        if checks.quiet_fit(model, X, checks.targets_for(model, y)):
            kernel = kernels[params["kernel_width"]]
            gradients.append(checks.largest_gradient(model, loss, kernel, y))
        else:
            stopped += 1
    return {"fits": len(checks.CORNERS), "stopped": stopped, "gradient": float(max(gradients))}


def gradients(name: str, X: np.ndarray, y: np.ndarray, sample: int | None) -> dict[str, Any]:
    """Fits of the grid with and without intercept, or of a sample: as for the corners."""
    estimator, loss = checks.ESTIMATORS[name]
    both = [{**p, "fit_intercept": one} for one in (False, True) for p in checks.WHOLE_GRID]
    if sample is not None:
        chosen = np.random.default_rng(sample).permutation(len(both))[:sample]
        both = [both[i] for i in chosen]
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = checks.plane_gradients(loss, X, y, group_candidates(estimator, both))
    return {
        "fits": len(both),
        "stopped": int(np.isnan(found).sum()),
        "not_finite": int(np.isinf(found).sum()),
        "gradient": float(np.nanmax(found)),
        "at": both[int(np.nanargmax(found))],
        "warnings": sorted({f"{one.category.__name__}: {one.message}" for one in caught}),
        "seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    """Measure what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--labels", type=int, default=60)
    parser.add_argument("--sample", type=int, default=2000, help="fits of losses but the square")
    options = parser.parse_args()
    settings = {**vars(options), "date": time.strftime("%Y-%m-%d")}
    known = load("robustness") if (RESULTS / "robustness.json").exists() else {}
    sets, hostile = known.get("sets", {}), known.get("hostile", {})
    for data in sorted(libsvm_datasets()):
        n_rows = min(options.rows, libsvm_datasets()[data][1])
        X, y = checks.real_sample(data, n_rows, options.labels)
        entry = sets.setdefault(data, {"rows": len(y)})
        if "grid" not in entry:
            entry["grid"] = whole_grid(X, y)
            entry["corners"] = {name: corners(name, X, y) for name in checks.ESTIMATORS}
        _add_gradients(entry, X, y, options.sample)
        save("robustness", {**settings, "sets": sets, "hostile": hostile})
    for data, make in checks.HOSTILE.items():
        X, y = make()
        _add_gradients(hostile.setdefault(data, {"rows": len(y)}), X, y, options.sample)
        save("robustness", {**settings, "sets": sets, "hostile": hostile})


def _add_gradients(entry: dict[str, Any], X: np.ndarray, y: np.ndarray, sample: int) -> None:
    if "gradients" not in entry:
        entry["gradients"] = {
            name: gradients(name, X, y, None if name == "square" else sample)
            for name in checks.LOSSES
        }


if __name__ == "__main__":
    main()
