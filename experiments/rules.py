"""Which graphs and which rule of choice suit real targets: test errors on splits kept for this.

One search scores the union of the graphs; every pair of a grid and a rule then chooses from its
part. Widths and penalties are those of the default grid.

median      heat weights of the "median" width, and weights of 1 with the normalised Laplacian
wide        the same with the width four times as large
binary      weights of 1 with both Laplacians
... + 1 SE  the most regularised candidate within one standard error of the best
wide + consensus  the default: the one in the middle of the best within one standard error
narrow + consensus  the same with kernels down to a 64th of the median, not a quarter
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments import protocol, selection
from onefit import ManifoldSearchCV
from onefit.search.candidates import default_grid
from onefit.search.results import choose

#: The first split; those of ``grids`` come before.
FIRST = 110
GRAPHS = ("median", "wide", "binary")
RULES = {"": "best", " + 1 SE": "one_standard_error"}


def evaluate(name: str, repeat: int) -> tuple[dict[str, float], float]:
    """Test error by grid and rule, and seconds of the search over all of them."""
    data = protocol.load(name, repeat)
    model = selection.model(name, repeat)
    heat, normalized = default_grid(model, data.X)
    union = [
        {**heat, "graph_width": ["median", "wide"]},
        {**heat, "graph_width": ["median"], "graph_weights": ["binary"]},
        normalized,
    ]
    start = time.perf_counter()
    with threadpool_limits(1):
        options = {"random_state": repeat, "refit": False}
        search = ManifoldSearchCV(model, union, selection="best", **options)
        columns = search.fit(data.X, data.y).cv_results_
        seconds = time.perf_counter() - start
        chosen = {}
        for graph in GRAPHS:
            part = _part(columns, graph)
            for title, rule in RULES.items():
                chosen[graph + title] = part["params"][choose(part, "score", rule)]
        grids = {"wide": [heat, normalized], "narrow": [_narrow(heat), _narrow(normalized)]}
        for title, grid in grids.items():
            search = ManifoldSearchCV(model, grid, **options)
            chosen[f"{title} + consensus"] = search.fit(data.X, data.y).best_params_
        return {title: _error(name, repeat, data, one) for title, one in chosen.items()}, seconds


def _narrow(grid: Mapping[str, Any]) -> dict[str, Any]:
    widths = grid["kernel_width"]
    return {**grid, "kernel_width": [widths[0] / 16.0, widths[0] / 4.0, *widths]}


def _error(name: str, repeat: int, data: protocol.Data, params: Mapping[str, Any]) -> float:
    fitted = selection.model(name, repeat).set_params(**params).fit(data.X, data.y)
    return data.error(fitted.predict(data.X_test))


def _part(columns: Mapping[str, Any], graph: str) -> dict[str, Any]:
    """Columns of the candidates with the normalised Laplacian and with one other graph."""
    places = np.flatnonzero([_graph(one) in ("normalized", graph) for one in columns["params"]])
    part = {k: np.asarray(v)[places] for k, v in columns.items() if "_test_" in k}
    return {**part, "params": [columns["params"][i] for i in places]}


def _graph(params: Mapping[str, Any]) -> str:
    if params["laplacian"] == "normalized":
        return "normalized"
    return "binary" if params["graph_weights"] == "binary" else str(params["graph_width"])
