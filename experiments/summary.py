"""What is kept of a unit: the choice of every criterion, and how it ranks the candidates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import rankdata

from experiments import protocol
from experiments.unit import CRITERIA, Table

#: Scores closer than this are equal: the share of wrong labels is a multiple of 1/l.
_TIE = 1e-9


def rows(name: str, repeat: int, table: Table, with_parts: bool = True) -> Iterator[dict[str, Any]]:
    """Rows for the results: all candidates, and parts: from gamma_A = 1e-3 on, and by gamma_A."""
    ambient = np.array([p["ambient_penalty"] for p in table.params])
    subsets, levels = {"all": np.ones(ambient.shape, dtype=bool)}, {}
    if with_parts:
        subsets["from 1e-3"] = ambient > 0.9e-3
        levels = {f"{level:.0e}": ambient == level for level in np.unique(ambient)}
    for j, t in enumerate(protocol.FOLDS):
        for criterion in CRITERIA:
            for subset, mask in {**subsets, **(levels if t == 10 else {})}.items():
                yield {
                    "set": name,
                    "repeat": repeat,
                    "t": t,
                    "criterion": criterion,
                    "candidates": subset,
                    **_choice(table, criterion, j, mask),
                }


def _choice(table: Table, criterion: str, j: int, mask: np.ndarray) -> dict[str, Any]:
    errors = _finite(table.errors[criterion][mask, j])
    losses = _finite(table.losses[criterion][mask, j])
    exact = _finite(table.errors["exact"][mask, j])
    test = table.test_error[mask]
    best = np.flatnonzero(errors <= errors.min() + _TIE)
    chosen = best[np.argmin(losses[best])]
    params = [p for p, inside in zip(table.params, mask, strict=True) if inside][chosen]
    # Ties are broken at random: the expected test error, free of the order of the grid.
    return {
        "test": _short(test[best].mean()),
        "test_by_loss": _short(test[chosen]),
        "best_test": _short(test.min()),
        "cv": _short(errors.min()),
        "exact_cv": _short(exact[chosen]),
        "ties": best.size,
        "rank_correlation": _short(_rank_correlation(errors, exact)),
        "distance": _short(np.median(np.abs(errors - exact)) / max(np.median(exact), 1e-12)),
        "ambient": f"{params['ambient_penalty']:.0e}",
        "manifold": f"{params['manifold_penalty']:.0e}",
        "width": _short(params["kernel_width"]),
        "k": params["n_neighbors"],
        "graph_width": _short(params["graph_width"]),
    }


def _finite(values: np.ndarray) -> np.ndarray:
    """Overflow counts as the worst error."""
    return np.nan_to_num(values, nan=1e30, posinf=1e30)


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    ranks = rankdata(np.round(a, 9)), rankdata(np.round(b, 9))
    if min(np.ptp(ranks[0]), np.ptp(ranks[1])) == 0.0:
        return float("nan")
    return float(np.corrcoef(*ranks)[0, 1])


def _short(value: float) -> str:
    return f"{value:.5g}"
