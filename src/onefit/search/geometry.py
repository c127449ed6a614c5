"""What all kernels and graphs on the same rows share: distances and neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from onefit._lapack import copied
from onefit._typing import FloatArray, Rows
from onefit.anchors import AnyNeighbors
from onefit.assembly import GraphSettings, KernelSettings, build_factor, shared_distances
from onefit.blocks import RowBlocks
from onefit.estimators import ManifoldEstimator
from onefit.factors import Factor
from onefit.kernels import Kernel
from onefit.search.candidates import KernelGroup, fresh

__all__ = ["Geometry", "geometry_of", "preprocess"]


@dataclass(frozen=True)
class Geometry:
    """Rows after preprocessing, with what all kernels and graphs on them share.

    Parameters
    ----------
    X : array or sparse matrix of shape (N, n_features)
        Rows.
    squared : array of shape (N, N) or None
        Squared distances, where an exact kernel needs them.
    neighbors : dict of Neighbors
        As many neighbours, rows or anchors, as any candidate asks for, by how they are searched.
    """

    X: Rows
    squared: FloatArray | None
    neighbors: Mapping[Any, AnyNeighbors | None]

    def neighbors_for(self, settings: GraphSettings) -> AnyNeighbors | None:
        """The neighbours that a graph is made of; None for precomputed graphs."""
        return self.neighbors.get(settings.search)

    def factor(self, kernel: Kernel, settings: KernelSettings, seed: Any) -> Factor:
        """Exact or Nystrom factor of a kernel on these rows."""
        squared = None if settings.n_components is not None else self.squared
        if squared is not None:  # whose place the factor takes
            squared = copied(squared, "C")
        return build_factor(kernel, settings, self.X, squared, seed)


def preprocess(
    upstream: Pipeline | None, params: Mapping[str, Any], final: ManifoldEstimator, X: Any
) -> Rows:
    """Rows as the final estimator sees them; the steps before it do not see labels."""
    if upstream is None:
        return clone(final)._validated_rows(X)
    if isinstance(X, RowBlocks):
        raise TypeError(
            "a Pipeline with a dask collection: its steps would gather all rows. Transform the "
            "collection first, for instance X = (X - X.mean(axis=0)) / X.std(axis=0), and search "
            "with the last step alone."
        )
    steps = clone(upstream).set_params(**fresh(params))
    try:
        rows = steps.fit_transform(X)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the steps before the estimator failed without labels: {error} They are fitted once "
            "to all rows, so that no held-out label can leak; use steps that do not need y."
        ) from error
    return clone(final)._validated_rows(rows)


def geometry_of(X: Rows, groups: Sequence[KernelGroup]) -> Geometry:
    """Distances and neighbours that these groups need."""
    distances = [shared_distances(group.settings, X) for group in groups[:1]]
    squared = distances[0]
    wanted: dict[Any, tuple[GraphSettings, int, Any]] = {}
    for group in groups:
        for graph in group.graphs:
            key, k = graph.settings.search, graph.settings.n_neighbors
            most = max(k, wanted[key][1] if key in wanted else k)
            wanted[key] = (graph.settings, most, group.seed)
    neighbors = {
        key: settings.find(X, k, squared, seed) for key, (settings, k, seed) in wanted.items()
    }
    return Geometry(X, squared, neighbors)
