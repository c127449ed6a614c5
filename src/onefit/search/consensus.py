r"""Which of the best candidates agrees with the others where no label looks.

Scores see the labelled rows. Candidates whose scores are equal up to chance can differ widely on
the unlabelled ones, where some row lies far from all labels. Of n such candidates with decisions
:math:`f_j`, the choice is the one nearest to their median,

.. math:: \operatorname*{arg\,min}_j \sum_{x\ \text{unlabelled}}
          \bigl(f_j(x) - \operatorname*{median}_i f_i(x)\bigr)^2 .
"""

from __future__ import annotations

import numpy as np

from onefit._typing import BoolArray, FloatArray, IntArray
from onefit.basis import plane_basis
from onefit.search.candidates import KernelGroup
from onefit.search.geometry import Geometry
from onefit.search.task import Task, at_ambient, by_deformation

__all__ = ["central", "compared_rows", "decisions_of_group"]

#: Rows on which candidates are compared.
_MOST_ROWS = 1000
#: Distances that differ by less, relative to each other, are equal.
_TIE = 1e-6


def compared_rows(labelled: BoolArray) -> IntArray:
    """Unlabelled rows, every so many of them if they are many; all rows where none is."""
    rows = np.flatnonzero(~labelled) if not labelled.all() else np.arange(labelled.size)
    step = -(-rows.size // _MOST_ROWS)
    return rows[::step]


def central(decisions: FloatArray) -> int:
    """Which of the decisions, of shape (n, m, q), are nearest to the median of all.

    The first where several are, up to rounding: two candidates are always equally near. Those that
    are no numbers do not count.
    """
    fitted = np.flatnonzero(np.isfinite(decisions).all(axis=(1, 2)))
    if not fitted.size:
        return 0
    some = decisions[fitted]
    distances = np.square(some - np.median(some, axis=0)).mean(axis=(1, 2))
    return int(fitted[np.flatnonzero(distances <= (1.0 + _TIE) * distances.min())[0]])


def decisions_of_group(task: Task, geometry: Geometry, group: KernelGroup) -> dict[int, FloatArray]:
    """Decisions (m, q) on the rows to compare by candidate, each fitted to all labels.

    NaN where the fit is singular to rounding.
    """
    rows = compared_rows(task.targets.labelled)
    shape = rows.size, task.targets.values.shape[1]
    kernel = group.settings.resolve(geometry.X)
    factor = geometry.factor(kernel, group.settings, group.seed)
    features = factor.rows(rows)
    decisions = {}
    for one in group.graphs:
        graph, _ = one.settings.build(geometry.X, geometry.neighbors_for(one.settings))
        basis = plane_basis(factor, graph.operator, np.flatnonzero(task.targets.labelled))
        for members in by_deformation(one.candidates):
            problem = members[0].model._pose_problem(basis, graph, task.targets, task.sample)
            for candidate in members:
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    try:
                        fit = at_ambient(problem, candidate).solve()
                    except np.linalg.LinAlgError:  # singular to rounding
                        decisions[candidate.index] = np.full(shape, np.nan)
                        continue
                    decisions[candidate.index] = features @ fit.coef + fit.labels.intercept
    return decisions
