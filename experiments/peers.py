"""What a user would take instead, tuned with the same labels: test error and time to a tuned model.

Supervised methods see the labelled rows only. Semi-supervised methods of scikit-learn are tuned by
its GridSearchCV through our SemiSupervisedKFold, since plain folds would score unlabelled rows.
Methods that predict nothing but the rows given to them (transductive) are given the test rows as
further unlabelled rows, which is more than the others have. Our search with the model of the
paper's protocol is that of ``selection``, run again beside the others on some splits for its
seconds; ``onefit_labels`` is the same search given the labelled rows only, without a graph.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from experiments import protocol, selection
from experiments.protocol import Data
from onefit import LapRLSClassifier, LapRLSRegressor, ManifoldSearchCV, SemiSupervisedKFold
from onefit.kernels import median_squared_distance
from onefit.search.candidates import default_grid

N_FOLDS = 5
#: The splits on which our search is run beside the others, and all are timed.
TIMED = range(5)

Peer = Callable[[Data, int], np.ndarray]


def gammas(X: np.ndarray) -> list[float]:
    """The kernel widths of our default grid, as scikit-learn's gamma = 1 / (2 sigma)."""
    return [0.5 / (median_squared_distance(X) * 4.0**i) for i in range(-3, 5)]


def majority(data: Data, seed: int) -> np.ndarray:
    known = data.is_known
    dummy = DummyRegressor() if data.is_regression else DummyClassifier()
    return dummy.fit(data.X[known], data.y[known]).predict(data.X_test)


def kernel_ridge(data: Data, seed: int) -> np.ndarray:
    known = data.is_known
    grid = {"alpha": [10.0**i for i in range(-4, 3)], "gamma": gammas(data.X)}
    cv = KFold(N_FOLDS, shuffle=True, random_state=seed)
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=cv, scoring="neg_mean_squared_error")
    return search.fit(data.X[known], data.y[known]).predict(data.X_test)


def svc(data: Data, seed: int) -> np.ndarray:
    known = data.is_known
    cv = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    search = GridSearchCV(SVC(), _svc_grid(data.X), cv=cv)
    return search.fit(data.X[known], data.y[known]).predict(data.X_test)


def _svc_grid(X: np.ndarray, prefix: str = "") -> dict[str, list[float]]:
    return {
        f"{prefix}C": [10.0**i for i in range(-2, 5)],
        f"{prefix}gamma": gammas(X),
    }


def self_training(data: Data, seed: int) -> np.ndarray:
    model = SelfTrainingClassifier(_ScoredSVC(), threshold=0.9)
    grid = {f"estimator__{key}": values for key, values in _svc_grid(data.X).items()}
    return _semi_supervised(model, grid, data, seed)


class _ScoredSVC(SVC):
    """SVC with a logistic function of its decisions for probabilities: self-training needs some."""

    def predict_proba(self, X):
        positive = 1.0 / (1.0 + np.exp(-2.0 * self.decision_function(X)))
        return np.column_stack([1.0 - positive, positive])


def label_spreading(data: Data, seed: int) -> np.ndarray:
    grids = [
        {"kernel": ["knn"], "n_neighbors": [4, 8, 16], "alpha": [0.05, 0.2, 0.5, 0.9]},
        {"kernel": ["rbf"], "gamma": gammas(data.X), "alpha": [0.05, 0.2, 0.5, 0.9]},
    ]
    return _semi_supervised(LabelSpreading(max_iter=100), grids, data, seed)


def label_propagation(data: Data, seed: int) -> np.ndarray:
    grids = [
        {"kernel": ["knn"], "n_neighbors": [4, 8, 16]},
        {"kernel": ["rbf"], "gamma": gammas(data.X)},
    ]
    return _semi_supervised(LabelPropagation(max_iter=1000), grids, data, seed)


def _semi_supervised(model, grid, data: Data, seed: int) -> np.ndarray:
    cv = SemiSupervisedKFold(N_FOLDS, shuffle=True, random_state=seed)
    return GridSearchCV(model, grid, cv=cv).fit(data.X, data.y).predict(data.X_test)


