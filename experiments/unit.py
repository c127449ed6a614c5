"""One split of one data set: every criterion for every candidate, and the test errors.

The criteria are those of the package, taken for whole planes of penalties:

exact        t-fold cross-validation as in the paper: the points of a fold are removed
newton       one Newton step on every fold's own objective (the square loss: equal to exact)
labels       exact, with the labels of a fold hidden and its points kept
bif          the influence function, equation (6), with the exact Hessian
bif_nystrom  the paper's final form: the Hessian by Nystrom with sqrt(N) columns, equation (9)
bif_product  the influence function with the derivative of the manifold term of equation (10)
bif_leverage bif with L[S_i, S_i] for L_{S_i} and a term in the leverages of the fold, as in a
             script that one of the authors published
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from experiments import protocol
from onefit._subnormals import subnormals_as_zero
from onefit.assembly import GraphSettings, build_factor
from onefit.basis import KernelBasis, plane_basis
from onefit.criteria.common import label_columns
from onefit.criteria.exact import refit_labels
from onefit.estimators import ManifoldEstimator
from onefit.factors import KernelFactor
from onefit.folds import Fold
from onefit.graphs import Graph
from onefit.kernels import Kernel
from onefit.losses import Loss
from onefit.problem import Fit, Problem
from onefit.search.candidates import Candidate, GraphGroup, group_candidates
from onefit.search.fold_planes import FoldPlanes
from onefit.search.geometry import Geometry, geometry_of
from onefit.search.influence_plane import (
    FoldLaplacians,
    NystromSpread,
    fold_laplacians,
    joined,
    label_influence,
    label_spread,
    laplacian_on,
    nystrom_influence,
    nystrom_spread,
)
from onefit.search.stacks import Ratios, fits_of_plane, label_stacks
from onefit.search.task import Task, by_deformation, closed_form
from onefit.solvers.labels import LabelFit, joined_fits

CRITERIA = ("exact", "newton", "labels", "bif", "bif_nystrom", "bif_product", "bif_leverage")
#: Size of r L K from which on its series is not worth its terms, and how many it may have.
_SMALL, _MOST_TERMS = 0.3, 60


@dataclass
class Table:
    """Figures of all candidates: test errors (n,), and for each criterion arrays (n, len(FOLDS)).

    ``errors`` are held-out squared errors or shares of wrong classes, ``losses`` held-out losses,
    both averaged over the labels.
    """

    params: list[dict[str, float]]
    test_error: np.ndarray
    errors: dict[str, np.ndarray]
    losses: dict[str, np.ndarray]
    n_rows: int
    n_labels: int
    seconds: float = 0.0


@dataclass(frozen=True)
class _Unit:
    """What the planes of a unit share."""

    data: protocol.Data
    task: Task
    folds: list[Fold]
    #: Position in FOLDS of every fold.
    t_index: list[int]
    seed: int
    table: Table
    loss: Loss
    #: Graphs by their settings, with the Laplacians of the folds; every kernel asks for them.
    graphs: dict[GraphSettings, tuple[Graph, list[FoldLaplacians]]] = field(default_factory=dict)

    def graph(
        self, geometry: Geometry, settings: GraphSettings
    ) -> tuple[Graph, list[FoldLaplacians]]:
        """A graph, and L_{S_i} of the folds as each form of the influence function has it."""
        if settings not in self.graphs:
            graph, _ = settings.build(geometry.X, geometry.neighbors_for(settings))
            stack = partial(fold_laplacians, graph, self.folds)
            self.graphs[settings] = graph, [stack(form) for form in _FORMS.values()]
        return self.graphs[settings]

    @cached_property
    def fold_of(self) -> np.ndarray:
        """Number of the fold that holds out each label, (len(FOLDS), l)."""
        fold_of = np.empty((len(protocol.FOLDS), self.table.n_labels), dtype=int)
        for i, fold in enumerate(self.folds):
            fold_of[self.t_index[i], fold.test_labels] = i
        return fold_of

    @cached_property
    def steps(self) -> np.ndarray:
        """1 / (1 - t), of shape (len(FOLDS), 1)."""
        firsts = [self.folds[self.t_index.index(i)] for i in range(len(protocol.FOLDS))]
        return np.array([[1.0 / (1.0 - fold.n_folds)] for fold in firsts])


@dataclass(frozen=True)
class _Influence:
    """What the influence functions of one kernel and graph share."""

    #: L_{S_i} of the folds, in the order of _FORMS.
    laplacians: list[FoldLaplacians]
    nystrom: NystromSpread
    #: By ambient penalty.
    leverages: dict[float, np.ndarray] = field(default_factory=dict)


@dataclass
class _Plane:
    """Held-out decisions of the candidates of one kernel and graph, (n, len(FOLDS), l)."""

    unit: _Unit
    candidates: Sequence[Candidate]
    influence: _Influence
    held: dict[str, np.ndarray]
    #: Optima with labels hidden by candidate, a column a fold.
    hidden: dict[int, LabelFit] = field(default_factory=dict)

    @classmethod
    def empty(cls, unit: _Unit, candidates: Sequence[Candidate], influence: _Influence) -> _Plane:
        shape = len(candidates), len(protocol.FOLDS), unit.table.n_labels
        held = {criterion: np.empty(shape) for criterion in CRITERIA}
        return cls(unit, candidates, influence, held)

    def position(self, candidate: Candidate) -> int:
        return self._places[candidate.index]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {candidate.index: place for place, candidate in enumerate(self.candidates)}

    def positions(self, members: Sequence[Candidate]) -> list[int]:
        return [self.position(candidate) for candidate in members]

    def put(self, criterion: str, at: Any, fold: int, decisions: np.ndarray) -> None:
        """Decisions on the test labels of one fold, for one candidate or for several."""
        labels = np.flatnonzero(self.unit.folds[fold].test_labels)
        if isinstance(at, list):
            at = np.array(at)[:, None]
        self.held[criterion][at, self.unit.t_index[fold], labels] = decisions

    def score(self) -> None:
        """Write averages over the labels to the table."""
        y, loss = self.unit.task.targets.values[:, 0], self.unit.loss
        rows = [c.index for c in self.candidates]
        table = self.unit.table
        for criterion, f in self.held.items():
            table.errors[criterion][rows] = _errors(y, f, loss.is_quadratic).mean(axis=-1)
            table.losses[criterion][rows] = loss.value(y, f).mean(axis=-1)


def _errors(y: np.ndarray, f: np.ndarray, squared: bool) -> np.ndarray:
    return np.square(y - f) if squared else ((f > 0) != (y > 0)).astype(float)


def evaluate(
    name: str,
    repeat: int,
    params: Sequence[dict] | None = None,
    model: ManifoldEstimator | None = None,
) -> Table:
    """All figures of split number ``repeat``; of the protocol's candidates and model if not given.

    Errors of the square loss are squared ones for classes, too; test errors are wrong classes.
    """
    start = time.perf_counter()
    # Classes are signs, which subnormal decisions have, too.
    arithmetic = subnormals_as_zero() if protocol.is_regression(name) else nullcontext()
    with threadpool_limits(1), arithmetic:
        unit, groups, geometry = _pose(name, repeat, params, model or protocol.model(name))
        for group in groups:
            kernel = group.settings.resolve(geometry.X)
            squared = None if geometry.squared is None else geometry.squared.copy()
            factor = build_factor(kernel, group.settings, geometry.X, squared, repeat)
            test_rows = _TestRows.of(unit.data, kernel, factor, name not in protocol.COMPONENTS)
            for graph_group in group.graphs:
                _evaluate_plane(unit, geometry, factor, test_rows, graph_group)
    unit.table.seconds = time.perf_counter() - start
    return unit.table


def _pose(name: str, repeat: int, params: Sequence[dict] | None, model: ManifoldEstimator):
    data = protocol.load(name, repeat)
    targets, sample = model._read_labels(data.X, data.y, None)
    folds, t_index = [], []
    for i, t in enumerate(protocol.FOLDS):
        part = protocol.folds(data, targets.labelled, t, repeat)
        folds += part
        t_index += [i] * len(part)
    params = list(params or protocol.candidates(name, len(data.X)))
    shape = len(params), len(protocol.FOLDS)
    table = Table(
        params,
        np.full(shape[0], np.nan),
        {criterion: np.zeros(shape) for criterion in CRITERIA},
        {criterion: np.zeros(shape) for criterion in CRITERIA},
        len(data.X),
        int(targets.labelled.sum()),
    )
    task = Task(targets, sample, folds, "exact", "points", {}, None)
    groups = group_candidates(model, params)
    unit = _Unit(data, task, folds, t_index, repeat, table, model._make_loss())
    return unit, groups, geometry_of(data.X, groups)


@dataclass(frozen=True)
class _TestRows:
    """What decisions on the test rows are computed from.

    Features z(x) do for real targets and for the Nystrom basis, f = z'a. With the exact basis and
    classes it is weights on the rows, as in the estimator: far from all labels a decision of 1e-30
    has a sign, in which rounding of features would have the last word.
    """

    #: z(x), or the kernel between test rows and all rows.
    columns: np.ndarray
    #: K, if weights are needed.
    kernel: np.ndarray | None = None

    @classmethod
    def of(
        cls, data: protocol.Data, kernel: Kernel, factor: KernelFactor, is_exact: bool
    ) -> _TestRows:
        if is_exact and not data.is_regression:
            return cls(kernel(data.X_test, data.X), kernel(data.X, data.X))
        columns = kernel(data.X_test, data.X[factor.landmarks]).T
        return cls(sl.solve_triangular(factor.triangle, columns, lower=True, check_finite=False).T)

    def decisions(self, fits: Sequence[Fit]) -> np.ndarray:
        """Decisions (n_test, n) of fits of the same deformation."""
        if self.kernel is None:
            return self.columns @ np.column_stack([fit.coef for fit in fits])
        problem = fits[0].problem
        basis = KernelBasis(self.kernel, problem.basis.laplacian, problem.basis.labelled)
        beta = [fit.labels.beta / fit.problem.ambient_penalty for fit in fits]
        ratio = problem.manifold_scale / problem.ambient_penalty
        return self.columns @ _weights(basis, ratio, np.column_stack(beta))


def _weights(basis: KernelBasis, ratio: float, beta: np.ndarray) -> np.ndarray:
    r"""Weights on the rows, (I + r L K)^-1 beta, with the digits that each of them has.

    For small ratios it is the sum of (-r L K)^k beta, until no weight changes any more: factors of
    narrow kernels are full of subnormal numbers, on which processors are slow.
    """
    step = basis._laplacian_times_kernel(np.arange(basis.n_rows), -ratio)
    if np.abs(step).sum(axis=1).max() < _SMALL:
        term = np.zeros((basis.n_rows, beta.shape[1]))
        term[basis.labelled] = beta
        total = term.copy()
        for _ in range(_MOST_TERMS):
            term = step @ term
            total += term
            if np.all(np.abs(term) <= np.finfo(float).eps * np.abs(total)):
                return total
    return basis.deform(ratio).expand(beta)


def _evaluate_plane(
    unit: _Unit,
    geometry: Geometry,
    factor: KernelFactor,
    test_rows: _TestRows,
    group: GraphGroup,
) -> None:
    graph, laplacians = unit.graph(geometry, group.settings)
    basis = plane_basis(factor, graph.laplacian, np.flatnonzero(unit.task.targets.labelled))
    influence = _Influence(laplacians, nystrom_spread(basis, random_state=unit.seed))
    plane = _Plane.empty(unit, group.candidates, influence)
    stacks = fits_of_plane(unit.task, basis, graph, group.candidates)
    fits = {candidate.index: fit for part in stacks for candidate, fit in part}
    for members in by_deformation(group.candidates):
        problem = fits[members[0].index].problem
        _test(unit, test_rows, members, [fits[c.index] for c in members])
        _hide_labels(plane, problem, members, fits)
        _influence(plane, problem, members, fits)
    planes = FoldPlanes(unit.task, basis, graph, group.candidates)
    for i, fold in enumerate(unit.folds):
        ratios = _with_grams(planes.problems(fold))
        if unit.loss.is_quadratic:
            _remove_points_square(plane, ratios, i)
        else:
            _remove_points(plane, ratios, fits, i)
    plane.score()


def _with_grams(ratios: Ratios) -> Ratios:
    """The same, with matrices of the labels whose small entries are the kernel's own.

    No digit of them hangs on subnormal numbers, with which it would take longer to make them.
    """
    waiting = iter(ratios)
    while True:
        with subnormals_as_zero():
            members, problem = next(waiting, (None, None))
            if members is None:
                return
            _ = problem.deformed.labelled_gram
        yield members, problem


def _test(
    unit: _Unit, test_rows: _TestRows, members: Sequence[Candidate], fits: Sequence[Fit]
) -> None:
    y = unit.data.y_test
    if not unit.data.is_regression:
        y = 2.0 * y - 1.0
    wrong = _errors(y[:, None], test_rows.decisions(fits), unit.data.is_regression).mean(axis=0)
    unit.table.test_error[[c.index for c in members]] = wrong


def _hide_labels(
    plane: _Plane, problem: Problem, members: Sequence[Candidate], fits: dict[int, Fit]
) -> None:
    if problem.loss.is_quadratic:
        parts = closed_form(problem, members, plane.unit.folds)
        for i, part in enumerate(parts):
            plane.put("labels", plane.positions(members), i, part[:, :, 0])
        return
    for candidate in members:
        (columns,) = label_columns(fits[candidate.index], plane.unit.folds)
        plane.hidden[candidate.index] = refit = refit_labels(columns)
        for i, part in enumerate(columns.decisions(refit, bounds=False)):
            plane.put("labels", plane.position(candidate), i, part.decisions[:, 0])


def _influence(
    plane: _Plane, problem: Problem, members: Sequence[Candidate], fits: dict[int, Fit]
) -> None:
    unit, shared = plane.unit, plane.influence
    spread = label_spread(problem)
    own = [fits[c.index] for c in members]
    together = label_influence(spread, own, unit.folds * len(_FORMS), joined(shared.laplacians))
    changes = {
        criterion: [part[i * len(unit.folds) : (i + 1) * len(unit.folds)] for part in together]
        for i, criterion in enumerate(_FORMS)
    }
    changes["bif_nystrom"] = nystrom_influence(
        shared.nystrom, spread, own, unit.folds, shared.laplacians[0]
    )
    every = np.arange(unit.table.n_labels)
    for criterion, of_fits in changes.items():
        for candidate, fit, change in zip(members, own, of_fits, strict=True):
            b = change[unit.fold_of, every, 0]
            decisions = fit.labels.values[:, 0] + unit.steps * b
            if criterion == "bif_leverage":
                decisions += unit.steps**2 / 0.33 * b / (1.0 - _leverages(plane, fit))
            plane.held[criterion][plane.position(candidate)] = decisions


def _leverages(plane: _Plane, fit: Fit) -> np.ndarray:
    r"""Leverages of every label in ridge regression on its fold alone, (len(FOLDS), l).

    1 - lambda [A^-1]_jj with A = K_hh + lambda I, lambda = gamma_A l.
    """
    problem, remembered = fit.problem, plane.influence.leverages
    ridge = problem.ambient_penalty * problem.n_labelled
    if ridge not in remembered:
        K = problem.basis.labelled_columns[problem.basis.labelled]
        leverages = np.empty((len(protocol.FOLDS), problem.n_labelled))
        for i, fold in enumerate(plane.unit.folds):
            block = K[np.ix_(fold.test_labels, fold.test_labels)]
            inverse = np.linalg.inv(block + ridge * np.eye(block.shape[0]))
            leverages[plane.unit.t_index[i], fold.test_labels] = 1.0 - ridge * np.diagonal(inverse)
        remembered[ridge] = leverages
    return remembered[ridge]


def _block_laplacian(graph: Graph, rows: np.ndarray) -> sp.csr_array:
    """L[S_i, S_i]: edges that leave the fold stay in its degrees."""
    inside = sp.diags_array(np.bincount(rows, minlength=graph.affinity.shape[0]).astype(float))
    return sp.csr_array(inside @ graph.laplacian @ inside)


def _product_laplacian(graph: Graph, rows: np.ndarray) -> sp.csr_array:
    """The cross-edge form (10), scaled so that 2 gamma_I / n_i^2 times it is the derivative."""
    n = graph.affinity.shape[0]
    inside = sp.diags_array(np.bincount(rows, minlength=n).astype(float))
    at_fold = inside @ graph.affinity
    cross = Graph(sp.csr_array(at_fold + at_fold.T)).laplacian
    share = rows.size / n
    return sp.csr_array(cross * share - graph.laplacian * share**2)


#: L_{S_i} by criterion: edges within the fold, the cross-edge form, the blocks of L.
_FORMS = {"bif": laplacian_on, "bif_product": _product_laplacian, "bif_leverage": _block_laplacian}


def _remove_points_square(plane: _Plane, ratios: Ratios, i: int) -> None:
    r"""f_h = K~_hk (K~_kk + gamma_A l' I)^-1 y_k for all candidates of the plane."""
    fold = plane.unit.folds[i]
    kept, out = np.flatnonzero(fold.kept_labels), np.flatnonzero(fold.test_labels)
    for members, problem in ratios:
        gram, y = problem.deformed.labelled_gram, problem.targets[kept]
        ridges = kept.size * np.array([float(c.model.ambient_penalty) for c in members])
        weights = _ridge_weights(gram[np.ix_(kept, kept)], ridges, y)
        decisions = (gram[np.ix_(out, kept)] @ weights).T
        # One Newton step is exact for the square loss.
        for criterion in ("exact", "newton"):
            plane.put(criterion, plane.positions(members), i, decisions)


def _ridge_weights(gram: np.ndarray, ridges: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Solve (gram + ridge I) w = y for every ridge, (l, n)."""
    diagonal, weights = np.diagonal(gram).copy(), []
    for ridge in ridges:
        np.fill_diagonal(gram, diagonal + ridge)
        # Transposed it is in the order of LAPACK.
        _, solution, info = sl.lapack.dposv(gram.T, y, lower=1)
        if info:  # to rounding
            solution = np.linalg.solve(gram, y)
        weights.append(solution[:, 0])
    return np.column_stack(weights)


def _remove_points(
    plane: _Plane,
    ratios: Ratios,
    fits: dict[int, Fit],
    i: int,
) -> None:
    fold = plane.unit.folds[i]
    for stack in label_stacks(ratios, fold.kept_labels):
        indices = [candidate.index for candidate in stack.members]
        stepped = stack.newton_values(joined_fits([fits[index].labels for index in indices]))
        # The optimum without the labels is nearer than the full solution.
        start = joined_fits([plane.hidden[index].columns([i]) for index in indices])
        refit = stack.refit(start, tol=1e-6)
        at = plane.positions(stack.members)
        plane.put("newton", at, i, stepped[fold.test_labels].T)
        plane.put("exact", at, i, refit.values[fold.test_labels].T)
