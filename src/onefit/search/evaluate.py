"""Evaluate the candidates of one kernel: factor once, solve many."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from onefit._typing import FloatArray, IntArray, Rows
from onefit.assembly import KernelSettings, build_factor, kernel_matrix
from onefit.basis import Basis, KernelFactor, plane_basis
from onefit.criteria import CRITERIA
from onefit.criteria.common import Holdout
from onefit.folds import Fold
from onefit.graphs import Graph, Neighbors
from onefit.problem import Problem
from onefit.search.candidates import Candidate, GraphGroup, KernelGroup
from onefit.search.plane import square_plane
from onefit.search.scoring import FoldScorer
from onefit.targets import LabelWeights, Targets

__all__ = ["CandidateResult", "Geometry", "Task", "evaluate_group"]


@dataclass(frozen=True)
class Geometry:
    """Rows after preprocessing, with what all kernels and graphs on them share.

    Parameters
    ----------
    X : array or sparse matrix of shape (N, n_features)
        Rows.
    squared : array of shape (N, N) or None
        Squared distances, where an exact Gaussian kernel needs them.
    neighbors : Neighbors or None
        As many neighbours as any candidate asks for.
    """

    X: Rows
    squared: FloatArray | None
    neighbors: Neighbors | None


@dataclass(frozen=True)
class Task:
    """What every group is evaluated on."""

    targets: Targets
    sample: FloatArray
    folds: Sequence[Fold]
    criterion: str
    holdout: Holdout
    criterion_params: dict[str, Any]
    error_bounds: bool
    scorer: FoldScorer


@dataclass
class CandidateResult:
    """Scores of one candidate on every fold, in the order of the folds."""

    index: int
    scores: dict[str, list[float]] = field(default_factory=dict)
    finer: list[float] = field(default_factory=list)
    error_bound: float = float("nan")
    fit_seconds: float = 0.0
    score_seconds: float = 0.0


def evaluate_group(task: Task, geometry: Geometry, group: KernelGroup) -> list[CandidateResult]:
    """Held-out scores of all candidates of one kernel; seconds are shared out evenly."""
    start = time.perf_counter()
    factor = _kernel_factor(geometry, group)
    shared = (time.perf_counter() - start) / group.n_candidates
    results = []
    for graph in group.graphs:
        part = _evaluate_graph(task, geometry, factor, graph)
        for result in part:
            result.fit_seconds += shared
        results += part
    return results


def _kernel_factor(geometry: Geometry, group: KernelGroup) -> KernelFactor:
    kernel = group.settings.resolve(geometry.X)
    return build_factor(kernel, group.settings, geometry.X, geometry.squared, group.seed)


def _evaluate_graph(
    task: Task, geometry: Geometry, factor: KernelFactor, group: GraphGroup
) -> list[CandidateResult]:
    start = time.perf_counter()
    graph, _ = group.settings.build(geometry.X, geometry.neighbors)
    labelled = np.flatnonzero(task.targets.labelled)
    basis = plane_basis(factor, graph.laplacian, labelled)
    results = {c.index: CandidateResult(c.index) for c in group.candidates}
    score_seconds = 0.0
    for members, decisions, bounds in _held_out(task, basis, graph, group.candidates):
        before = time.perf_counter()
        _score(task, members, decisions, results)
        for candidate, bound in zip(members, bounds, strict=True):
            results[candidate.index].error_bound = bound
        score_seconds += time.perf_counter() - before
    fit_seconds = time.perf_counter() - start - score_seconds
    for result in results.values():
        result.fit_seconds += fit_seconds / len(results)
        result.score_seconds += score_seconds / len(results)
    return list(results.values())


def _held_out(
    task: Task, basis: Basis, graph: Graph, candidates: Sequence[Candidate]
) -> Iterator[tuple[Sequence[Candidate], Sequence[FloatArray], Sequence[float]]]:
    """Yield candidates with their decisions, one array (a, m, q) a fold, and their bounds."""
    quick = (
        task.holdout == "labels"
        and task.criterion in ("exact", "newton")
        and not task.error_bounds
        and not task.criterion_params
    )
    for members in _by_deformation(candidates):
        model = members[0].model
        problem = _problem(task, basis, graph, model)
        if quick and problem.loss.is_quadratic:
            ambient = np.array([float(c.model.ambient_penalty) for c in members])
            with threadpool_limits(1, user_api="blas"):
                decisions = square_plane(
                    problem.deformed.labelled_gram,
                    ambient,
                    problem.targets,
                    problem.weights,
                    task.folds,
                    fit_intercept=problem.fit_intercept,
                )
            yield members, decisions, [0.0] * len(members)
        else:
            yield from _one_by_one(task, problem, members)


def _one_by_one(
    task: Task, problem: Problem, members: Sequence[Candidate]
) -> Iterator[tuple[Sequence[Candidate], Sequence[FloatArray], Sequence[float]]]:
    """Candidates of one ratio along the ambient penalty, each started from the one before."""
    start = None
    for candidate in sorted(members, key=lambda c: -float(c.model.ambient_penalty)):
        one = problem.with_penalties(
            float(candidate.model.ambient_penalty), float(candidate.model.manifold_penalty)
        )
        with threadpool_limits(1 if task.holdout == "labels" else None, user_api="blas"):
            fit = one.solve(start)
            start = fit.labels
            folds = CRITERIA[task.criterion](
                fit, task.folds, task.holdout, bounds=task.error_bounds, **task.criterion_params
            )
        decisions = [_on_test_labels(fold, part.rows, part.decisions, problem) for fold, part in zip(task.folds, folds, strict=True)]
        bounds = [part.error_bounds.max() for part in folds if part.error_bounds is not None]
        yield [candidate], [d[None] for d in decisions], [float(max(bounds, default=np.nan))]


def _on_test_labels(
    fold: Fold, rows: IntArray, decisions: FloatArray, problem: Problem
) -> FloatArray:
    """Decisions on the fold's test labels, in their order."""
    wanted = problem.basis.labelled[fold.test_labels]
    return decisions[np.searchsorted(rows, wanted)]