def graph_laplace(data: Data, seed: int) -> np.ndarray:
    return _graphlearning("laplace", {}, data, seed)


def graph_poisson(data: Data, seed: int) -> np.ndarray:
    # Its conjugate gradients do not end on graphs that fall apart, as on a3a.
    return _graphlearning("poisson", {"solver": "gradient_descent"}, data, seed)


def _graphlearning(method: str, options: dict[str, str], data: Data, seed: int) -> np.ndarray:
    """Neighbours by cross-validation on the labels; transductive, test rows included."""
    import graphlearning as gl

    X = np.vstack([data.X, data.X_test])
    y = np.concatenate([data.y, np.full(len(data.X_test), -1)])
    known = np.flatnonzero(y != -1)
    cv = SemiSupervisedKFold(N_FOLDS, shuffle=True, random_state=seed)
    splits = list(cv.split(X, y))

    def predict(W, rows):
        return getattr(gl.ssl, method)(W, **options).fit_predict(rows, y[rows])

    distances, indices = NearestNeighbors(n_neighbors=17).fit(X).kneighbors(X)

    def graph(k):
        return gl.weightmatrix.knn(X, k, knn_data=(indices[:, : k + 1], distances[:, : k + 1]))

    scores = {}
    for k in (8, 16):
        W = graph(k)
        hits = [
            np.mean(predict(W, np.setdiff1d(known, test))[test] == y[test]) for _, test in splits
        ]
        scores[k] = np.mean(hits)
    best = max(scores, key=scores.get)
    return predict(graph(best), known)[len(data.X) :]


def onefit_laprls(data: Data, seed: int) -> np.ndarray:
    """Our search and our least squares, both as they come: the exact basis, whatever the rows."""
    model = LapRLSRegressor() if data.is_regression else LapRLSClassifier()
    search = ManifoldSearchCV(model, random_state=seed)
    return search.fit(data.X, data.y).predict(data.X_test)


def onefit_default(name: str, data: Data, seed: int) -> np.ndarray:
    """Our search as it comes, with the model of the protocol."""
    search = ManifoldSearchCV(selection.model(name, seed), random_state=seed)
    return search.fit(data.X, data.y).predict(data.X_test)


def onefit_labels(name: str, data: Data, seed: int) -> np.ndarray:
    """The same with the labelled rows only: what the unlabelled ones add is the difference."""
    known = data.is_known
    X, y = data.X[known], data.y[known]
    model = protocol.model(name).set_params(n_components=None)
    grid = {**default_grid(model, X)[0], "manifold_penalty": [0.0]}
    return ManifoldSearchCV(model, grid, random_state=seed).fit(X, y).predict(data.X_test)


CLASSIFIERS: dict[str, Peer] = {
    "majority": majority,
    "svc": svc,
    "self_training": self_training,
    "label_spreading": label_spreading,
    "label_propagation": label_propagation,
    "graph_laplace": graph_laplace,
    "graph_poisson": graph_poisson,
    "onefit_laprls": onefit_laprls,
}
REGRESSORS: dict[str, Peer] = {
    "majority": majority,
    "kernel_ridge": kernel_ridge,
}


def methods(name: str) -> dict[str, Peer]:
    """All methods for a data set; the last, ours by default, also has its errors elsewhere."""
    is_regression = protocol.is_regression(name)
    return {
        **(REGRESSORS if is_regression else CLASSIFIERS),
        "onefit_labels": partial(onefit_labels, name),
        ours(name): partial(onefit_default, name),
    }


def ours(name: str) -> str:
    """What our search is called with the model of the protocol."""
    return "onefit_laprls" if protocol.is_regression(name) else "onefit_lapsvc"


def measure(method: Peer, data: Data, seed: int) -> tuple[float, float]:
    """Test error, and seconds to a tuned model and its predictions."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # What other libraries say of empty classes, slow convergence and old names.
        warnings.simplefilter("ignore")
        predicted = method(data, seed)
    return data.error(predicted), time.perf_counter() - start
