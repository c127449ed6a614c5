r"""Whole penalty planes with points held out: one basis for every fold.

Without the points :math:`S_i` of a fold the Laplacian is that of the rest of the graph,
:math:`L_i`, and N is :math:`N'`. The function space of the kept rows lies in that of all rows, so
the factor K = B B' is kept and only

.. math:: M_i = B'L_iB

is new. Where few edges are gone, it is that of all rows less theirs, in tridiagonal form
(:mod:`onefit.thinned_basis`). Otherwise it is formed, and reduced to tridiagonal form or factored
for the ratios that need it. Then the fold is one with labels held out under the deformed kernel of
:math:`L_i`: small problems in the labels for all penalties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from onefit._threads import blas_threads
from onefit._typing import FloatArray
from onefit.anchors import AnyGraph
from onefit.basis import Basis, PlaneBasis
from onefit.factors import Factor, KernelFactor, nonempty_rows
from onefit.folds import Fold
from onefit.form_basis import basis_for_ratios
from onefit.graphs import Graph
from onefit.problem import Problem
from onefit.search.candidates import Candidate
from onefit.search.stacks import Ratios, fits_of_plane, label_stacks
from onefit.search.task import HeldOut, Task, by_deformation, closed_form
from onefit.solvers.labels import LabelFit, joined_fits
from onefit.thinned_basis import EdgeFeatures, thinned_basis

__all__ = ["FoldPlanes", "held_out_points", "takes_few_edges"]

#: Share of the rows up to which an update of the form costs less than the form itself.
_FEW_ROWS = 0.8


@dataclass(frozen=True)
class FoldPlanes:
    """The problems of a plane of penalties with the points of a fold removed.

    Parameters
    ----------
    task : Task
        What is asked.
    basis : PlaneBasis
        Basis of the kernel and the whole graph.
    graph : graph
        The whole graph.
    candidates : sequence of Candidate
        Candidates of this kernel and graph.
    """

    task: Task
    basis: PlaneBasis
    graph: AnyGraph
    candidates: Sequence[Candidate]

    def problems(self, fold: Fold) -> Iterator[tuple[list[Candidate], Problem]]:
        """The fold's problem for every ratio of penalties, with the candidates of that ratio."""
        part = self.graph.only(fold.kept_rows)
        groups = by_deformation(self.candidates)
        basis = self._basis(fold, part, [_ratio(same[0]) / fold.n_kept**2 for same in groups])
        for members in groups:
            model = members[0].model
            problem = model._pose_problem(basis, part, self.task.targets, self.task.sample)
            yield members, _without_points(problem, fold)

    def _basis(self, fold: Fold, part: AnyGraph, ratios: list[float]) -> Basis:
        if self._features is not None:
            gone = self._features.edges.left_out(fold.kept_rows, self.basis.n_rows)
            basis = thinned_basis(self._features, part.operator, gone, ratios)
            if basis is not None:
                return basis
        factor, form = self.basis.factor, None
        if self._form is not None:
            form = _updated_form(factor, self.graph, part, self._form)
        return basis_for_ratios(factor, part.operator, self.basis.labelled, ratios, form)

    @cached_property
    def _features(self) -> EdgeFeatures | None:
        return edge_features(self.basis, self.graph)

    @cached_property
    def _form(self) -> FloatArray | None:
        """B'LB, from which that of a fold is updated, where the Laplacian is a matrix."""
        operator = self.graph.operator
        return self.basis.factor.quadratic_form(operator) if sp.issparse(operator) else None


def edge_features(basis: PlaneBasis, graph: AnyGraph) -> EdgeFeatures | None:
    """The edges one by one, where the Laplacian is their sum and features are held."""
    edges = graph.edges if isinstance(graph, Graph) else None
    if edges is None or not isinstance(basis.factor, KernelFactor):
        return None
    return EdgeFeatures(basis, basis.factor, edges)


def takes_few_edges(basis: PlaneBasis, graph: AnyGraph, n_folds: int) -> bool:
    """Whether a fold of many takes fewer edges away than the basis has features."""
    features = edge_features(basis, graph)
    # An edge goes with either of its ends.
    return features is not None and 2 * features.edges.weights.size < n_folds * basis.diagonal.size


def _ratio(candidate: Candidate) -> float:
    return float(candidate.model.manifold_penalty) / float(candidate.model.ambient_penalty)


def _updated_form(
    factor: Factor, graph: AnyGraph, part: AnyGraph, full_form: FloatArray
) -> FloatArray | None:
    """B'L_iB as B'LB - B'(L - L_i)B; None where the difference meets about as many rows as L_i."""
    gone = sp.csr_array(graph.laplacian - part.laplacian)
    gone.eliminate_zeros()
    if nonempty_rows(gone).size > _FEW_ROWS * nonempty_rows(part.laplacian).size:
        return None
    form = factor.quadratic_form(gone)
    return np.subtract(full_form, form, out=form)


def _without_points(problem: Problem, fold: Fold) -> Problem:
    """The same problem with gamma_I / N'^2 in place of gamma_I / N^2."""
    growth = (problem.n_rows / fold.n_kept) ** 2
    return problem.with_penalties(problem.ambient_penalty, problem.manifold_penalty * growth)


def held_out_points(
    task: Task,
    basis: PlaneBasis,
    graph: AnyGraph,
    candidates: Sequence[Candidate],
) -> Iterator[HeldOut]:
    """Decisions of all candidates on all folds, by "exact" or "newton"."""
    is_quadratic = candidates[0].model._make_loss().is_quadratic
    fits: dict[int, LabelFit] = {}
    if not is_quadratic:
        for stack in fits_of_plane(task, basis, graph, candidates):
            fits |= {candidate.index: fit.labels for candidate, fit in stack}
    planes = FoldPlanes(task, basis, graph, candidates)
    decisions: dict[int, list[FloatArray]] = {c.index: [] for c in candidates}
    for fold in task.folds:
        ratios = planes.problems(fold)
        if is_quadratic:
            parts = _closed_form(ratios, fold)
        else:
            parts = _refits(ratios, fold, fits, task.criterion)
        for candidate, part in parts:
            decisions[candidate.index].append(part[None])
    for candidate in candidates:
        is_exact = task.criterion == "exact" or is_quadratic
        yield HeldOut([candidate], decisions[candidate.index], None, is_exact)


def _closed_form(ratios: Ratios, fold: Fold) -> Iterator[tuple[Candidate, FloatArray]]:
    """Decisions (m, q) of the square loss, for which one Newton step is exact, too."""
    for members, problem in ratios:
        with blas_threads(1):
            (decisions,) = closed_form(problem, members, [fold])
        yield from zip(members, decisions, strict=True)


def _refits(
    ratios: Ratios, fold: Fold, fits: dict[int, LabelFit], criterion: str
) -> Iterator[tuple[Candidate, FloatArray]]:
    """Decisions (m, q) on the fold's test labels for every candidate."""
    for stack in label_stacks(ratios, fold.kept_labels):
        full = joined_fits([fits[candidate.index] for candidate in stack.members])
        is_exact = criterion == "exact"
        values = stack.refit(full).values if is_exact else stack.newton_values(full)
        yield from stack.each(values[fold.test_labels])
