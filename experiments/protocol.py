"""The paper's protocol: data, splits, candidates, folds and models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.common import paper_split
from sklearn.model_selection import ParameterGrid

from onefit import LapRLSClassifier, LapRLSRegressor, LapSVC, SemiSupervisedKFold
from onefit.datasets import libsvm_datasets
from onefit.estimators import ManifoldEstimator
from onefit.folds import Fold, check_folds
from onefit.search.candidates import paper_grid

#: Numbers of folds.
FOLDS = (5, 10, 20)
REPEATS = 30
#: Training sets of fewer rows than this, square loss, are given all candidates of the paper.
SMALL = 1000
#: Kernel width with neighbours and width of its graph, of the sub-grid; powers of two.
SUB_GRID = [(-10, 4, 0), (-4, 2, -4), (0, 8, 0), (4, 4, 2), (6, 8, 4), (8, 4, 4), (10, 2, 4)]
#: Columns of the Nystrom basis, where ``nystrom`` shows that it predicts as the exact one.
COMPONENTS = {"abalone": 600, "space_ga": 600, "cpusmall": 600}


@dataclass(frozen=True)
class Data:
    """One split of a data set."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def is_regression(self) -> bool:
        return self.y.dtype.kind == "f"

    @property
    def is_known(self) -> np.ndarray:
        """Which training rows are labelled."""
        return ~np.isnan(self.y) if self.is_regression else self.y != -1

    def error(self, predicted: np.ndarray) -> float:
        """Mean squared error on the test rows, or share of wrong classes."""
        if self.is_regression:
            return float(np.mean(np.square(predicted - self.y_test)))
        return float(np.mean(predicted != self.y_test))


def names() -> list[str]:
    """The 18 data sets, those that take longest last."""
    by_rows = sorted(libsvm_datasets(), key=lambda name: libsvm_datasets()[name][1])
    return sorted(by_rows, key=lambda name: name == "mg")


def is_regression(name: str) -> bool:
    return libsvm_datasets()[name][0] == "regression"


def load(name: str, repeat: int) -> Data:
    """Split number ``repeat``: attributes standardised, 70 % to train on, a tenth of it labelled.

    Real targets are standardised by the labelled ones; classes are 0 and 1, unlabelled rows -1.
    """
    split = paper_split(name, seed=repeat)
    if is_regression(name):
        known = split.y[split.labelled]
        mean, std = known.mean(), known.std()
        y = np.where(split.labelled, (split.y - mean) / std, np.nan)
        return Data(split.X, y, split.X_test, (split.y_test - mean) / std)
    y = np.where(split.labelled, split.y > 0, -1).astype(int)
    return Data(split.X, y, split.X_test, (split.y_test > 0).astype(int))


def can_fit(name: str, repeat: int) -> bool:
    """Whether labels of two classes are among those of a split; w1a has few of the second."""
    data = load(name, repeat)
    return data.is_regression or np.unique(data.y).size == 3


def model(name: str) -> ManifoldEstimator:
    """LapRLS for regression; the paper's LapSVM, hinge smoothed over 0.01, for classes."""
    if is_regression(name):
        return LapRLSRegressor(n_components=COMPONENTS.get(name), landmarks="rpcholesky")
    return LapSVC(hinge_width=0.01, n_components=COMPONENTS.get(name), landmarks="rpcholesky")


def candidates(name: str, n_rows: int) -> list[dict[str, Any]]:
    """All 13,365 candidates of the paper, or the sub-grid of 315 that spans its ranges."""
    if is_regression(name) and n_rows < SMALL:
        return list(ParameterGrid(paper_grid()))
    grids = [
        {
            "kernel_width": [2.0**width],
            "n_neighbors": [k],
            "graph_width": [2.0**graph_width],
            "ambient_penalty": [10.0**i for i in range(-6, 3)],
            "manifold_penalty": [10.0**i for i in range(-6, 3, 2)],
        }
        for width, k, graph_width in SUB_GRID
    ]
    return list(ParameterGrid(grids))


def script_model(name: str) -> ManifoldEstimator:
    """LapRLS for classes, too, as in the script of one of the authors."""
    kind = LapRLSRegressor if is_regression(name) else LapRLSClassifier
    return kind(n_components=COMPONENTS.get(name), landmarks="rpcholesky")


def script_candidates(n_labels: int) -> list[dict[str, Any]]:
    """The 36 candidates of the script, in our scale.

    Its kernels are exp(-2^s d^2), its edges those to five neighbours and exp(-d^2 / 2), and its
    objective has lambda_A / l for gamma_A.
    """
    grid = {
        "kernel_width": [2.0 ** (-s - 1) for s in (-12, -10, -8, -6)],
        "n_neighbors": [5],
        "graph_width": [1.0],
        "ambient_penalty": [value / n_labels for value in (0.001, 0.01, 0.1)],
        "manifold_penalty": [0.01, 0.1, 1.0],
    }
    return list(ParameterGrid(grid))


def folds(data: Data, labelled: np.ndarray, t: int, repeat: int) -> list[Fold]:
    """Folds of labelled and of unlabelled rows: t, or as many as there are labels if fewer."""
    n_splits = min(t, int(labelled.sum()))
    cv = SemiSupervisedKFold(n_splits, shuffle=True, random_state=100 * repeat + t)
    return check_folds(list(cv.split(data.X, data.y)), labelled)
