"""Gradients at fits, of one model or of many candidates at once, from the objective alone."""

import numpy as np

import reference
from onefit import LapRLSRegressor
from onefit.assembly import build_factor
from onefit.basis import plane_basis
from onefit.search.geometry import geometry_of
from onefit.search.task import at_ambient, by_deformation


def largest_gradient(model, loss, K, y):
    """The gradient at a fitted model, see relative_gradients."""
    alpha = np.zeros((1, model.dual_coef_.shape[1], len(y)))
    alpha[0][:, model.support_] = model.dual_coef_.T
    L = reference.laplacian(model.graph_.toarray())
    return relative_gradients([model], loss, K, L, y, alpha, model.intercept_[None])[0]


def plane_gradients(loss, X, y, groups):
    """Gradients at the fits of all candidates (of group_candidates) by the bases of the search.

    NaN where Newton's method says that it stopped short.
    """
    model = groups[0].graphs[0].candidates[0].model
    geometry = geometry_of(X, groups)
    targets, sample = model._read_labels(X, targets_for(model, y), None)
    labelled = np.flatnonzero(targets.labelled)
    found = np.full(sum(group.n_candidates for group in groups), np.inf)
    for group in groups:
        kernel = group.settings.resolve(X)
        factor = build_factor(kernel, group.settings, X, geometry.squared.copy(), 0)
        K = reference.gaussian_kernel(X, X, kernel.width)
        for part in group.graphs:
            graph, _ = part.settings.build(X, geometry.neighbors_for(part.settings))
            basis = plane_basis(factor, graph.operator, labelled)
            L = reference.laplacian(graph.affinity.toarray())
            candidates, fits, coef = _solved(basis, graph, targets, sample, part.candidates)
            alpha = np.zeros((len(fits), targets.values.shape[1], len(y)))
            rows, weights = basis.dual_coefficients(coef)
            alpha[:, :, rows] = weights.T.reshape(*alpha.shape[:2], -1)
            b = np.array([fit.labels.intercept for fit in fits])
            models = [candidate.model for candidate in candidates]
            gradients = relative_gradients(models, loss, K, L, y, alpha, b)
            gradients[[not fit.labels.converged for fit in fits]] = np.nan
            found[[candidate.index for candidate in candidates]] = gradients
    return found


def _solved(basis, graph, targets, sample, candidates):
    """The candidates of one kernel and graph, their fits, each from a start of its own, and coef.

    The coefficients are those of ``Fit.coef``, of all fits of a ratio at once.
    """
    ordered, fits, coef = [], [], []
    for members in by_deformation(candidates):
        problem = members[0].model._pose_problem(basis, graph, targets, sample)
        some = [at_ambient(problem, candidate).solve() for candidate in members]
        scaled = [fit.labels.beta / fit.problem.ambient_penalty for fit in some]
        coef.append(problem.deformed.expand(np.column_stack(scaled)))
        ordered += members
        fits += some
    return ordered, fits, np.column_stack(coef)


def relative_gradients(models, loss, K, L, y, alpha, b):
    """Norm of the gradient of J at fits, over the most that the loss can add to it at f = 0.

    For losses more curved than the square loss, over their curvature too. Models differ in
    penalties and intercept; alpha has shape (models, outputs, N), b (models, outputs). The worst
    output counts.
    """
    labelled = np.flatnonzero(y != -1)
    v = np.full(len(labelled), 1.0 / len(labelled))
    curvature = max(1.0, loss.second(np.ones(1), np.ones(1))[0] / 2.0)
    of_models = [[m.ambient_penalty, m.manifold_penalty, m.fit_intercept] for m in models]
    worst = np.zeros(len(models))
    for j, target in enumerate(_outputs(models[0], y[labelled])):
        J = reference.Objective(L, labelled, target, v, loss, *np.array(of_models).T)
        slope = v @ np.abs(loss.first(target, np.zeros(len(target)))) + np.finfo(float).tiny
        gradients = J.gradient(K, alpha[:, j], b[:, j]) / slope / curvature
        worst = np.maximum(worst, gradients)
    return worst


def _outputs(model, labels):
    """Targets of every output: numbers, or 1 and -1 for one class against the others."""
    if isinstance(model, LapRLSRegressor):
        return [labels.astype(float)]
    classes = np.unique(labels)
    codes = (classes[1:] if len(classes) == 2 else classes)[:, None] == labels
    return np.where(codes, 1.0, -1.0)


def targets_for(estimator, y):
    """Labels as an estimator reads them: of a regressor, numbers."""
    return np.where(y == -1, np.nan, y) if isinstance(estimator, LapRLSRegressor) else y
