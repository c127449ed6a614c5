r"""Whole penalty planes with points held out: one basis for every fold.

Without the points :math:`S_i` of a fold the Laplacian is that of the rest of the graph,
:math:`L_i`, and N is :math:`N'`. The function space of the kept rows lies in that of all rows, so
the factor K = B B' is kept and only

.. math:: M_i = B'L_iB

is new: it is reduced to tridiagonal form, or factored for the ratios that need it. The form itself
is that of all rows less that of the edges that are gone, which meet few rows if the folds are many.
Then the fold is one with labels held out under the deformed kernel of :math:`L_i`: small problems
in the labels for all penalties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from onefit._threads import blas_threads
from onefit._typing import FloatArray
from onefit.anchors import AnyGraph
from onefit.basis import PlaneBasis
from onefit.factors import Factor, nonempty_rows
from onefit.folds import Fold
from onefit.form_basis import basis_for_ratios
from onefit.problem import Problem
from onefit.search.candidates import Candidate
from onefit.search.task import HeldOut, Task, at_ambient, by_deformation, closed_form
from onefit.solvers.convergence import warn_not_converged
from onefit.solvers.correction import label_response
from onefit.solvers.labels import LabelFit, solve_labels

__all__ = ["held_out_points", "newton_values", "point_problems"]

#: Share of the rows up to which an update of the form costs less than the form itself.
_FEW_ROWS = 0.8


def point_problems(
    task: Task,
    factor: Factor,
    graph: AnyGraph,
    fold: Fold,
    candidates: Iterable[Candidate],
    full_form: FloatArray | None = None,
) -> Iterator[tuple[list[Candidate], Problem]]:
    """The fold's problem for every ratio of penalties, with the candidates of that ratio.

    ``full_form`` is B'LB of the whole graph, from which that of the fold is updated, where the
    Laplacian is a matrix.
    """
    part = graph.only(fold.kept_rows)
    form = None if full_form is None else _updated_form(factor, graph, part, full_form)
    groups = by_deformation(candidates)
    ratios = [_ratio(members[0]) / fold.n_kept**2 for members in groups]
    labelled = np.flatnonzero(task.targets.labelled)
    basis = basis_for_ratios(factor, part.operator, labelled, ratios, form)
    for members in groups:
        problem = members[0].model._pose_problem(basis, part, task.targets, task.sample)
        yield members, _without_points(problem, fold)


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
    fits = {} if task.criterion == "exact" else _full_fits(task, basis, graph, candidates)
    is_matrix = sp.issparse(graph.operator)
    form = basis.factor.quadratic_form(graph.operator) if is_matrix else None
    decisions: dict[int, list[FloatArray]] = {c.index: [] for c in candidates}
    for fold in task.folds:
        for members, problem in point_problems(task, basis.factor, graph, fold, candidates, form):
            with blas_threads(1):
                parts = _of_ratio(problem, members, fold, fits)
            for candidate, part in zip(members, parts, strict=True):
                decisions[candidate.index].append(part[None])
    for candidate in candidates:
        quadratic = candidate.model._make_loss().is_quadratic
        is_exact = task.criterion == "exact" or quadratic
        yield HeldOut([candidate], decisions[candidate.index], None, is_exact)


def _full_fits(
    task: Task, basis: PlaneBasis, graph: AnyGraph, candidates: Sequence[Candidate]
) -> dict[int, LabelFit]:
    """Fits on all rows, from which a Newton step starts."""
    fits = {}
    for members in by_deformation(candidates):
        problem = members[0].model._pose_problem(basis, graph, task.targets, task.sample)
        start = None
        for candidate in members:
            start = at_ambient(problem, candidate).solve(start).labels
            fits[candidate.index] = start
    return fits


def _of_ratio(
    problem: Problem, members: Sequence[Candidate], fold: Fold, fits: dict[int, LabelFit]
) -> Sequence[FloatArray]:
    """Decisions (m, q) on the fold's test labels for every candidate of one ratio."""
    if problem.loss.is_quadratic:
        # One Newton step is exact.
        return list(closed_form(problem, members, [fold])[0])
    v = problem.weights.normalized(fold.kept_labels) * fold.kept_labels
    values, start = [], None
    for candidate in members:
        one = at_ambient(problem, candidate)
        if fits:
            values.append(newton_values(one, v, fits[candidate.index])[fold.test_labels])
            continue
        start = solve_labels(
            one.gram,
            one.targets,
            v,
            one.loss,
            fit_intercept=one.fit_intercept,
            start=start,
            tol=one.tol,
            max_iter=one.max_iter,
        )
        if not start.converged:
            worst = float(start.gradient_norms(one.gram).max())
            warn_not_converged("a fold", one.max_iter, worst)
        values.append(start.values[fold.test_labels])
    return values


def newton_values(problem: Problem, v: FloatArray, full: LabelFit) -> FloatArray:
    r"""Values on the labels after one Newton step from f on a problem with another kernel.

    The penalty is quadratic, so the step forgets all of f but its values on the labels:
    :math:`2\beta + F (G\beta + b) = F f - v\,\ell'(y, f)`, and :math:`\sum_i \beta_i = 0` with an
    intercept.
    """
    G, f = problem.gram, full.values
    curvature = v[:, None] * problem.loss.second_derivative(problem.targets, f)
    xi = curvature * f - v[:, None] * problem.loss.derivative(problem.targets, f)
    totals = np.zeros(f.shape[1]) if problem.fit_intercept else None
    beta, b = label_response(G, curvature, xi, totals)
    if problem.fit_intercept:
        b = np.where(curvature.any(axis=0), b, full.intercept)
    return G @ beta + b
