"""From rows and parameters to a :class:`~onefit.problem.Problem`: kernel, graph, basis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from onefit._typing import FloatArray, IntArray, Rows
from onefit.basis import Basis, KernelBasis, spectral_basis
from onefit.graphs import Graph, check_affinity, find_neighbors, heat_affinity
from onefit.kernels import (
    Kernel,
    check_positive_semidefinite,
    kernel_names,
    median_squared_distance,
)
from onefit.landmarks import LANDMARK_RULES
from onefit.validation import check_choice, check_integer, check_number

__all__ = ["GraphSettings", "KernelSettings", "build_basis", "labelled_last"]


def labelled_last(labelled: np.ndarray[Any, np.dtype[np.bool_]]) -> IntArray:
    """Internal row order: unlabelled rows first, labelled rows last, each in the given order."""
    return np.concatenate([np.flatnonzero(~labelled), np.flatnonzero(labelled)])


@dataclass(frozen=True)
class KernelSettings:
    """Parameters of the kernel and of its approximation."""

    kernel: str | Callable[..., Any] = "gaussian"
    kernel_width: float | Literal["median"] = "median"
    kernel_params: Mapping[str, Any] | None = None
    n_components: int | None = None
    landmarks: str = "uniform"

    def check(self) -> None:
        """Raise on parameters that make no sense whatever the data."""
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, kernel_names())
        check_number("kernel_width", self.kernel_width, words=("median",))
        if self.kernel_params is not None and not isinstance(self.kernel_params, Mapping):
            raise TypeError(
                f"kernel_params={self.kernel_params!r}; expected a dict of keyword arguments."
            )
        if self.n_components is not None:
            check_integer(
                "n_components", self.n_components, minimum=1, hint="None means no approximation."
            )
        check_choice("landmarks", self.landmarks, LANDMARK_RULES)

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
    graph_width: float | Literal["median"] = "median"
    graph_weights: str = "heat"
    laplacian: str = "unnormalized"
    laplacian_power: int = 1

    def check(self) -> None:
        """Raise on parameters that make no sense whatever the data."""
        if isinstance(self.graph, str):
            check_choice("graph", self.graph, ("knn",))
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_number("graph_width", self.graph_width, words=("median",))
        check_choice("graph_weights", self.graph_weights, ("heat", "binary"))
        check_choice("laplacian", self.laplacian, ("unnormalized", "normalized"))
        check_integer("laplacian_power", self.laplacian_power, minimum=1)

    def resolve(self, X: Rows, *, kernel_is_precomputed: bool) -> tuple[Graph, float | None]:
        """The graph on the rows of ``X``, and sigma_w where there is one."""
        sigma_w: float | None = None
        if isinstance(self.graph, str):
            metric, rows = "euclidean", X
            if kernel_is_precomputed:
                metric, rows = "precomputed", kernel_distances(X)
            neighbors = find_neighbors(rows, self.n_neighbors, metric=metric)
            W, used = heat_affinity(neighbors, self.graph_width, weights=self.graph_weights)
            sigma_w = used if self.graph_weights == "heat" else None
        else:
            affinity = self.graph(X) if callable(self.graph) else self.graph
            W = check_affinity(affinity, X.shape[0])
        return Graph(W, self.laplacian == "normalized", self.laplacian_power), sigma_w


def kernel_distances(K: FloatArray) -> FloatArray:
    """Distances in feature space, d_ij^2 = k_ii + k_jj - 2 k_ij."""
    diagonal = np.diagonal(K)
    squared = np.maximum(diagonal[:, None] + diagonal - 2.0 * K, 0.0)
    np.fill_diagonal(squared, 0.0)
    return np.sqrt(squared)


def check_precomputed_kernel(K: Rows) -> None:
    """Raise unless ``K`` can be the kernel matrix of the training rows."""
    if sp.issparse(K):
        raise TypeError(
            "kernel='precomputed' with a sparse X; expected a dense kernel matrix. Use X.toarray()."
        )
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' with X of shape {K.shape}; expected the square kernel matrix of "
            "all training rows, labelled and unlabelled."
        )


def build_basis(
    kernel: Kernel, settings: KernelSettings, X: Rows, graph: Graph, n_labelled: int, seed: Any
) -> Basis:
    """Exact or Nystrom basis on rows that are in internal order."""
    n = X.shape[0]
    is_precomputed = kernel.name == "precomputed"
    if settings.n_components is None:
        K = np.ascontiguousarray(X) if is_precomputed else kernel(X)
        if not kernel.is_always_psd:
            check_positive_semidefinite(K, f"kernel={kernel.name!r}")
        return KernelBasis(K, graph.laplacian, n_labelled)
    if settings.n_components > n:
        raise ValueError(
            f"n_components={settings.n_components} is more than the {n} rows; expected at most "
            f"{n}. n_components=None is the exact basis."
        )
    choose = LANDMARK_RULES[settings.landmarks]
    landmarks = choose(kernel, X, settings.n_components, check_random_state(seed))
    columns = kernel.columns(X, landmarks)
    if not kernel.is_always_psd:
        check_positive_semidefinite(columns[landmarks], f"kernel={kernel.name!r}")
    return spectral_basis(columns, landmarks, graph.laplacian, n_labelled)
