"""From rows and parameters to a :class:`~onefit.problem.Problem`: kernel, graph, basis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from onefit._typing import FloatArray, GraphWidth, IntArray, Rows
from onefit.anchors import (
    AnchorGraph,
    AnyGraph,
    AnyNeighbors,
    DistributedAnchors,
    anchor_weights,
    nearest_anchors,
)
from onefit.basis import Basis, KernelBasis, plane_basis
from onefit.blocks import RowBlocks
from onefit.factors import Factor, factor_kernel, factor_nystrom, factor_nystrom_in_blocks
from onefit.graphs import Graph, check_affinity, heat_affinity
from onefit.kernels import (
    GRAPH_WIDTHS,
    Kernel,
    check_positive_semidefinite,
    drop_negligible,
    kernel_names,
    median_squared_distance,
    squared_distances,
)
from onefit.landmarks import LANDMARK_RULES
from onefit.memory import (
    block_rows,
    blocked_bytes,
    default_limit,
    fit_bytes,
    gibibytes,
    nystrom_bytes,
)
from onefit.neighbors import NEIGHBOR_METHODS, find_neighbors
from onefit.validation import SMALLEST, check_choice, check_integer, check_number

__all__ = [
    "GraphSettings",
    "KernelSettings",
    "build_basis",
    "build_factor",
    "check_dense",
    "check_distributed",
    "check_square",
    "shared_distances",
]

#: Powers of the Laplacian beyond this leave no digits in double precision.
_HIGHEST_POWER = 10


@dataclass(frozen=True)
class KernelSettings:
    """Parameters of the kernel and of its approximation."""

    kernel: str | Callable[..., Any] = "gaussian"
    kernel_width: float | Literal["median"] = "median"
    kernel_params: Mapping[str, Any] | None = None
    n_components: int | Literal["auto"] | None = None
    landmarks: str = "uniform"
    memory_limit: float | None = None

    def check(self) -> None:
        """Raise on parameters that make no sense whatever the data."""
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, kernel_names(), hint="Or pass a callable k(X, Y).")
        check_number("kernel_width", self.kernel_width, words=("median",))
        if self.kernel_params is not None and not isinstance(self.kernel_params, Mapping):
            raise TypeError(
                f"kernel_params={self.kernel_params!r}; expected a dict of keyword arguments."
            )
        if self.kernel_params and self.kernel in ("gaussian", "precomputed"):
            raise ValueError(
                f"kernel_params={self.kernel_params!r} with kernel={self.kernel!r}, which takes "
                "none; expected None. The width of the Gaussian kernel is kernel_width; "
                "kernel='rbf' takes gamma."
            )
        if isinstance(self.n_components, str):
            check_choice("n_components", self.n_components, ("auto",), hint="Or a number, or None.")
        elif self.n_components is not None:
            check_integer(
                "n_components", self.n_components, minimum=1, hint="None means no approximation."
            )
        check_choice("landmarks", self.landmarks, LANDMARK_RULES)
        if self.landmarks == "kmeans++" and self.kernel == "precomputed":
            raise ValueError(
                "landmarks='kmeans++' with kernel='precomputed', where rows have no coordinates; "
                "expected 'uniform' or 'rpcholesky'."
            )
        if self.memory_limit is not None:
            check_number("memory_limit", self.memory_limit)

    @property
    def limit(self) -> float:
        """Bytes that the basis may take."""
        return default_limit() if self.memory_limit is None else self.memory_limit

    def check_rows(self, n_rows: int) -> None:
        """Raise on what so many rows do not allow, before anything is computed."""
        c = self.n_components
        if c is None:
            if fit_bytes(n_rows) > self.limit:
                raise MemoryError(
                    f"n_components=None, the exact solution, needs {gibibytes(fit_bytes(n_rows))} "
                    f"for {n_rows} rows, more than the {gibibytes(self.limit)} allowed. Set "
                    "n_components to a number of landmarks or 'auto', or raise memory_limit."
                )
        elif isinstance(c, str):
            self.block(n_rows, 1)
        elif c > n_rows:
            raise ValueError(
                f"n_components={c} is more than the {n_rows} rows; expected at most {n_rows}. "
                "n_components=None is the exact basis."
            )
        else:
            self.block(n_rows, c)

    def block(self, n_rows: int, n_components: int, *, held: bool = True) -> int | None:
        """Rows of a block where the features of a Nystrom basis do not fit into memory.

        Not ``held``: also where they do, because the rows are on workers.
        """
        limit = self.limit
        if held and nystrom_bytes(n_rows, n_components) <= limit:
            return None
        block = block_rows(n_rows, n_components, limit, on_worker=not held)
        needed = blocked_bytes(block, n_components)
        if needed > limit:
            raise MemoryError(
                f"memory_limit={limit:.3g} bytes (for each job) is too little for n_components="
                f"{n_components}: even in blocks of {block} rows {needed:.3g} are needed. Raise "
                "memory_limit, or lower n_components or n_jobs."
            )
        return block

    def resolve(self, X: Rows) -> Kernel:
        """The kernel with its width fixed by the data where it is "median"."""
        width = 1.0
        if self.kernel == "gaussian":
            is_median = isinstance(self.kernel_width, str)
            width = median_squared_distance(X) if is_median else float(self.kernel_width)
        return Kernel(self.kernel, width, dict(self.kernel_params or {}))


@dataclass(frozen=True)
class GraphSettings:
    """Parameters of the graph and its Laplacian."""

    graph: Any = "knn"
    n_neighbors: int = 8
    graph_width: float | GraphWidth = "median"
    graph_weights: str = "heat"
    laplacian: str = "unnormalized"
    laplacian_power: int = 1
    neighbors: str = "auto"
    n_anchors: int = 500

    def check(self) -> None:
        """Raise on parameters that make no sense whatever the data."""
        is_matrix = sp.issparse(self.graph) or hasattr(self.graph, "__array__")
        if not (is_matrix or callable(self.graph) or self.graph in ("knn", "anchor")):
            raise ValueError(
                f"graph={self.graph!r}; expected 'knn', 'anchor', a sparse or dense affinity "
                "matrix of shape (N, N), or a function of X that returns one."
            )
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_number("graph_width", self.graph_width, words=tuple(GRAPH_WIDTHS))
        check_choice("graph_weights", self.graph_weights, ("heat", "binary"))
        check_choice("laplacian", self.laplacian, ("unnormalized", "normalized"))
        check_integer("laplacian_power", self.laplacian_power, minimum=1, maximum=_HIGHEST_POWER)
        check_choice("neighbors", self.neighbors, NEIGHBOR_METHODS)
        check_integer("n_anchors", self.n_anchors, minimum=1)
        if isinstance(self.graph, str) and self.graph == "anchor" and self.laplacian_power > 2:
            raise ValueError(
                f"graph='anchor' with laplacian_power={self.laplacian_power}; expected 1 or 2. "
                "Higher powers need graph='knn' or a precomputed graph."
            )

    @property
    def search(self) -> tuple[str, int] | None:
        """What neighbours depend on besides their number; None if none are needed."""
        if not isinstance(self.graph, str):
            return None
        return ("anchor", self.n_anchors) if self.graph == "anchor" else (self.neighbors, 0)

    def find(self, X: Rows, k: int, squared: FloatArray | None, seed: Any) -> AnyNeighbors | None:
        """The ``k`` nearest rows or anchors of every row; None if the graph needs none.

        ``squared`` are the squared distances between the rows, where they are at hand.
        """
        if self.search is None:
            return None
        if isinstance(X, RowBlocks):
            return DistributedAnchors.choose(X, self.n_anchors, k, check_random_state(seed))
        if self.graph == "anchor":
            return nearest_anchors(X, self.n_anchors, k, check_random_state(seed))
        return find_neighbors(X, k, squared=squared, method=self.neighbors)

    def build(self, X: Rows, neighbors: AnyNeighbors | None) -> tuple[AnyGraph, float | None]:
        """The graph on the rows of ``X`` from at least as many neighbours as are needed.

        The second value is sigma_w, where there is one.
        """
        normalized = self.laplacian == "normalized"
        if neighbors is None:
            affinity = self.graph(X) if callable(self.graph) else self.graph
            W = check_affinity(affinity, X.shape[0], 1 if normalized else self.laplacian_power)
            return Graph(W, normalized, self.laplacian_power), None
        if isinstance(neighbors, DistributedAnchors):
            graph, sigma_w = neighbors.graph(
                self.n_neighbors,
                self.graph_width,
                self.graph_weights,
                normalized,
                self.laplacian_power,
            )
            return graph, sigma_w if self.graph_weights == "heat" else None
        nearest = neighbors.first(self.n_neighbors)
        if self.graph == "anchor":
            A, sigma_w = anchor_weights(
                nearest, self.n_anchors, self.graph_width, weights=self.graph_weights
            )
            used = sigma_w if self.graph_weights == "heat" else None
            totals = np.asarray(A.sum(axis=0), dtype=np.float64)
            return AnchorGraph(A, totals, normalized, self.laplacian_power), used
        W, sigma_w = heat_affinity(nearest, self.graph_width, weights=self.graph_weights)
        used = sigma_w if self.graph_weights == "heat" else None
        return Graph(W, normalized, self.laplacian_power), used


def shared_distances(settings: KernelSettings, X: Rows) -> FloatArray | None:
    """Squared distances that kernel and graph both need, or None if they do not."""
    if settings.kernel == "precomputed":
        # Distances in feature space: d_ij^2 = k_ii + k_jj - 2 k_ij.
        diagonal = np.diagonal(X)
        return np.maximum(diagonal[:, None] + diagonal - 2.0 * X, 0.0)
    needs_matrix = settings.kernel == "gaussian" and settings.n_components is None
    return squared_distances(X) if needs_matrix and not sp.issparse(X) else None


def check_distributed(kernel: KernelSettings, graph: GraphSettings) -> None:
    """Raise on settings for which the rows of a dask collection would have to come together."""
    if kernel.kernel == "precomputed":
        raise ValueError(
            "kernel='precomputed' with a dask collection; expected a kernel that is computed from "
            "rows. Pass the rows, or the matrix as an array."
        )
    if kernel.n_components is None:
        raise ValueError(
            "n_components=None with a dask collection; expected a number of landmarks or 'auto': "
            "the exact solution needs all rows in one place. Set n_components, or pass an array."
        )
    if not isinstance(graph.graph, str) or graph.graph != "anchor":
        what = repr(graph.graph) if isinstance(graph.graph, str) else "a matrix or function"
        raise ValueError(
            f"graph={what} with a dask collection; expected graph='anchor', which joins rows "
            "through anchors: edges between rows would need all rows in one place. Use "
            "graph='anchor', or pass an array."
        )


def check_dense(K: Any) -> None:
    """Raise if a precomputed kernel is sparse."""
    if sp.issparse(K):
        raise TypeError(
            "kernel='precomputed' with a sparse X; expected a dense kernel matrix. Use X.toarray()."
        )


def check_square(K: FloatArray) -> None:
    """Raise unless ``K`` can be the kernel matrix of the training rows."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' with X of shape {K.shape}; expected the square kernel matrix of "
            "all training rows, labelled and unlabelled."
        )


