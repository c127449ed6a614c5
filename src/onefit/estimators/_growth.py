"""How many landmarks a single fit needs, where ``n_components="auto"`` leaves it to the labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onefit._typing import FloatArray
from onefit.components import Growth, grow_components
from onefit.criteria.exact import exact
from onefit.folds import SemiSupervisedKFold, check_folds
from onefit.problem import Problem
from onefit.targets import UNLABELED, Targets

__all__ = ["settled_problem"]

#: Folds on which the number is decided.
_FOLDS = 5


def settled_problem(
    problem_of: Callable[[int], Problem], targets: Targets, memory_limit: float
) -> tuple[Growth, Problem]:
    """The number of landmarks at which decisions on held-out labels settle, and its problem.

    Parameters
    ----------
    problem_of : callable
        From a number of landmarks to the problem.
    targets : Targets
        What ``y`` said.
    memory_limit : float
        Bytes that the features may take.
    """
    n_labelled = int(targets.labelled.sum())
    last: dict[str, Problem] = {}
    folds = []
    if n_labelled > 1:
        strata = np.full(targets.labelled.size, UNLABELED, dtype=np.intp)
        strata[targets.labelled] = 0 if targets.codes is None else targets.codes
        cv = SemiSupervisedKFold(min(_FOLDS, n_labelled))
        folds = check_folds(cv._split_strata(strata), targets.labelled)

    def decisions_of(c: int) -> tuple[FloatArray, FloatArray]:
        last.clear()  # not two bases at a time
        last["problem"] = problem_of(c)
        fit = last["problem"].solve()
        # A single label cannot be held out: its fitted value must do.
        parts = [part.decisions for part in exact(fit, folds, "labels")] or [fit.labels.values]
        return np.zeros(1), np.concatenate(parts)[None]

    growth = grow_components(decisions_of, targets.labelled.size, memory_limit)
    return growth, last["problem"]
