"""Evaluate the candidates of one kernel: factor once, solve many."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from onefit._typing import FloatArray
from onefit.anchors import AnyGraph
from onefit.basis import PlaneBasis, plane_basis
from onefit.components import Growth, grow_components
from onefit.factors import Factor
from onefit.problem import singular_error
from onefit.search.candidates import Candidate, GraphGroup, KernelGroup
from onefit.search.geometry import Geometry
from onefit.search.held_out import held_out
from onefit.search.task import CandidateResult, HeldOut, Task

__all__ = ["evaluate_group"]


def evaluate_group(
    task: Task, geometry: Geometry, group: KernelGroup
) -> tuple[list[list[CandidateResult]], list[str]]:
    """Held-out scores of all candidates of one kernel, by graph; seconds are shared out evenly.

    With them, what there is to tell the user.
    """
    try:
        return _evaluate_kernel(task, geometry, group)
    except np.linalg.LinAlgError as error:
        # Of a factor or a basis, which all candidates of a kernel or graph have in common.
        refusal = ValueError(
            f"kernel and graph cannot be factored in double precision ({error}). Rescale X, or use "
            "other widths, or another kernel."
        )
        raise group.graphs[0].candidates[0].named(refusal) from error


def _evaluate_kernel(
    task: Task, geometry: Geometry, group: KernelGroup
) -> tuple[list[list[CandidateResult]], list[str]]:
    start = time.perf_counter()
    kernel = group.settings.resolve(geometry.X)

    def factor_of(c: int | None) -> Factor:
        return geometry.factor(kernel, replace(group.settings, n_components=c), group.seed)

    components = group.settings.n_components
    said = []
    if isinstance(components, str):
        growth = _grown(task, geometry, factor_of, group)
        components = growth.n_components
        said = [f"kernel={kernel.name!r}, width {kernel.width:.3g}: {growth}"]
    factor = factor_of(components)
    shared = (time.perf_counter() - start) / group.n_candidates
    results = []
    for graph in group.graphs:
        part = _evaluate_graph(task, geometry, factor, graph)
        for result in part:
            result.fit_seconds += shared
            result.n_components = components
        results.append(part)
    return results, said


def _evaluate_graph(
    task: Task, geometry: Geometry, factor: Factor, group: GraphGroup
) -> list[CandidateResult]:
    start = time.perf_counter()
    graph, _ = group.settings.build(geometry.X, geometry.neighbors_for(group.settings))
    labelled = np.flatnonzero(task.targets.labelled)
    basis = plane_basis(factor, graph.operator, labelled)
    evaluate = partial(_evaluate_penalties, task, basis, graph)
    try:
        results, score_seconds = evaluate(group.candidates)
    except np.linalg.LinAlgError:
        culprit = _culprit(evaluate, group.candidates)
        problem = culprit.model._pose_problem(basis, graph, task.targets, task.sample)
        raise culprit.named(singular_error(problem)) from None
    fit_seconds = time.perf_counter() - start - score_seconds
    for result in results.values():
        result.fit_seconds += fit_seconds / len(results)
        result.score_seconds += score_seconds / len(results)
    return list(results.values())


def _evaluate_penalties(
    task: Task, basis: PlaneBasis, graph: AnyGraph, candidates: Sequence[Candidate]
) -> tuple[dict[int, CandidateResult], float]:
    """Results by index of candidates that share a basis, and the seconds that scores took."""
    results = {c.index: CandidateResult(c.index) for c in candidates}
    score_seconds = 0.0
    for part in held_out(task, basis, graph, candidates):
        before = time.perf_counter()
        _score(task, part, results)
        score_seconds += time.perf_counter() - before
    if task.criterion == "certified":
        _refine(task, basis, graph, candidates, results)
    return results, score_seconds


def _culprit(
    evaluate: Callable[[Sequence[Candidate]], object], candidates: Sequence[Candidate]
) -> Candidate:
    """The candidate that makes the evaluation of all of them fail, by halving."""
    while len(candidates) > 1:
        half, rest = candidates[: len(candidates) // 2], candidates[len(candidates) // 2 :]
        try:
            evaluate(half)
        except np.linalg.LinAlgError:
            candidates = half
        else:
            candidates = rest
    return candidates[0]


def _grown(
    task: Task, geometry: Geometry, factor_of: Callable[[int], Factor], kernel: KernelGroup
) -> Growth:
    """Landmarks at which the best decisions on held-out labels settle, on the first graph."""
    exactly = replace(task, criterion="exact", holdout="labels", criterion_params={})
    group = kernel.graphs[0]
    graph, _ = group.settings.build(geometry.X, geometry.neighbors_for(group.settings))
    labelled = np.flatnonzero(task.targets.labelled)

    def decisions_of(c: int) -> tuple[FloatArray, FloatArray]:
        basis = plane_basis(factor_of(c), graph.operator, labelled)
        results = {one.index: CandidateResult(one.index) for one in group.candidates}
        decisions: dict[int, FloatArray] = {}
        for part in held_out(exactly, basis, graph, group.candidates):
            _score(exactly, part, results)
            stacked = np.concatenate(part.decisions, axis=1)
            decisions |= {one.index: stacked[j] for j, one in enumerate(part.members)}
        losses = np.array([np.mean(result.losses) for result in results.values()])
        return losses, np.array([decisions[index] for index in results])

    return grow_components(decisions_of, geometry.X.shape[0], kernel.settings.limit)


def _refine(
    task: Task,
    basis: PlaneBasis,
    graph: AnyGraph,
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
            for part in held_out(exactly, basis, graph, [candidate]):
                _score(exactly, part, results)
        certain = max(certain, highest(candidate))


def _score(task: Task, part: HeldOut, results: dict[int, CandidateResult]) -> None:
    model = part.members[0].model
    loss, scorer = model._make_loss(), task.scorer.of(model)
    held = [np.flatnonzero(fold.test_labels) for fold in task.folds]
    with np.errstate(over="ignore"):
        margins = scorer.margins(held, part.decisions)
    for j, bound in enumerate(_error_bounds(task, part)):
        result = results[part.members[j].index]
        result.error_bound, result.margin = bound, float(margins[j])
    for labels, values in zip(held, part.decisions, strict=True):
        with np.errstate(over="ignore"):
            losses = loss.value(task.targets.values[labels], values).mean(axis=(1, 2))
        if not np.isfinite(losses).all():
            raise np.linalg.LinAlgError("held-out losses are not finite.")
        scores = scorer(labels, values)
        for j, candidate in enumerate(part.members):
            result = results[candidate.index]
            for name, column in scores.items():
                result.scores.setdefault(name, []).append(float(column[j]))
            result.losses.append(float(losses[j]))


def _error_bounds(task: Task, part: HeldOut) -> list[float]:
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
