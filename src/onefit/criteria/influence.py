r"""t-BIF: the paper's criterion, the Bouligand influence function taken to each fold.

.. math:: f_{-i} \approx f + \frac{1}{1 - t} B_i, \qquad
          H B_i = -\frac{K_{\cdot L_i}\mu_i}{m} - 2\gamma_A f
                  - \frac{2\gamma_I}{n_i^2} K_{\cdot S_i} L_{S_i} f_{S_i},

equation (6), with the Hessian H of the *full* problem. It trains once, but does not see leverage:
where the ambient penalty is small it reports the training error (see the documentation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from onefit._typing import FloatArray, IntArray
from onefit.criteria.common import (
    FoldDecisions,
    Holdout,
    fold_systems,
    full_solution,
    label_columns,
    point_decisions,
)
from onefit.folds import Fold
from onefit.graphs import Graph
from onefit.problem import Fit, Problem
from onefit.solvers.correction import label_correction, label_response
from onefit.solvers.dense import solve_dense
from onefit.solvers.hessian import (
    FullHessian,
    NystromHessian,
    nystrom_hessian,
    solve_bordered,
)
from onefit.solvers.labels import evaluate
from onefit.solvers.points import FoldsState
from onefit.validation import check_integer

__all__ = ["check_influence", "fold_slopes", "hessian_landmarks", "influence"]

Variant = Literal["corrected", "product", "literal"]


def influence(
    fit: Fit,
    folds: Sequence[Fold],
    holdout: Holdout,
    *,
    bounds: bool = False,
    hessian: Literal["exact", "nystrom"] = "exact",
    hessian_components: int | None = None,
    variant: Variant = "corrected",
    random_state: int | np.random.RandomState | None = 0,
) -> list[FoldDecisions]:
    """Held-out decisions by the influence function.

    Parameters
    ----------
    fit : Fit
        The fit on all rows.
    folds : sequence of Fold
        What to hold out.
    holdout : {"labels", "points"}
        ``"points"`` is the paper's; with ``"labels"`` the graph does not change.
    bounds : bool, default=False
        Whether to compute the bound (8).
    hessian : {"exact", "nystrom"}, default="exact"
        ``"nystrom"`` is the paper's final form (9): K is replaced by a Nystrom approximation
        inside K L and the inverse is taken by Woodbury. Points held out only.
    hessian_components : int, optional
        Columns c of that approximation; the rounded square root of N when None, as in the paper.
    variant : {"corrected", "product", "literal"}, default="corrected"
        ``"corrected"`` has K F where the paper's Theorem 1 prints J K F; ``"literal"`` is as
        printed. ``"product"`` differentiates the manifold term as the quadratic function of the
        distribution that it is, equation (10). The last two with points held out only.
    random_state : int, RandomState instance or None, default=0
        Seed of the Nystrom columns.
    """
    check_influence(fit.problem, holdout, hessian, hessian_components, variant, bounds)
    if holdout == "labels":
        return _influence_on_labels(fit, folds, bounds)
    step = np.repeat([1.0 / (1.0 - fold.n_folds) for fold in folds], fit.labels.beta.shape[1])
    right, right_b = _right_hand_sides(fit, folds, variant)
    if variant == "literal":
        values = _literal_values(fit, right)
        return _values_only(fit, folds, step, values)
    response, n_solves = _responses(fit, right, right_b, hessian, hessian_components, random_state)
    start = full_solution(fit, len(folds))
    state = FoldsState(
        start.coef + step * response.coef,
        start.kernel_values + step * response.kernel_values,
        start.intercept + step * response.intercept,
    )
    systems = fold_systems(fit, folds) if bounds else None
    return point_decisions(fit, folds, state, n_solves, systems)


def check_influence(
    problem: Problem,
    holdout: Holdout,
    hessian: str = "exact",
    hessian_components: int | None = None,
    variant: str = "corrected",
    bounds: bool = False,
) -> None:
    """Check the options of :func:`influence`."""
    if hessian not in ("exact", "nystrom"):
        raise ValueError(f"hessian={hessian!r}; expected 'exact' or 'nystrom'.")
    if variant not in ("corrected", "product", "literal"):
        raise ValueError(f"variant={variant!r}; expected 'corrected', 'product' or 'literal'.")
    if holdout == "labels" and (hessian != "exact" or variant != "corrected"):
        raise ValueError(
            f"hessian={hessian!r} and variant={variant!r} concern the graph, which does not change "
            "when labels are held out; use holdout='points'."
        )
    if variant == "literal" and (hessian != "exact" or problem.fit_intercept):
        raise ValueError(
            "variant='literal' is Theorem 1 as printed: it has hessian='exact' and no intercept."
        )
    if variant == "literal" and bounds:
        raise ValueError(
            "error_bounds=True with variant='literal', whose result is no function of the space "
            "and has no bound; use another variant or error_bounds=False."
        )
    plain = not problem.graph.normalized and problem.graph.power == 1
    if variant == "product" and not plain:
        raise ValueError(
            "variant='product' is defined for the unnormalised Laplacian and laplacian_power=1."
        )
    if hessian_components is not None:
        _check_components(hessian_components, hessian, problem.n_rows)


def _check_components(hessian_components: int, hessian: str, n_rows: int) -> None:
    if hessian != "nystrom":
        raise ValueError(
            f"hessian_components={hessian_components!r} with hessian={hessian!r}, which does "
            "not use it; set hessian='nystrom' or leave hessian_components out."
        )
    check_integer("hessian_components", hessian_components, minimum=1)
    if hessian_components > n_rows:
        raise ValueError(
            f"hessian_components={hessian_components} is more than the {n_rows} rows; expected at "
            "most as many."
        )


def fold_slopes(fit: Fit, folds: Sequence[Fold]) -> FloatArray:
    """Slopes of the loss averaged over every fold's labels, (t, l, q): mu_i / m."""
    problem = fit.problem
    weights = problem.weights.normalized() * np.stack([fold.test_labels for fold in folds])
    weights /= weights.sum(axis=1, keepdims=True)
    return weights[:, :, None] * problem.loss.derivative(problem.targets, fit.labels.values)


