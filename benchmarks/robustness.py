"""Numbers on the data sets of the paper: finite scores over its whole grid, gradients at corners.

    python benchmarks/robustness.py --rows 300 --labels 60

More rows than in ``tests/test_numbers.py``, from which the checks come. For each set: the search of
the square loss over all 13,365 candidates, and fits of every loss at the 32 corners of the grid.
Results go to benchmarks/results/robustness.json after every set; sets that it holds are left out.
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


def main() -> None:
    """Measure the sets that are not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--labels", type=int, default=60)
    options = parser.parse_args()
    settings = {**vars(options), "date": time.strftime("%Y-%m-%d")}
    sets = load("robustness")["sets"] if (RESULTS / "robustness.json").exists() else {}
    for data in sorted(libsvm_datasets()):
        if data in sets:
            continue
        X, y = checks.real_sample(
            data, min(options.rows, libsvm_datasets()[data][1]), options.labels
        )
        sets[data] = {
            "rows": len(y),
            "grid": whole_grid(X, y),
            "corners": {name: corners(name, X, y) for name in checks.ESTIMATORS},
        }
        save("robustness", {**settings, "sets": sets})


if __name__ == "__main__":
    main()