def build_basis(
    kernel: Kernel,
    settings: KernelSettings,
    X: Rows,
    squared: FloatArray | None,
    graph: AnyGraph,
    labelled: IntArray,
    seed: Any,
) -> Basis:
    """Exact basis for a single fit, or Nystrom basis; may overwrite ``squared``."""
    if settings.n_components is None:
        return KernelBasis(_kernel_matrix(kernel, X, squared), graph.laplacian, labelled)
    factor = build_factor(kernel, settings, X, squared, seed)
    return plane_basis(factor, graph.operator, labelled)


def _between_rows(kernel: Kernel, X: Rows, rows: IntArray) -> FloatArray:
    """Kernel between rows of these numbers."""
    return kernel.between(X[rows], rows if kernel.name == "precomputed" else X[rows])


def build_factor(
    kernel: Kernel,
    settings: KernelSettings,
    X: Rows,
    squared: FloatArray | None,
    seed: Any,
) -> Factor:
    """Exact or Nystrom factor of the kernel for all graphs; may overwrite ``squared``."""
    if settings.n_components is None:
        factor = factor_kernel(_kernel_matrix(kernel, X, squared))
        # A function of the user's may be slow, and is called no more often than needed.
        between = None if callable(kernel.name) else partial(_between_rows, kernel, X)
        return replace(factor, between=between)
    n = X.shape[0]
    if isinstance(settings.n_components, str):
        raise TypeError(
            f"n_components={settings.n_components!r} must have become a number before the factor "
            "is built; expected an int. Use grow_components."
        )
    rng = check_random_state(seed)
    landmarks = LANDMARK_RULES[settings.landmarks](kernel, X, settings.n_components, rng)
    if not landmarks.size:
        raise ValueError(
            f"kernel={kernel.name!r} is 0 between every row and itself, so that f could only be 0. "
            "Use another kernel, or other features."
        )
    block = settings.block(n, landmarks.size, held=not isinstance(X, RowBlocks))
    carriers = landmarks if kernel.name == "precomputed" else X[landmarks]
    columns = kernel.between(X if block is None else X[landmarks], carriers)
    P = columns[landmarks] if block is None else columns
    _check_size(P, kernel)
    if not kernel.is_always_psd:
        check_positive_semidefinite(P, f"kernel={kernel.name!r}")
    if block is None:
        return factor_nystrom(columns, landmarks)
    return factor_nystrom_in_blocks(kernel, X, P, landmarks, block)


def _kernel_matrix(kernel: Kernel, X: Rows, squared: FloatArray | None) -> FloatArray:
    """K, checked where the kernel might not be positive semi-definite."""
    if kernel.name == "precomputed":
        K = np.array(X, order="C")
    elif kernel.name == "gaussian" and squared is not None:
        K = drop_negligible(kernel.from_squared_distances(squared))
    else:
        K = kernel(X)
    _check_size(K, kernel)
    if not kernel.is_always_psd:
        K = check_positive_semidefinite(K, f"kernel={kernel.name!r}")
    return K


def _check_size(K: FloatArray, kernel: Kernel) -> None:
    """Raise if the largest entry, which is on the diagonal, is so small that products vanish."""
    largest = float(np.diagonal(K).max(initial=0.0))
    if 0.0 < largest < SMALLEST:
        raise ValueError(
            f"kernel={kernel.name!r} has values up to {largest:.3g}; expected {SMALLEST:g} or more "
            "somewhere. Multiply the kernel, or X, by a large number."
        )