def _right_hand_sides(
    fit: Fit, folds: Sequence[Fold], variant: Variant
) -> tuple[FloatArray, FloatArray]:
    """Right-hand sides of (6) in coefficients (n_coef, t q), and those of the intercept (t q,)."""
    problem = fit.problem
    slopes = fold_slopes(fit, folds)
    weights = []
    for fold, own in zip(folds, slopes, strict=True):
        part = _manifold_part(problem, fold, variant, fit.kernel_values)
        part[problem.basis.labelled] += own
        weights.append(part)
    ambient = np.tile(2.0 * problem.ambient_penalty * fit.coef, len(folds))
    right = -problem.basis.representer(np.column_stack(weights)) - ambient
    return right, -slopes.sum(axis=1).ravel()


def _manifold_part(
    problem: Problem, fold: Fold, variant: Variant, values: FloatArray
) -> FloatArray:
    """Derivative of the manifold term along the path at f, as weights of kernel functions."""
    removed = fold.removed_rows
    if variant != "product":
        block = problem.graph.only(removed).laplacian
        return (block @ values) * (2.0 * problem.manifold_penalty / removed.size**2)
    # Every edge counts once for each of its ends in the fold.
    W = problem.graph.affinity
    at_fold = sp.diags_array(np.bincount(removed, minlength=problem.n_rows) * 1.0) @ W
    cross = Graph(sp.csr_array(at_fold + at_fold.T)).laplacian
    return problem.manifold_penalty * (
        cross @ values * (2.0 / (problem.n_rows * removed.size))
        - problem.graph.laplacian @ values * (2.0 / problem.n_rows**2)
    )


