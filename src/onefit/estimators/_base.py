"""What the estimators share: from parameters and data to a fitted kernel expansion."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from onefit._typing import BoolArray, FloatArray, GraphWidth, Rows
from onefit.anchors import AnyGraph
from onefit.assembly import (
    GraphSettings,
    KernelSettings,
    build_basis,
    check_dense,
    check_distributed,
    check_square,
    shared_distances,
)
from onefit.basis import Basis, KernelBasis
from onefit.blocks import RowBlocks, gathered, is_dask, open_blocks
from onefit.estimators._growth import settled_problem
from onefit.kernels import Kernel
from onefit.losses import Loss
from onefit.problem import Fit, Problem, said_if_singular
from onefit.solvers.convergence import warn_not_converged, warn_rounding
from onefit.targets import LabelWeights, Targets, check_sample_weight
from onefit.validation import (
    PENALTY_LIMITS,
    check_boolean,
    check_integer,
    check_magnitude,
    check_no_disguise,
    check_number,
    check_spread,
    check_structure,
    hint_about_rows,
)

__all__ = ["Assembled", "ManifoldEstimator"]


#: Gradient of a fit, relative to that at f = 0, beyond which it warns.
_MOST_GRADIENT = 1e-3
#: Entries of a block of the kernel matrix between new and training rows.
_PREDICT_BLOCK = 2**24
#: What prediction does not need, and grows with the number of training rows.
_OF_TRAINING = ("graph_", "transduction_")


@dataclass(frozen=True)
class Assembled:
    """A problem built from user data, with what prediction needs."""

    problem: Problem
    targets: Targets
    X: Rows
    kernel: Kernel
    graph_width: float | None

    @property
    def is_flat(self) -> bool:
        """Whether decision values have shape (N,)."""
        return self.targets.is_flat

    def solve(self) -> Fit:
        """The fit on all rows; an error if double precision cannot hold it."""
        with said_if_singular(self.problem):
            fit = self.problem.solve()
            if not np.isfinite(fit.coef).all():
                raise np.linalg.LinAlgError
            return fit


class ManifoldEstimator(BaseEstimator, metaclass=ABCMeta):
    """What the four estimators share."""

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "gaussian",
        kernel_width: float | Literal["median"] = "median",
        ambient_penalty: float = 1e-3,
        manifold_penalty: float = 10.0,
        n_neighbors: int = 8,
        graph_width: float | GraphWidth = "median",
        kernel_params: Mapping[str, Any] | None = None,
        graph: Any = "knn",
        graph_weights: str = "heat",
        laplacian: str = "unnormalized",
        laplacian_power: int = 1,
        neighbors: str = "auto",
        n_anchors: int = 500,
        n_components: int | Literal["auto"] | None = None,
        landmarks: str = "uniform",
        memory_limit: float | None = None,
        fit_intercept: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.kernel_width = kernel_width
        self.ambient_penalty = ambient_penalty
        self.manifold_penalty = manifold_penalty
        self.n_neighbors = n_neighbors
        self.graph_width = graph_width
        self.kernel_params = kernel_params
        self.graph = graph
        self.graph_weights = graph_weights
        self.laplacian = laplacian
        self.laplacian_power = laplacian_power
        self.neighbors = neighbors
        self.n_anchors = n_anchors
        self.n_components = n_components
        self.landmarks = landmarks
        self.memory_limit = memory_limit
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    # What subclasses say: how to read y, which loss, which class weights.

    @abstractmethod
    def _read_targets(self, y: Any, weightless: BoolArray | None = None) -> Targets:
        """Which rows are labelled, ``weightless`` ones aside, and what the loss compares with."""

    @abstractmethod
    def _make_loss(self) -> Loss:
        """The loss, with its parameters checked."""

    def _make_class_weight(self, targets: Targets) -> str | FloatArray | None:
        """Factors of the losses by class number."""
        return None

    # From data to a solved problem.

    def _assemble(self, X: Any, y: Any, sample_weight: Any = None) -> Assembled:
        """Validate everything and build the :class:`~onefit.problem.Problem`, without solving it.

        The common entrance of ``fit`` and of the cross-validation criteria.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        """
        kernel_settings, graph_settings = self._checked_settings()
        X = open_blocks(X)
        if isinstance(X, RowBlocks):
            check_distributed(kernel_settings, graph_settings)
        X = self._validated_rows(X)
        if self.kernel == "precomputed":
            check_square(X)
        targets, sample = self._read_labels(X, y, sample_weight)
        kernel_settings.check_rows(X.shape[0])
        labelled = np.flatnonzero(targets.labelled)
        kernel = kernel_settings.resolve(X)
        squared = shared_distances(kernel_settings, X)
        if self.manifold_penalty == 0:
            # The graph has no weight: too few rows for it are no reason to refuse the fit.
            few = min(graph_settings.n_neighbors, max(1, X.shape[0] - 1))
            graph_settings = replace(graph_settings, n_neighbors=few)
        neighbors = graph_settings.find(X, graph_settings.n_neighbors, squared, self.random_state)
        graph, sigma_w = graph_settings.build(X, neighbors)
        self.neighbors_method_ = None if neighbors is None else neighbors.method

        def problem_of(c: int | None) -> Problem:
            settings = replace(kernel_settings, n_components=c)
            basis = build_basis(kernel, settings, X, squared, graph, labelled, self.random_state)
            return self._pose_problem(basis, graph, targets, sample)

        self.n_components_: int | None
        self.growth_: tuple[tuple[int, float], ...] | None
        if isinstance(self.n_components, str):
            growth, problem = settled_problem(problem_of, targets, kernel_settings.limit)
            self.n_components_, self.growth_ = growth.n_components, growth.steps
        else:
            self.n_components_, self.growth_ = self.n_components, None
            problem = problem_of(self.n_components)
        return Assembled(problem, targets, X, kernel, sigma_w)

    def _pose_problem(
        self, basis: Basis, graph: AnyGraph, targets: Targets, sample: FloatArray
    ) -> Problem:
        """The objective of this estimator in a given basis.

        Parameters
        ----------
        basis, graph
            Function space, and the graph it was built with.
        targets, sample
            Labels and their weights.
        """
        return Problem(
            basis=basis,
            graph=graph,
            targets=targets.values,
            weights=LabelWeights(sample, targets.codes, self._make_class_weight(targets)),
            loss=self._make_loss(),
            ambient_penalty=float(self.ambient_penalty),
            manifold_penalty=float(self.manifold_penalty),
            fit_intercept=bool(self.fit_intercept),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )

    def _validated_rows(self, X: Any, *, reset: bool = True) -> Rows:
        """``X`` as an array or CSR matrix of finite floats; errors say what to do about it."""
        if self.kernel == "precomputed":
            check_dense(X)
        if isinstance(X, RowBlocks):
            # Names and number of columns here; the rows where they are, whenever they are used.
            validate_data(self, X.meta, dtype=None, reset=reset, ensure_min_samples=0)
            return X
        check_no_disguise(X)
        check_structure(X)
        try:
            with np.errstate(over="ignore"):  # of longer floats: infinite, which is refused
                rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        except (TypeError, ValueError, OverflowError) as error:
            hint = hint_about_rows(X, str(error))
            if self.kernel == "precomputed" and not reset and "features" in str(error):
                hint = (
                    "With kernel='precomputed' expected the kernel between the new rows and all "
                    f"{self.n_features_in_} training rows."
                )
            if not hint:
                raise
            kind = ValueError if isinstance(error, OverflowError) else type(error)
            raise kind(f"{str(error).partition(chr(10))[0].rstrip('.')}. {hint}") from error
        check_magnitude(rows)
        if reset and self.kernel != "precomputed":
            check_spread(rows)
        return rows

    def _read_labels(self, X: Rows, y: Any, sample_weight: Any) -> tuple[Targets, FloatArray]:
        """Targets and weights of the labelled rows.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``; X validated already.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        y, sample_weight = gathered(y), gathered(sample_weight)
        try:
            check_consistent_length(X, y)
        except ValueError as error:
            raise ValueError(
                f"{error} (rows of X, length of y). Expected a label for every row: unlabelled "
                "rows are marked in y, not left out."
            ) from None
        return _weighted_targets(self._read_targets, y, sample_weight, X)

    def _checked_settings(self) -> tuple[KernelSettings, GraphSettings]:
        """Parameters of kernel and graph; raises on any that make no sense."""
        check_number(
            "ambient_penalty",
            self.ambient_penalty,
            limits=PENALTY_LIMITS,
            hint="Without an ambient penalty the solution is not unique.",
        )
        check_number(
            "manifold_penalty", self.manifold_penalty, zero_allowed=True, limits=PENALTY_LIMITS
        )
        check_number("tol", self.tol)
        check_integer("max_iter", self.max_iter, minimum=1)
        check_boolean("fit_intercept", self.fit_intercept)
        check_random_state(self.random_state)
        kernel = KernelSettings(
            self.kernel,
            self.kernel_width,
            self.kernel_params,
            self.n_components,
            self.landmarks,
            self.memory_limit,
        )
        graph = GraphSettings(
            self.graph,
            self.n_neighbors,
            self.graph_width,
            self.graph_weights,
            self.laplacian,
            self.laplacian_power,
            self.neighbors,
            self.n_anchors,
        )
        kernel.check()
        graph.check()
        self._make_loss()
        return kernel, graph

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[Assembled, Fit]:
        assembled = self._assemble(X, y, sample_weight)
        fit = assembled.solve()
        if not fit.labels.converged:
            worst = float(fit.labels.gradient_norms(fit.problem.gram).max())
            warn_not_converged(type(self).__name__, fit.problem.max_iter, worst)
        # Reductions to tridiagonal form keep their digits; factors of I + r K L lose them with r.
        elif isinstance(fit.problem.basis, KernelBasis):
            gradient = fit.relative_gradient()
            if not gradient <= _MOST_GRADIENT:
                warn_rounding(type(self).__name__, gradient)
        rows, weights = assembled.problem.basis.dual_coefficients(fit.coef)
        self.support_ = rows
        self.X_fit_ = None if self.kernel == "precomputed" else assembled.X[self.support_]
        self.dual_coef_ = weights
        self.intercept_ = fit.labels.intercept
        self.kernel_width_ = assembled.kernel.width if self.kernel == "gaussian" else None
        self.graph_width_ = assembled.graph_width
        self.graph_ = assembled.problem.graph.stored
        self.n_iter_ = fit.labels.n_steps
        self._kernel = assembled.kernel
        return assembled, fit

    def compact(self) -> Self:
        """A copy that predicts the same and holds landmarks and weights only.

        Graph and predictions on the training rows are left out, so that the size of the copy does
        not depend on their number; ``n_components`` bounds it.

        Returns
        -------
        estimator
            A shallow copy, fitted.
        """
        check_is_fitted(self)
        small = copy.copy(self)
        for name in _OF_TRAINING:
            small.__dict__.pop(name, None)
        if not isinstance(self.graph, str):
            small.graph = "knn"  # a precomputed graph is a matrix on the training rows
        return small

    def _decisions(self, X: Any) -> FloatArray:
        """Decision values f(x) of every output, computed in blocks of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Rows.

        Returns
        -------
        array of shape (n, q)
            Of a dask collection, a dask array.
        """
        check_is_fitted(self)
        if is_dask(X):
            blocks = self._validated_rows(open_blocks(X, sizes=False), reset=False)
            return blocks.lazily(self.compact()._decisions_of, self.dual_coef_.shape[1])
        return self._decisions_of(self._validated_rows(X, reset=False))

    def _decisions_of(self, X: Rows) -> FloatArray:
        """As :meth:`_decisions`, for rows that are validated already."""
        size = max(1, _PREDICT_BLOCK // max(1, len(self.support_)))
        blocks = [
            self._kernel_to_support(X[rows]) @ self.dual_coef_
            for rows in gen_batches(X.shape[0], size)
        ]
        return np.concatenate(blocks) + self.intercept_

    def _kernel_to_support(self, X: Rows) -> FloatArray:
        if not len(self.support_):
            return np.zeros((X.shape[0], 0))
        if self.kernel == "precomputed":
            return np.asarray(X[:, self.support_])
        return self._kernel(X, self.X_fit_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = True
        return tags


def _weighted_targets(
    read_targets: Callable[..., Targets], y: Any, sample_weight: Any, X: Rows
) -> tuple[Targets, FloatArray]:
    """Targets and weights of the rows with a label; a weight of 0 takes the label away."""
    targets = read_targets(y)
    if sample_weight is None:
        return targets, np.ones(targets.values.shape[0])
    weights = check_sample_weight(sample_weight, X.shape[0])
    if not np.any(weights[targets.labelled] > 0):
        raise ValueError(
            "sample_weight is zero for every labelled row, which hides all labels; expected a "
            "positive weight for at least one row of each class, or one target."
        )
    if not np.all(weights[targets.labelled] > 0):
        targets = read_targets(y, weights == 0)
    return targets, weights[targets.labelled]
