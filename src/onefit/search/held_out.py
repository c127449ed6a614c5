"""Held-out decisions of all candidates of one kernel and graph, by the cheapest way there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onefit._subnormals import subnormals_as_zero
from onefit._threads import blas_threads
from onefit._typing import FloatArray
from onefit.anchors import AnyGraph, DistributedAnchorGraph
from onefit.basis import PlaneBasis
from onefit.criteria import CRITERIA
from onefit.criteria.common import FoldDecisions
from onefit.criteria.influence import check_influence
from onefit.folds import Fold
from onefit.problem import Fit, Problem
from onefit.search.candidates import Candidate
from onefit.search.fold_planes import held_out_points, takes_few_edges
from onefit.search.influence_plane import (
    FoldLaplacians,
    NystromSpread,
    fold_laplacians,
    influence_plane,
    nystrom_spread,
)
from onefit.search.stacks import fits_of_plane
from onefit.search.task import HeldOut, Task, by_deformation, closed_form

__all__ = ["held_out"]

#: A reduction for a fold costs about as much as its part in the iterations of this many candidates.
_CANDIDATES_FOR_A_FOLD = 2
#: The same for all folds, however many: the more there are, the fewer edges each takes away.
_CANDIDATES_FOR_ALL_FOLDS = 30


def held_out(
    task: Task, basis: PlaneBasis, graph: AnyGraph, candidates: Sequence[Candidate]
) -> Iterator[HeldOut]:
    """Decisions of all candidates, in parts.

    LinAlgError where they are no numbers, whatever has overflowed or failed on the way.
    """
    parts = _in_parts(task, basis, graph, candidates)
    while True:
        # Not around the loop of whoever asks, who may want to hear of overflow in scores.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"), subnormals_as_zero():
            part = next(parts, None)
        if part is None:
            return
        if not all(np.isfinite(decisions).all() for decisions in part.decisions):
            raise np.linalg.LinAlgError("held-out decisions are not finite.")
        yield part


def _in_parts(
    task: Task, basis: PlaneBasis, graph: AnyGraph, candidates: Sequence[Candidate]
) -> Iterator[HeldOut]:
    if _goes_by_fold(task, basis, graph, candidates):
        for same in _by_form(candidates):
            yield from held_out_points(task, basis, graph, same)
        return
    label_influence = _LabelInfluence(task, basis, graph)
    rest: list[Candidate] = []
    for members in by_deformation(candidates):
        problem = members[0].model._pose_problem(basis, graph, task.targets, task.sample)
        if task.has_closed_form and problem.loss.is_quadratic:
            yield _closed_form(task, problem, members)
        elif label_influence.serves(problem):
            yield label_influence(problem, members)
        else:
            rest += members
    for part in fits_of_plane(task, basis, graph, rest):
        yield _from_fits(task, part)


def _by_form(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Candidates with the square loss, which has a closed form, and others."""
    parts: dict[bool, list[Candidate]] = {}
    for candidate in candidates:
        parts.setdefault(candidate.model._make_loss().is_quadratic, []).append(candidate)
    return list(parts.values())


def _goes_by_fold(
    task: Task, basis: PlaneBasis, graph: AnyGraph, candidates: Sequence[Candidate]
) -> bool:
    """Whether a reduction for every fold costs less than iterations for every candidate.

    Iterations need the values on all rows, which a dask collection does not have in one place.
    """
    if task.holdout != "points" or task.criterion not in ("exact", "newton"):
        return False
    enough = _CANDIDATES_FOR_A_FOLD * len(task.folds)
    if takes_few_edges(basis, graph, len(task.folds)):
        enough = min(enough, _CANDIDATES_FOR_ALL_FOLDS)
    is_worth_it = len(candidates) > enough
    return not task.criterion_params and (is_worth_it or isinstance(graph, DistributedAnchorGraph))


@dataclass(frozen=True)
class _LabelInfluence:
    """(6) on the labels alone, with what the ratios of a kernel and graph share."""

    task: Task
    basis: PlaneBasis
    graph: AnyGraph

    def serves(self, problem: Problem) -> bool:
        """Whether (6) can be taken on the labels: points held out, no intercept, no variant."""
        task, options = self.task, self.task.criterion_params
        if task.criterion != "bif" or task.holdout != "points" or problem.fit_intercept:
            return False
        # A generator would draw other columns for every candidate.
        is_seeded = isinstance(options.get("random_state", 0), int)
        return is_seeded and set(options) <= {"hessian", "hessian_components", "random_state"}

    @cached_property
    def laplacians(self) -> FoldLaplacians:
        return fold_laplacians(self.graph, self.task.folds)

    @cached_property
    def nystrom(self) -> NystromSpread | None:
        options = self.task.criterion_params
        if options.get("hessian", "exact") == "exact":
            return None
        return nystrom_spread(
            self.basis, options.get("hessian_components"), options.get("random_state", 0)
        )

    def __call__(self, problem: Problem, members: Sequence[Candidate]) -> HeldOut:
        options = {k: v for k, v in self.task.criterion_params.items() if k != "random_state"}
        check_influence(problem, "points", **options)
        with blas_threads(1):
            decisions = influence_plane(
                problem, members, self.task.folds, self.laplacians, self.nystrom
            )
        return HeldOut(members, decisions, None, is_exact=False)


def _closed_form(task: Task, problem: Problem, members: Sequence[Candidate]) -> HeldOut:
    _ = problem.deformed.labelled_gram  # with all BLAS threads
    with blas_threads(1):
        decisions = closed_form(problem, members, task.folds)
    return HeldOut(members, decisions, None, is_exact=True)


def _from_fits(task: Task, fits: Iterable[tuple[Candidate, Fit]]) -> HeldOut:
    """Decisions of some candidates by a criterion that starts from their fits."""
    is_race = task.criterion == "certified"
    criterion = CRITERIA["newton" if is_race else task.criterion]
    members, decisions, bounds = [], [], []
    for candidate, fit in fits:
        members.append(candidate)
        with blas_threads(1 if task.holdout == "labels" else None):
            parts = criterion(
                fit, task.folds, task.holdout, bounds=is_race, **task.criterion_params
            )
        pairs = list(zip(task.folds, parts, strict=True))
        decisions.append([_on_test_labels(fit.problem, f, p, p.decisions) for f, p in pairs])
        if is_race:
            bounds.append([_on_test_labels(fit.problem, f, p, p.error_bounds) for f, p in pairs])
    return HeldOut(
        members,
        [np.stack(fold) for fold in zip(*decisions, strict=True)],
        [np.stack(fold) for fold in zip(*bounds, strict=True)] if is_race else None,
        task.criterion == "exact",
    )


def _on_test_labels(
    problem: Problem, fold: Fold, part: FoldDecisions, values: FloatArray | None
) -> FloatArray:
    """Values on the fold's test labels, in their order."""
    wanted = problem.basis.labelled[fold.test_labels]
    return np.asarray(values)[np.searchsorted(part.rows, wanted)]
