"""Our search as it comes, and what plain rules would have chosen from the same scores.

One search with the default grid scores every candidate on the default folds (ten, five times).
Rules of choice:

default   best mean over all folds, ties by the held-out loss
first     best mean over all folds, the first of those that tie
single    best mean over one ten-fold partition, the first of those that tie: plain t-CV as
          GridSearchCV does it; the mean test error over the five partitions
standard  the one-standard-error rule
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.base import clone

from experiments import protocol
from onefit import LapRLSClassifier, LapRLSRegressor, ManifoldSearchCV
from onefit.search.results import choose

#: From this many training rows on, the search uses this many Nystrom columns.
LARGE, COMPONENTS = 2000, 500


def model(data: protocol.Data) -> LapRLSClassifier | LapRLSRegressor:
    """LapRLS, with the Nystrom basis for thousands of rows."""
    kind = LapRLSRegressor if data.is_regression else LapRLSClassifier
    return kind(n_components=COMPONENTS if len(data.X) >= LARGE else None)


def evaluate(name: str, repeat: int) -> tuple[dict[str, float], float]:
    """Test error by rule, and seconds of the search."""
    data = protocol.load(name, repeat)
    start = time.perf_counter()
    search = ManifoldSearchCV(model(data), random_state=repeat, refit=False).fit(data.X, data.y)
    seconds = time.perf_counter() - start
    columns = search.cv_results_
    known: dict[int, float] = {}

    def error(index: int) -> float:
        if index not in known:
            known[index] = test_error(data, columns["params"][index])
        return known[index]

    scores = np.array([columns[f"split{i}_test_score"] for i in range(search.n_splits_)])
    partitions = np.split(scores, 5)
    return {
        "default": error(choose(columns, "score", "best")),
        "first": error(_first(scores)),
        "single": float(np.mean([error(_first(part)) for part in partitions])),
        "standard": error(choose(columns, "score", "one_standard_error")),
    }, seconds


def _first(scores: np.ndarray) -> int:
    """The first of the best, as GridSearchCV chooses; rounding does not decide."""
    return int(np.argmax(np.round(scores.mean(axis=0), 9)))


def test_error(data: protocol.Data, params: dict) -> float:
    """Test error of one candidate, fitted on all training rows."""
    predicted = clone(model(data)).set_params(**params).fit(data.X, data.y).predict(data.X_test)
    if data.is_regression:
        return float(np.mean(np.square(predicted - data.y_test)))
    return float(np.mean(predicted != data.y_test))
