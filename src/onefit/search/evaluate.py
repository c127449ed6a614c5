"""Evaluate the candidates of one kernel: factor once, solve many."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onefit._threads import blas_threads
from onefit._typing import FloatArray
from onefit.assembly import build_factor
from onefit.basis import Basis, KernelFactor, plane_basis
from onefit.criteria import CRITERIA
from onefit.criteria.common import FoldDecisions, Holdout
from onefit.folds import Fold
from onefit.graphs import Graph
from onefit.problem import Problem
from onefit.search.candidates import Candidate, GraphGroup, KernelGroup
from onefit.search.geometry import Geometry
from onefit.search.plane import square_plane
from onefit.search.scoring import FoldScorer
from onefit.targets import Targets

__all__ = ["CandidateResult", "Task", "evaluate_group"]


@dataclass(frozen=True)
class Task:
    """What every group is evaluated on, and how."""

    targets: Targets
    sample: FloatArray
    folds: Sequence[Fold]
    criterion: str
    holdout: Holdout
    criterion_params: dict[str, Any]
    scorer: FoldScorer

    @property
    def has_closed_form(self) -> bool:
        """Whether the square loss needs no iteration: equation (4) serves whole planes."""
        return self.holdout == "labels" and self.criterion != "bif" and not self.criterion_params


@dataclass
class CandidateResult:
    """Scores of one candidate on every fold, in the order of the folds."""

    index: int
    scores: dict[str, list[float]] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    error_bound: float = float("nan")
    fit_seconds: float = 0.0
    score_seconds: float = 0.0


@dataclass(frozen=True)
class _HeldOut:
    """Decisions of some candidates: one array of shape (a, m, q) for every fold.

    ``bounds`` are arrays alike, bounds on their errors; None where none were computed.
    """

    members: Sequence[Candidate]
    decisions: Sequence[FloatArray]
    bounds: Sequence[FloatArray] | None
    is_exact: bool


def evaluate_group(
    task: Task, geometry: Geometry, group: KernelGroup
) -> list[list[CandidateResult]]:
    """Held-out scores of all candidates of one kernel, by graph; seconds are shared out evenly."""
    start = time.perf_counter()
    kernel = group.settings.resolve(geometry.X)
    squared = None if geometry.squared is None else geometry.squared.copy()
    factor = build_factor(kernel, group.settings, geometry.X, squared, group.seed)
    shared = (time.perf_counter() - start) / group.n_candidates
    results = []
    for graph in group.graphs:
        part = _evaluate_graph(task, geometry, factor, graph)
        for result in part:
            result.fit_seconds += shared
        results.append(part)
    return results


def _evaluate_graph(
    task: Task, geometry: Geometry, factor: KernelFactor, group: GraphGroup
) -> list[CandidateResult]:
    start = time.perf_counter()
    graph, _ = group.settings.build(geometry.X, geometry.neighbors)
    labelled = np.flatnonzero(task.targets.labelled)
    basis = plane_basis(factor, graph.laplacian, labelled)
    results = {c.index: CandidateResult(c.index) for c in group.candidates}
    score_seconds = 0.0
    for part in _held_out(task, basis, graph, group.candidates):
        before = time.perf_counter()
        _score(task, part, results)
        score_seconds += time.perf_counter() - before
    if task.criterion == "certified":
        _refine(task, basis, graph, group.candidates, results)
    fit_seconds = time.perf_counter() - start - score_seconds
    for result in results.values():
        result.fit_seconds += fit_seconds / len(results)
        result.score_seconds += score_seconds / len(results)
    return list(results.values())


def _held_out(
    task: Task, basis: Basis, graph: Graph, candidates: Sequence[Candidate]
) -> Iterator[_HeldOut]:
    """Decisions of all candidates, those of one deformation after the other."""
    for members in _by_deformation(candidates):
        problem = members[0].model._pose_problem(basis, graph, task.targets, task.sample)
        if task.has_closed_form and problem.loss.is_quadratic:
            yield _closed_form(task, problem, members)
        else:
            yield from _one_by_one(task, problem, members)


def _closed_form(task: Task, problem: Problem, members: Sequence[Candidate]) -> _HeldOut:
    gram = problem.deformed.labelled_gram
    ambient = np.array([float(c.model.ambient_penalty) for c in members])
    with blas_threads(1):
        decisions = square_plane(
            gram,
            ambient,
            problem.targets,
            problem.weights,
            task.folds,
            fit_intercept=problem.fit_intercept,
        )
    return _HeldOut(members, decisions, None, is_exact=True)


def _one_by_one(task: Task, problem: Problem, members: Sequence[Candidate]) -> Iterator[_HeldOut]:
    """Candidates of one ratio by falling ambient penalty, each started from the one before."""
    is_race = task.criterion == "certified"
    criterion = CRITERIA["newton" if is_race else task.criterion]
    start = None
    _ = problem.deformed.labelled_gram
    with blas_threads(1 if task.holdout == "labels" else None):
        for candidate in sorted(members, key=lambda c: -float(c.model.ambient_penalty)):
            model = candidate.model
            one = problem.with_penalties(
                float(model.ambient_penalty), float(model.manifold_penalty)
            )
            fit = one.solve(start)
            start = fit.labels
            parts = criterion(
                fit, task.folds, task.holdout, bounds=is_race, **task.criterion_params
            )
            pairs = list(zip(task.folds, parts, strict=True))
            decisions = [_on_test_labels(problem, f, p, p.decisions)[None] for f, p in pairs]
            bounds = None
            if is_race:
                bounds = [_on_test_labels(problem, f, p, p.error_bounds)[None] for f, p in pairs]
            yield _HeldOut([candidate], decisions, bounds, task.criterion == "exact")


def _on_test_labels(
    problem: Problem, fold: Fold, part: FoldDecisions, values: FloatArray | None
) -> FloatArray:
    """Values on the fold's test labels, in their order."""
    wanted = problem.basis.labelled[fold.test_labels]
    return np.asarray(values)[np.searchsorted(part.rows, wanted)]


