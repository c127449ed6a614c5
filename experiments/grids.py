"""Which candidates the default grid should have: test errors of the best of several grids.

On splits that no other experiment uses, so that a grid is not chosen by the errors it is reported
with. One search scores the union of the grids; each grid's own choice is then the best of its part.

former     widths from a 64th to 16 times the median squared distance, ambient penalties from 1e-6,
           heat weights
wide       widths up to 256 times the median
wide, 1e-8 the same, and ambient penalties down to 1e-8
binary     weights of 1 in place of heat
mixed      heat weights where the Laplacian is unnormalised, 1 where it is normalised
both       heat and 1

And with widths up to 256 times the median and penalties down to 1e-8:

wide mixed, wide both
wide crossed  weights of 1 where the Laplacian is unnormalised, heat where it is normalised
wide three    all but heat weights with the normalised Laplacian

LapRLS chooses, for classes too: it scores ten thousand candidates in a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments import protocol
from onefit import LapRLSClassifier, LapRLSRegressor, ManifoldSearchCV
from onefit.estimators import ManifoldEstimator
from onefit.kernels import median_squared_distance
from onefit.search.results import choose

#: The first split; the experiments of the paper use those below.
FIRST = 100
#: From this many training rows on, the search uses this many Nystrom columns.
LARGE, COMPONENTS = 2000, 500


def grids(median: float) -> dict[str, Callable[[Mapping[str, Any]], bool]]:
    """Which candidates of the union belong to each grid."""

    def is_narrow(one: Mapping[str, Any]) -> bool:
        return one["kernel_width"] < 32 * median

    def is_usual(one: Mapping[str, Any]) -> bool:
        return one["ambient_penalty"] > 0.5e-6

    def is_heat(one: Mapping[str, Any]) -> bool:
        return one["graph_weights"] == "heat"

    def is_mixed(one: Mapping[str, Any]) -> bool:
        return is_heat(one) == (one["laplacian"] == "unnormalized")

    def is_one_of_three(one: Mapping[str, Any]) -> bool:
        return not (is_heat(one) and one["laplacian"] == "normalized")

    return {
        "former": lambda one: is_narrow(one) and is_usual(one) and is_heat(one),
        "wide": lambda one: is_usual(one) and is_heat(one),
        "wide, 1e-8": is_heat,
        "binary": lambda one: is_narrow(one) and is_usual(one) and not is_heat(one),
        "mixed": lambda one: is_narrow(one) and is_usual(one) and is_mixed(one),
        "both": lambda one: is_narrow(one) and is_usual(one),
        "wide mixed": is_mixed,
        "wide crossed": lambda one: not is_mixed(one),
        "wide three": is_one_of_three,
        "wide both": lambda one: True,
    }


def model(data: protocol.Data, repeat: int) -> ManifoldEstimator:
    """LapRLS, with the Nystrom basis for thousands of rows."""
    kind = LapRLSRegressor if data.is_regression else LapRLSClassifier
    return kind(n_components=COMPONENTS if len(data.X) >= LARGE else None, random_state=repeat)


def union(data: protocol.Data, median: float) -> dict[str, list[Any]]:
    """All candidates of all grids."""
    classes = {} if data.is_regression else {"class_weight": [None, "balanced"]}
    return {
        "kernel_width": [median * 4.0**i for i in range(-3, 5)],
        "ambient_penalty": [10.0**i for i in range(-8, 1)],
        "manifold_penalty": [0.0, *(10.0**i for i in range(-2, 6))],
        "laplacian": ["unnormalized", "normalized"],
        "graph_weights": ["heat", "binary"],
        "n_neighbors": [8],
        **classes,
    }


def evaluate(name: str, repeat: int) -> tuple[dict[str, float], float]:
    """Test error by grid, and seconds of the search over all of them."""
    data = protocol.load(name, repeat)
    median = median_squared_distance(data.X)
    start = time.perf_counter()
    with threadpool_limits(1):
        search = ManifoldSearchCV(
            model(data, repeat), union(data, median), random_state=repeat, refit=False
        ).fit(data.X, data.y)
        seconds = time.perf_counter() - start
        columns = search.cv_results_
        known: dict[int, float] = {}
        errors = {}
        for grid, belongs in grids(median).items():
            index = _best(columns, [belongs(one) for one in columns["params"]])
            if index not in known:
                chosen = model(data, repeat).set_params(**columns["params"][index])
                known[index] = data.error(chosen.fit(data.X, data.y).predict(data.X_test))
            errors[grid] = known[index]
    return errors, seconds


def _best(columns: Mapping[str, Any], inside: list[bool]) -> int:
    """The candidate that a search over a part of the candidates would choose."""
    places = np.flatnonzero(inside)
    part = {key: np.asarray(columns[key])[places] for key in ("mean_test_score", "mean_test_loss")}
    return int(places[choose(part, "score", "best")])