def _responses(
    fit: Fit,
    right: FloatArray,
    right_b: FloatArray,
    hessian: str,
    hessian_components: int | None,
    random_state: int | np.random.RandomState | None,
) -> tuple[FoldsState, int]:
    """B_i of all folds and outputs: one Hessian for each output, or one for all (square loss)."""
    problem = fit.problem
    curvature, q = fit.labels.curvature, fit.labels.beta.shape[1]
    labelled = problem.basis.labelled
    coef, values = np.empty_like(right), np.empty((problem.n_rows, right.shape[1]))
    b = np.zeros(right.shape[1])
    n_solves = 0
    shared = problem.loss.is_quadratic
    for j in range(1 if shared else q):
        columns = slice(None) if shared else slice(j, None, q)
        F = curvature[:, j]
        H = _hessian(problem, F, hessian, hessian_components, random_state)
        coef[:, columns], values[:, columns] = H.solve(right[:, columns])
        n_solves += coef[:, columns].shape[1]
        if problem.fit_intercept:
            ones = np.zeros((problem.n_rows, 1))
            ones[labelled, 0] = F
            coef_one, values_one = H.solve(problem.basis.representer(ones))
            b[columns] = solve_bordered(
                values[labelled, columns], values_one[labelled, 0], F, right_b[columns]
            )
            coef[:, columns] -= coef_one * b[columns]
            values[:, columns] -= values_one * b[columns]
            n_solves += 1
    return FoldsState(coef, values, b), n_solves


def _hessian(
    problem: Problem,
    curvature: FloatArray,
    kind: str,
    n_components: int | None,
    random_state: int | np.random.RandomState | None,
) -> FullHessian | NystromHessian:
    if kind == "exact":
        correction = label_correction(problem.gram, curvature)
        return FullHessian(problem.basis, problem.deformed, problem.ambient_penalty, correction)
    landmarks = hessian_landmarks(problem.n_rows, n_components, random_state)
    return nystrom_hessian(
        problem.basis,
        landmarks,
        curvature,
        problem.ambient_penalty,
        problem.manifold_scale,
    )


def hessian_landmarks(
    n_rows: int, n_components: int | None, random_state: int | np.random.RandomState | None
) -> IntArray:
    """Rows whose kernel columns approximate K inside the Hessian: a random sample, sorted."""
    c = round(np.sqrt(n_rows)) if n_components is None else n_components
    return np.sort(check_random_state(random_state).permutation(n_rows)[:c])


def _influence_on_labels(fit: Fit, folds: Sequence[Fold], bounds: bool) -> list[FoldDecisions]:
    """(6) with the graph left alone: an l-dimensional response for every fold."""
    problem, q = fit.problem, fit.labels.beta.shape[1]
    results: list[FoldDecisions] = []
    for columns in label_columns(fit, folds):
        full = columns.full
        xi = -np.hstack(list(fold_slopes(fit, columns.folds))) - 2.0 * full.beta
        totals = np.zeros(xi.shape[1]) if problem.fit_intercept else None
        delta, delta_b = label_response(problem.gram, full.curvature, xi, totals)
        step = np.repeat([1.0 / (1.0 - fold.n_folds) for fold in columns.folds], q)
        moved = evaluate(
            problem.gram,
            columns.targets,
            columns.weights,
            problem.loss,
            full.beta + step * delta,
            full.intercept + step * delta_b,
        )
        results += columns.decisions(replace(moved, steps=moved.steps + 1), bounds)
    return results


def _literal_values(fit: Fit, right: FloatArray) -> FloatArray:
    """B as Theorem 1 prints it, H = J K F + 2 gamma_A I + 2 gamma_I/N^2 K L, on function values."""
    problem = fit.problem
    n, basis = problem.n_rows, problem.basis
    K = basis.kernel_columns(np.arange(n))
    common = 2.0 * problem.manifold_scale * (problem.graph.laplacian @ K).T
    common.flat[:: n + 1] += 2.0 * problem.ambient_penalty
    values = np.empty((n, right.shape[1]))
    q = fit.labels.beta.shape[1]
    for j in range(q):
        H = common.copy()
        block = np.ix_(basis.labelled, basis.labelled)
        H[block] += K[block] * fit.labels.curvature[:, j]
        values[:, j::q] = solve_dense(H, basis.values(right[:, j::q]), "all rows")
    return values


def _values_only(
    fit: Fit, folds: Sequence[Fold], step: FloatArray, values: FloatArray
) -> list[FoldDecisions]:
    """Decisions of a response that is no function of the space: no bound."""
    q = fit.labels.beta.shape[1]
    results = []
    for i, fold in enumerate(folds):
        columns = slice(i * q, (i + 1) * q)
        response = values[fold.test_rows, columns] * step[columns]
        decisions = fit.values[fold.test_rows] + response
        results.append(FoldDecisions(fold.test_rows, decisions, None, q))
    return results