def _refine(
    task: Task,
    basis: Basis,
    graph: Graph,
    candidates: Sequence[Candidate],
    results: dict[int, CandidateResult],
) -> None:
    """Solve exactly, best prospects first, until no other candidate can be the best."""
    exactly = replace(task, criterion="exact")

    def highest(candidate: Candidate) -> float:
        # Several scores have no common order: then every candidate is solved exactly.
        result = results[candidate.index]
        return float(np.mean(result.scores.get("score", [np.inf]))) + result.error_bound

    certain = -np.inf
    for candidate in sorted(candidates, key=highest, reverse=True):
        if highest(candidate) < certain:
            break
        if results[candidate.index].error_bound > 0.0:
            results[candidate.index] = CandidateResult(candidate.index)
            for part in _held_out(exactly, basis, graph, [candidate]):
                _score(exactly, part, results)
        certain = max(certain, highest(candidate))


def _score(task: Task, part: _HeldOut, results: dict[int, CandidateResult]) -> None:
    loss = part.members[0].model._make_loss()
    for candidate, bound in zip(part.members, _error_bounds(task, part), strict=True):
        results[candidate.index].error_bound = bound
    for fold, values in zip(task.folds, part.decisions, strict=True):
        labels = np.flatnonzero(fold.test_labels)
        scores = task.scorer(labels, values)
        losses = loss.value(task.targets.values[labels], values).mean(axis=(1, 2))
        for j, candidate in enumerate(part.members):
            result = results[candidate.index]
            for name, column in scores.items():
                result.scores.setdefault(name, []).append(float(column[j]))
            result.losses.append(float(losses[j]))


def _error_bounds(task: Task, part: _HeldOut) -> list[float]:
    """Bounds on the errors of the candidates' mean scores; NaN where none is known."""
    if part.is_exact:
        return [0.0] * len(part.members)
    if part.bounds is None:
        return [float("nan")] * len(part.members)
    widths = [
        task.scorer.uncertainty(np.flatnonzero(fold.test_labels), values, bounds)
        for fold, values, bounds in zip(task.folds, part.decisions, part.bounds, strict=True)
    ]
    return [float(width) for width in np.mean(widths, axis=0)]


def _by_deformation(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Candidates that differ in the ambient penalty alone once the ratio is fixed."""
    groups: dict[Any, list[Candidate]] = {}
    for candidate in candidates:
        model = candidate.model
        ratio = float(f"{model.manifold_penalty / model.ambient_penalty:.12g}")
        params = [getattr(model, name, None) for name in _LABEL_PARAMS]
        groups.setdefault((ratio, repr(params)), []).append(candidate)
    return list(groups.values())


_LABEL_PARAMS = ("fit_intercept", "class_weight", "loss", "hinge_width", "tol", "max_iter")
