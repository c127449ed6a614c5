"""Label problems of many candidates, side by side.

Candidates of one kernel and graph have each a Gram matrix of their own, but small ones: Newton's
method takes its steps for a hundred of them in the time in which Python takes them for a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sklearn.utils import gen_batches

from onefit._threads import blas_threads
from onefit._typing import BoolArray, FloatArray
from onefit.anchors import AnyGraph
from onefit.basis import FeatureBasis, PlaneBasis
from onefit.problem import Fit, Problem
from onefit.search.candidates import Candidate
from onefit.search.task import Task, at_ambient, by_deformation, label_params
from onefit.solvers.convergence import warn_not_converged
from onefit.solvers.correction import label_response
from onefit.solvers.grams import GramStack
from onefit.solvers.labels import MOST_COLUMNS, LabelFit, solve_labels

__all__ = ["LabelStack", "Ratios", "fits_of_plane", "label_stacks", "stacked_fits"]

#: Problems of some ratios of penalties, with the candidates that have them.
Ratios: TypeAlias = Iterable[tuple[Sequence[Candidate], Problem]]

#: Labels up to which BLAS is faster with one thread.
_FEW_LABELS = 1000


@dataclass(frozen=True)
class LabelStack:
    """Label problems of candidates of one loss on the same labels.

    Columns run over outputs within candidates.

    Parameters
    ----------
    members : list of Candidate
        The candidates.
    problems : list of Problem
        The problems of their ratios, one for each of them.
    gram : GramStack
        G of every column.
    targets, weights : arrays of shape (l, m)
        Targets and weights of the loss; a weight of 0 is a label that is held out.
    """

    members: list[Candidate]
    problems: list[Problem]
    gram: GramStack
    targets: FloatArray
    weights: FloatArray

    @property
    def problem(self) -> Problem:
        """The first of the problems, for what they share."""
        return self.problems[0]

    @property
    def _threads(self) -> int | None:
        return 1 if self.problem.n_labelled <= _FEW_LABELS else None

    def each(self, columns: FloatArray) -> Iterator[tuple[Candidate, FloatArray]]:
        """The candidates with their columns of an array (l, m)."""
        parts = np.split(columns, len(self.members), axis=1)
        return zip(self.members, parts, strict=True)

    def fit(self) -> LabelFit:
        """The optimum of every column.

        Each starts at the solution of the square loss, which takes fewer steps from there than from
        the optimum of a larger ambient penalty.
        """
        return self._solve(None, self.problem.tol)

    def refit(self, start: LabelFit, tol: float | None = None) -> LabelFit:
        """The optimum of every column from solutions of other problems, of a fold."""
        refit = self._solve(start, self.problem.tol if tol is None else tol)
        if not refit.converged:
            worst = float(refit.gradient_norms(self.gram)[~refit.has_converged].max())
            warn_not_converged("some candidates on a fold", self.problem.max_iter, worst)
        return refit

    def _solve(self, start: LabelFit | None, tol: float) -> LabelFit:
        with blas_threads(self._threads):
            return solve_labels(
                self.gram,
                self.targets,
                self.weights,
                self.problem.loss,
                fit_intercept=self.problem.fit_intercept,
                start=start,
                tol=tol,
                max_iter=self.problem.max_iter,
            )

    def newton_values(self, full: LabelFit) -> FloatArray:
        r"""Values on the labels after one Newton step from f on problems with other kernels.

        The penalty is quadratic, so the step forgets all of f but its values on the labels:
        :math:`2\beta + F (G\beta + b) = F f - v\,\ell'(y, f)`, and :math:`\sum_i \beta_i = 0`
        with an intercept.
        """
        loss, f, v = self.problem.loss, full.values, self.weights
        curvature = v * loss.second_derivative(self.targets, f)
        xi = curvature * f - v * loss.derivative(self.targets, f)
        totals = np.zeros(f.shape[1]) if self.problem.fit_intercept else None
        with blas_threads(self._threads):
            beta, b = label_response(self.gram, curvature, xi, totals)
        if self.problem.fit_intercept:
            b = np.where(curvature.any(axis=0), b, full.intercept)
        return self.gram @ beta + b


def label_stacks(ratios: Ratios, kept: BoolArray | None = None) -> Iterator[LabelStack]:
    """The problems on the kept labels: a hundred columns, in the room of a matrix of the basis."""
    waiting: list[tuple[Sequence[Candidate], Problem]] = []
    n_columns = 0
    for members, problem in _in_parts(ratios):
        n_new = len(members) * problem.targets.shape[1]
        is_other = bool(waiting) and label_params(waiting[0][0][0]) != label_params(members[0])
        if is_other or n_columns + n_new > MOST_COLUMNS or len(waiting) >= _room(problem):
            yield from _stacked(waiting, kept)
            waiting, n_columns = [], 0
        waiting.append((members, problem))
        n_columns += n_new
    yield from _stacked(waiting, kept)


def _in_parts(ratios: Ratios) -> Iterator[tuple[Sequence[Candidate], Problem]]:
    """Candidates of a ratio, no more at a time than a stack takes."""
    for members, problem in ratios:
        for part in gen_batches(len(members), max(1, MOST_COLUMNS // problem.targets.shape[1])):
            yield members[part], problem


def _room(problem: Problem) -> int:
    """Gram matrices in the memory of one matrix of the basis, of which its making has had some."""
    if not isinstance(problem.basis, FeatureBasis):
        return 1
    return int((problem.basis.factor.landmarks.size / problem.n_labelled) ** 2)


def _stacked(
    waiting: list[tuple[Sequence[Candidate], Problem]], kept: BoolArray | None
) -> Iterator[LabelStack]:
    if not waiting:
        return
    members = [candidate for part, _ in waiting for candidate in part]
    problems = [problem for part, problem in waiting for _ in part]
    ambient = np.array([float(candidate.model.ambient_penalty) for candidate in members])
    of = np.repeat(np.arange(len(waiting)), [len(part) for part, _ in waiting])
    kernels = [problem.deformed.labelled_gram for _, problem in waiting]
    first = problems[0]
    q = first.targets.shape[1]
    gram = GramStack(kernels, np.repeat(of, q), np.repeat(ambient, q))
    v = first.weights.normalized(kept)
    targets = np.tile(first.targets, len(members))
    weights = np.broadcast_to((v if kept is None else v * kept)[:, None], targets.shape)
    yield LabelStack(members, problems, gram, targets, weights)


def stacked_fits(ratios: Ratios) -> Iterator[Iterator[tuple[Candidate, Fit]]]:
    """Candidates with their fits to all labels, those of a stack together.

    A fit comes when it is asked for, and has a Gram matrix of its own while somebody holds it.
    """
    for stack in label_stacks(ratios):
        is_quadratic = stack.problem.loss.is_quadratic
        yield _closed_forms(stack) if is_quadratic else _columns(stack, stack.fit())


def _closed_forms(stack: LabelStack) -> Iterator[tuple[Candidate, Fit]]:
    for candidate, problem in zip(stack.members, stack.problems, strict=True):
        yield candidate, at_ambient(problem, candidate).solve()


def _columns(stack: LabelStack, fit: LabelFit) -> Iterator[tuple[Candidate, Fit]]:
    q = stack.problem.targets.shape[1]
    for j, (candidate, problem) in enumerate(zip(stack.members, stack.problems, strict=True)):
        own = fit.columns(slice(j * q, (j + 1) * q))
        yield candidate, Fit(at_ambient(problem, candidate), own)


def fits_of_plane(
    task: Task, basis: PlaneBasis, graph: AnyGraph, candidates: Iterable[Candidate]
) -> Iterator[Iterator[tuple[Candidate, Fit]]]:
    """Candidates of one kernel and graph with their fits to all labels, stack by stack."""
    return stacked_fits(
        (members, members[0].model._pose_problem(basis, graph, task.targets, task.sample))
        for members in by_deformation(candidates)
    )
