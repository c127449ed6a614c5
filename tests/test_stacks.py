"""Label problems of many candidates at once against one after the other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefit import LapRLSRegressor, LapSVC
from onefit.losses import HuberizedHinge, Logistic
from onefit.search import stacks
from onefit.search.candidates import Candidate
from onefit.search.stacks import fits_of_plane, label_stacks
from onefit.search.task import at_ambient, by_deformation
from onefit.solvers import correction, labels
from onefit.solvers.correction import label_response
from onefit.solvers.grams import (
    GramStack,
    block_of,
    blocks,
    changes,
    largest_diagonal,
    some_columns,
)
from onefit.solvers.labels import solve_labels
from test_held_out import MODELS, moons, posed, waves

with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True])


def stack_of_five(n_labels=15):
    """Columns 0 and 1 have the first kernel, 2 to 4 the third; the second has none."""
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, n_labels, n_labels + 3))
    kernels = [root @ root.T for root in roots]
    return GramStack(kernels, np.array([0, 0, 2, 2, 2]), 10.0 ** np.arange(-2, 3))


def own(G, column):
    return G.kernels[G.of[column]] / G.ambient[column]


class TestGramStack:
    def test_every_column_has_its_own_matrix(self):
        G = stack_of_five()
        first, third = G.kernels[0], G.kernels[2]
        matrices = [first / 1e-2, first / 1e-1, third, third / 10.0, third / 100.0]
        x = np.random.default_rng(1).normal(size=(15, 5))
        rows = np.array([[0, 3], [3, 14], [2, 1], [7, 7], [5, 0]])
        assert_allclose(G @ x, np.column_stack([matrices[j] @ x[:, j] for j in range(5)]))
        assert_allclose(largest_diagonal(G), [np.diagonal(one).max() for one in matrices])
        for j in range(5):
            assert_allclose(blocks(G, rows)[j], matrices[j][np.ix_(rows[j], rows[j])])
            # What all columns share is such a stack, too.
            assert_allclose(blocks(matrices[j], rows)[j], matrices[j][np.ix_(rows[j], rows[j])])
            assert_allclose(block_of(G, j, rows[j]), matrices[j][np.ix_(rows[j], rows[j])])

    def test_some_columns(self):
        G, x = stack_of_five(), np.ones((15, 2))
        some = some_columns(G, np.array([False, True, False, False, True]))
        assert_allclose(some @ x, np.column_stack([own(G, 1) @ x[:, 0], own(G, 4) @ x[:, 1]]))

    @with_and_without_intercept
    @pytest.mark.parametrize("largest", [0, 15], ids=["one by one", "stacked"])
    def test_response(self, intercept, largest, monkeypatch):
        monkeypatch.setattr(correction, "_SMALL", largest)
        rng, G = np.random.default_rng(2), stack_of_five()
        F = np.where(rng.uniform(size=(15, 5)) < 0.3, 0.0, rng.uniform(0.1, 1.0, (15, 5)))
        xi, totals = rng.normal(size=(15, 5)), rng.normal(size=5) if intercept else None
        delta, b = label_response(G, F, xi, totals)
        assert_allclose(2 * delta + F * (G @ delta + b), xi, atol=1e-9)
        assert b.any() == intercept
        if intercept:
            assert_allclose(delta.sum(axis=0), totals, atol=1e-9)

    @with_and_without_intercept
    @pytest.mark.parametrize("loss", [HuberizedHinge(0.01), Logistic()], ids=["hinge", "logistic"])
    def test_newton(self, loss, intercept):
        rng, G = np.random.default_rng(3), stack_of_five()
        Y = np.where(rng.uniform(size=(15, 5)) < 0.4, 1.0, -1.0)
        V = np.where(rng.uniform(size=(15, 5)) < 0.2, 0.0, 1 / 15)
        options = {"fit_intercept": intercept, "tol": 1e-10, "max_iter": 200}
        found = solve_labels(G, Y, V, loss, **options)
        assert found.converged
        assert found.gradient_norms(G).max() < 1e-6
        for j in range(5):
            alone = solve_labels(own(G, j), Y[:, [j]], V[:, j], loss, **options)
            assert_allclose(found.values[:, j], alone.values[:, 0], atol=1e-6)


def test_columns_of_one_matrix_and_weights_share_a_factorisation(monkeypatch):
    """The outputs of a candidate with several classes do."""
    rng, factored = np.random.default_rng(4), []
    square_weights = labels.square_weights
    monkeypatch.setattr(
        labels, "square_weights", lambda *a: factored.append(a[1].shape[1]) or square_weights(*a)
    )
    kernels = stack_of_five().kernels
    G = GramStack(kernels, np.array([0, 0, 0, 1, 1]), np.array([1.0, 1.0, 2.0, 2.0, 2.0]))
    Y, V = rng.normal(size=(15, 5)), np.full((15, 5), 0.1)
    V[:3, 4] = 0.0
    assert changes(G, 5).tolist() == [False, True, True, False]
    fit = labels.solve_square(G, Y, V)
    assert factored == [2, 1, 1, 1]
    assert np.abs(fit.residual).max() < 1e-12  # zero at the optimum
    assert not fit.beta[:3, 4].any()


def candidates_of(model, grid):
    return [
        Candidate(j, type(model)(**model.get_params()).set_params(**params))
        for j, params in enumerate(grid)
    ]


@pytest.mark.parametrize("model, data", MODELS)
def test_fits_are_those_of_every_problem(model, data):
    X, y = data()
    task, basis, graph, candidates, _ = posed(model, X, y, "exact")
    parts = [list(part) for part in fits_of_plane(task, basis, graph, candidates)]
    found = {candidate.index: fit for part in parts for candidate, fit in part}
    assert len(parts) == 1
    assert sorted(found) == list(range(len(candidates)))
    for members in by_deformation(candidates):
        problem = members[0].model._pose_problem(basis, graph, task.targets, task.sample)
        for candidate in members:
            fit, alone = found[candidate.index], at_ambient(problem, candidate).solve()
            assert fit.problem.ambient_penalty == float(candidate.model.ambient_penalty)
            assert fit.labels.converged
            scale = max(1.0, np.abs(alone.values).max())
            assert_allclose(fit.values, alone.values, atol=1e-6 * scale)
            assert fit.relative_gradient() < 1e-6


def test_problems_of_one_loss_and_weights_stand_together():
    """Whatever the order of the candidates: the grid has the fastest changes of a parameter."""
    X, y = moons()
    task, basis, graph, _, _ = posed(LapSVC(kernel_width=0.5), X, y, "exact")
    grid = [
        {"ambient_penalty": a, "manifold_penalty": i, "class_weight": w, "hinge_width": h}
        for a in (1e-3, 1e-1)
        for i in (0.01, 1.0)
        for w in (None, "balanced")
        for h in (0.01, 0.5)
    ]
    candidates = candidates_of(LapSVC(kernel_width=0.5), grid)
    parts = [list(part) for part in fits_of_plane(task, basis, graph, candidates)]
    assert [len(part) for part in parts] == [4] * 4
    for part in parts:
        assert len({(c.model.class_weight, c.model.hinge_width) for c, _ in part}) == 1
        for candidate, fit in part:
            alone = candidate.model._pose_problem(basis, graph, task.targets, task.sample).solve()
            assert_allclose(fit.values, alone.values, atol=1e-6)


def test_stacks_have_limits(monkeypatch):
    """Of columns, and of the memory that Gram matrices take."""
    X, y = moons()
    task, basis, graph, candidates, _ = posed(LapSVC(kernel_width=0.5), X, y, "exact")
    groups = by_deformation(candidates)

    def sizes():
        ratios = [
            (members, members[0].model._pose_problem(basis, graph, task.targets, task.sample))
            for members in groups
        ]
        return [(len(s.members), len(s.gram.kernels)) for s in label_stacks(ratios)]

    assert sizes() == [(12, len(groups))]
    monkeypatch.setattr(stacks, "MOST_COLUMNS", 2)  # the first ratio alone has more
    assert sum(n for n, _ in sizes()) == 12
    assert max(n for n, _ in sizes()) == 2
    monkeypatch.setattr(stacks, "_room", lambda problem: 2)
    monkeypatch.setattr(stacks, "MOST_COLUMNS", 100)
    assert {n for _, n in sizes()} <= {1, 2}


def test_gram_matrices_have_the_room_of_one_matrix_of_the_basis():
    X, y = waves()
    task, basis, graph, candidates, _ = posed(LapRLSRegressor(kernel_width=1.0), X, y, "exact")
    problem = candidates[0].model._pose_problem(basis, graph, task.targets, task.sample)
    assert (
        stacks._room(problem) * 20**2
        <= basis.diagonal.size**2
        < (stacks._room(problem) + 1) * 20**2
    )
