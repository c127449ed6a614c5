"""Our search as it comes, and what plain rules would have chosen from the same scores.

One search with the default grid scores every candidate on the default folds: ten, three times over,
and five times for LapRLS. The model is the one of the paper's protocol. Rules of choice:

default   what the search chooses: "margin" for classes, "consensus" for real targets
best      best mean over all folds, ties by the held-out loss
first     best mean over all folds, the first of those that tie
single    best mean over one ten-fold partition, the first of those that tie: plain t-CV as
          GridSearchCV does it; the mean test error over the partitions
standard  the one-standard-error rule
"""

from __future__ import annotations

import time

import numpy as np

from experiments import protocol
from onefit import ManifoldSearchCV
from onefit.estimators import ManifoldEstimator
from onefit.search.results import choose

#: Folds of one partition.
T = 10


def model(name: str, repeat: int) -> ManifoldEstimator:
    """The model of the protocol, its landmarks seeded."""
    return protocol.model(name).set_params(random_state=repeat)


def evaluate(name: str, repeat: int) -> tuple[dict[str, float], float]:
    """Test error by rule, and seconds to the tuned model and its predictions."""
    data = protocol.load(name, repeat)
    start = time.perf_counter()
    search = ManifoldSearchCV(model(name, repeat), random_state=repeat, refit=False)
    search.fit(data.X, data.y)
    columns = search.cv_results_
    known: dict[int, float] = {}

    def error(index: int) -> float:
        if index not in known:
            chosen = model(name, repeat).set_params(**columns["params"][index])
            known[index] = data.error(chosen.fit(data.X, data.y).predict(data.X_test))
        return known[index]

    default = error(search.best_index_)
    seconds = time.perf_counter() - start
    scores = np.array([columns[f"split{i}_test_score"] for i in range(search.n_splits_)])
    partitions = np.split(scores, max(1, search.n_splits_ // T))
    return {
        "default": default,
        "best": error(choose(columns, "score", "best")),
        "first": error(_first(scores)),
        "single": float(np.mean([error(_first(part)) for part in partitions])),
        "standard": error(choose(columns, "score", "one_standard_error")),
    }, seconds


def _first(scores: np.ndarray) -> int:
    """The first of the best, as GridSearchCV chooses; rounding does not decide."""
    return int(np.argmax(np.round(scores.mean(axis=0), 9)))
