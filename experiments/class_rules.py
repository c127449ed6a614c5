"""Which candidates and which rule of choice suit classes: test errors on splits kept for this.

One search scores the candidates of the default grid as it was when this was run: kernels from a
64th of the median squared distance on, with and without class weights, two graphs. Every rule then
chooses from its part of them.

all          the best mean score, ties by the held-out loss
from 1/16    the same among kernels of at least this share of the median
from 1/4
from 1
unweighted   without class weights
heat         heat weights with the unnormalised Laplacian only
normalized   weights of 1 with the normalised Laplacian only
loss         the best held-out loss
margin       the largest held-out margin for its scale
... + 1 SE   the most regularised candidate within one standard error of the best
... + margin the one with the largest margin within one standard error: the default
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments import protocol, selection
from onefit import ManifoldSearchCV
from onefit.kernels import median_squared_distance
from onefit.search.candidates import default_grid
from onefit.search.results import choose

#: The first split, as of ``rules``.
FIRST = 110
#: Powers of 4 of the median that are kernel widths.
WIDTHS = range(-3, 5)

#: Rules among candidates within one standard error of the best.
RULES = {"one_standard_error": "1 SE", "margin": "margin"}

Belongs = Callable[[Mapping[str, Any]], bool]


def parts(median: float) -> dict[str, Belongs]:
    """Which candidates every rule chooses from."""

    def from_width(power: int) -> Belongs:
        return lambda one: one["kernel_width"] > 0.9 * median * 4.0**power

    def is_unweighted(one: Mapping[str, Any]) -> bool:
        return one["class_weight"] is None

    return {
        "all": lambda one: True,
        "from 1/16": from_width(-2),
        "from 1/4": from_width(-1),
        "from 1": from_width(0),
        "unweighted": is_unweighted,
        "heat": lambda one: one["laplacian"] == "unnormalized",
        "normalized": lambda one: one["laplacian"] == "normalized",
    }


def evaluate(name: str, repeat: int) -> tuple[dict[str, float], float]:
    """Test error by rule, and seconds of the search."""
    data = protocol.load(name, repeat)
    model = selection.model(name, repeat)
    median = median_squared_distance(data.X)
    widths = [median * 4.0**i for i in WIDTHS]
    grid = [{**one, "kernel_width": widths} for one in default_grid(model, data.X)]
    known: dict[int, float] = {}

    def error(index: int) -> float:
        if index not in known:
            chosen = selection.model(name, repeat).set_params(**columns["params"][index])
            known[index] = data.error(chosen.fit(data.X, data.y).predict(data.X_test))
        return known[index]

    start = time.perf_counter()
    with threadpool_limits(1):
        search = ManifoldSearchCV(model, grid, random_state=repeat, refit=False)
        columns = search.fit(data.X, data.y).cv_results_
        seconds = time.perf_counter() - start
        errors = {}
        for title, belongs in parts(median).items():
            places = np.flatnonzero([belongs(one) for one in columns["params"]])
            part = {
                k: np.asarray(v)[places]
                for k, v in columns.items()
                if "_test_" in k or k == "margin"
            }
            part["params"] = [columns["params"][i] for i in places]
            errors[title] = error(int(places[choose(part, "score", "best")]))
            if title in ("all", "from 1/4"):
                for rule, words in RULES.items():
                    errors[f"{title} + {words}"] = error(int(places[choose(part, "score", rule)]))
                lowest = int(places[np.argmin(part["mean_test_loss"])])
                errors["loss" if title == "all" else f"{title}, loss"] = error(lowest)
        errors["margin"] = error(int(np.argmax(columns["margin"])))
    return errors, seconds