def _score(
    task: Task,
    members: Sequence[Candidate],
    decisions: Sequence[FloatArray],
    results: dict[int, CandidateResult],
) -> None:
    loss = members[0].model.make_loss()
    for fold, values in zip(task.folds, decisions, strict=True):
        labels = np.flatnonzero(fold.test_labels)
        scores = task.scorer(labels, values)
        finer = -loss.value(task.targets.values[labels], values).mean(axis=(1, 2))
        for j, candidate in enumerate(members):
            result = results[candidate.index]
            for name, column in scores.items():
                result.scores.setdefault(name, []).append(float(column[j]))
            result.finer.append(float(finer[j]))


def _by_deformation(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Candidates that differ in the ambient penalty alone once the ratio is fixed."""
    groups: dict[Any, list[Candidate]] = {}
    for candidate in candidates:
        model = candidate.model
        params = model.get_params(deep=False)
        ratio = float(f"{params.pop('manifold_penalty') / params.pop('ambient_penalty'):.12g}")
        groups.setdefault((ratio, _label_key(params)), []).append(candidate)
    return list(groups.values())


_LABEL_PARAMS = ("fit_intercept", "class_weight", "loss", "hinge_width", "tol", "max_iter")


def _label_key(params: dict[str, Any]) -> str:
    return repr([(name, params.get(name)) for name in _LABEL_PARAMS])


def _problem(task: Task, basis: Basis, graph: Graph, model: Any) -> Problem:
    return Problem(
        basis=basis,
        graph=graph,
        targets=task.targets.values,
        weights=LabelWeights(
            task.sample, task.targets.codes, model.make_class_weight(task.targets)
        ),
        loss=model.make_loss(),
        ambient_penalty=float(model.ambient_penalty),
        manifold_penalty=float(model.manifold_penalty),
        fit_intercept=bool(model.fit_intercept),
        tol=float(model.tol),
        max_iter=int(model.max_iter),
    )
