"""Nearest neighbours: exact for most data, by an index of faiss for many rows of many columns.

What is chosen by ``method="auto"`` follows measurements (``benchmarks/scale.py``): trees and brute
force of scikit-learn win up to some fifty thousand rows, and trees also win beyond in few
dimensions. The index methods are made as thorough as it takes to find nearly all neighbours of a
sample of rows, whose true neighbours are computed; where that would take too long, "auto" ends with
brute force.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms

from onefit._interrupts import aside
from onefit._typing import FloatArray, IntArray, Rows
from onefit.kernels import evenly_spaced_rows

__all__ = ["NEIGHBOR_METHODS", "Neighbors", "find_neighbors"]

FloatRows: TypeAlias = npt.NDArray[np.float32]

NEIGHBOR_METHODS = ("auto", "sklearn", "flat", "ivf", "hnsw")

_BLOCK = 128
#: "auto" leaves smaller data, and data of fewer columns, to scikit-learn.
_MANY_ROWS = 50_000
_MANY_COLUMNS = 10
#: Share of the true neighbours of a sample of so many rows that an index must find.
_RECALL = 0.97
_RECALL_SAMPLE = 256
#: Neighbours that are farther by no more than this are as good: ties, up to single precision.
_TIE = 1e-5
#: Cells looked into, or candidates considered, at most: of a method that was asked for, and in
#: "auto", which has another one to try.
_MOST_EFFORT = {"ivf": 256, "hnsw": 1024}
_PATIENCE = {"ivf": 16, "hnsw": 1024}
#: Rows asked for at a time.
_QUERIES = 2**16
#: Links of a row in the HNSW index, and candidates considered while it is built.
_HNSW_LINKS = 16
_HNSW_WIDTH = 40


@dataclass(frozen=True)
class Neighbors:
    """The k nearest other rows of every row: index and squared distance, nearest first.

    ``method`` says how they were found.
    """

    indices: IntArray
    squared: FloatArray
    method: str = "given"

    def first(self, k: int) -> Neighbors:
        """The ``k`` nearest of these neighbours."""
        return Neighbors(self.indices[:, :k], self.squared[:, :k], self.method)


def find_neighbors(
    X: Rows, k: int, *, squared: FloatArray | None = None, method: str = "auto"
) -> Neighbors:
    """The ``k`` nearest other rows of every row of ``X``.

    Duplicated rows are neighbours at distance 0; a row is never its own neighbour.

    Parameters
    ----------
    X : array or sparse matrix of shape (N, n_features)
        Rows; not looked at when ``squared`` is given.
    k : int
        Number of neighbours, less than N.
    squared : array of shape (N, N), optional
        Squared distances, where they are at hand already. Restored after use.
    method : {"auto", "sklearn", "flat", "ivf", "hnsw"}, default="auto"
        How to search where there are no distances: scikit-learn (exact), or faiss: by brute force
        (exact up to single precision), inverted lists, or a navigable graph. A warning says when
        one of the last two finds less than 97 % of the neighbours of a sample.
    """
    n = X.shape[0]
    if k >= n:
        raise ValueError(
            f"n_neighbors={k} is too large for n_samples={n} rows; expected fewer neighbours than "
            "rows. Lower n_neighbors or add rows."
        )
    if squared is not None:
        return _neighbors_in_matrix(squared, k)
    tried = _resolve(method, X)
    if tried == ("sklearn",):
        method = "sklearn"
        # One job: what joblib has been told to use may be a cluster, which this must not occupy.
        index = NearestNeighbors(n_neighbors=k, n_jobs=1).fit(X)
        indices = aside(n * n, index.kneighbors, return_distance=False)
    else:
        indices, method = _by_index(X, k, tried)
    # Distances anew, from differences: the search may round those of equal rows away from 0.
    exact = np.column_stack([row_norms(X - X[column], squared=True) for column in indices.T])
    if method != "sklearn":
        order = np.argsort(exact, axis=1, kind="stable")
        indices, exact = (np.take_along_axis(A, order, axis=1) for A in (indices, exact))
    return Neighbors(indices.astype(np.intp), exact, method)


def _resolve(method: str, X: Rows) -> tuple[str, ...]:
    """Methods to try on these rows, in turn; errors where one cannot be had."""
    if method == "auto":
        is_large = X.shape[0] > _MANY_ROWS and X.shape[1] > _MANY_COLUMNS
        has_index = is_large and not sp.issparse(X) and find_spec("faiss") is not None
        return ("ivf", "hnsw", "flat") if has_index else ("sklearn",)
    if method != "sklearn" and sp.issparse(X):
        raise TypeError(
            f"neighbors={method!r} with a sparse X; faiss takes dense rows only. Use "
            "neighbors='sklearn', graph='anchor', or a dense projection of X."
        )
    if method != "sklearn" and find_spec("faiss") is None:
        raise ImportError(
            f"neighbors={method!r} needs faiss, which is not installed; expected the extra "
            "onefit[ann] (pip install 'onefit[ann]'), or neighbors='sklearn'."
        )
    return (method,)


def _neighbors_in_matrix(squared: FloatArray, k: int) -> Neighbors:
    """Neighbours from a full matrix of squared distances, a block of rows at a time."""
    n = squared.shape[0]
    indices = np.empty((n, k), dtype=np.intp)
    nearest = np.empty((n, k))
    np.fill_diagonal(squared, np.inf)
    for block in gen_batches(n, _BLOCK):
        distances = squared[block]
        found = np.argpartition(distances, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(distances, found, axis=1)
        order = np.argsort(values, axis=1, kind="stable")
        indices[block] = np.take_along_axis(found, order, axis=1)
        nearest[block] = np.take_along_axis(values, order, axis=1)
    np.fill_diagonal(squared, 0.0)
    return Neighbors(indices, nearest, "matrix")


def _by_index(X: FloatArray, k: int, methods: tuple[str, ...]) -> tuple[IntArray, str]:
    """Row numbers of the k nearest others by the first index of faiss that is good enough."""
    import faiss

    # Centred, because single precision has few digits for an offset.
    rows = np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)
    everything = np.arange(rows.shape[0])
    brute = faiss.IndexFlatL2(rows.shape[1])
    brute.add(rows)
    others = partial(_others, brute=brute, rows=rows, k=k)
    if methods == ("flat",):
        return others(brute, everything), "flat"
    sample = evenly_spaced_rows(rows.shape[0], _RECALL_SAMPLE)
    farthest = _squared_to(rows, sample, others(brute, sample)).max(axis=1, keepdims=True)
    best = 0.0
    for method in (name for name in methods if name in _INDICES):
        most = (_MOST_EFFORT if len(methods) == 1 else _PATIENCE)[method]
        index, efforts = _INDICES[method](rows, most)
        for set_effort in efforts:
            set_effort()
            # By distance: where several rows are equally far, any of them is a neighbour.
            found = _squared_to(rows, sample, others(index, sample))
            recall = float(np.mean(found <= (1.0 + _TIE) * farthest))
            if recall >= _RECALL:
                return others(index, everything), method
            best = max(best, recall)
    _warn_of_recall(best, methods)
    return others(brute if methods[-1] == "flat" else index, everything), methods[-1]


def _squared_to(rows: FloatRows, asked: IntArray, found: IntArray) -> FloatRows:
    """Squared distances to what was found, from differences: 0 between equal rows."""
    return np.square(rows[asked, None] - rows[found]).sum(axis=2)


def _warn_of_recall(recall: float, methods: tuple[str, ...]) -> None:
    found = f"found {100 * recall:.3g} % of the neighbours of a sample"
    expected = f"expected {100 * _RECALL:g} % or more"
    if len(methods) == 1:
        message = (
            f"neighbors={methods[0]!r} {found}; {expected}. Edges of the graph are missing: use "
            "neighbors='auto', 'flat' or 'sklearn', or graph='anchor'."
        )
    else:
        message = (
            f"neighbors='auto': the indices {found} at best; {expected}. All rows are compared "
            "with each other instead, which takes long where they are many; graph='anchor' needs "
            "no neighbours."
        )
    warnings.warn(message, UserWarning, stacklevel=4)


def _inverted_lists(rows: FloatRows, most: int) -> tuple[Any, Iterator[Callable[[], None]]]:
    """An index by cells around centres, and settings that look into more and more of them."""
    import faiss

    n, d = rows.shape
    lists = max(1, int(2.0 * np.sqrt(n)))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, lists)
    index.cp.min_points_per_centroid = 1  # or it warns about few rows
    index.train(rows)
    index.add(rows)
    return index, (partial(setattr, index, "nprobe", p) for p in _doubling(4, min(most, lists)))


def _navigable_graph(rows: FloatRows, most: int) -> tuple[Any, Iterator[Callable[[], None]]]:
    """An HNSW index, and settings that consider more and more candidates."""
    import faiss

    index = faiss.IndexHNSWFlat(rows.shape[1], _HNSW_LINKS)
    index.hnsw.efConstruction = _HNSW_WIDTH
    index.add(rows)
    return index, (partial(setattr, index.hnsw, "efSearch", p) for p in _doubling(32, most))


_INDICES: dict[str, Callable[[FloatRows, int], tuple[Any, Iterator[Callable[[], None]]]]] = {
    "ivf": _inverted_lists,
    "hnsw": _navigable_graph,
}


def _doubling(first: int, last: int) -> Iterator[int]:
    while first < last:
        yield first
        first *= 2
    yield last


def _others(index: Any, asked: IntArray, *, brute: Any, rows: FloatRows, k: int) -> IntArray:
    """The k nearest rows other than itself of every row asked for."""
    parts = []
    for start in range(0, asked.size, _QUERIES):
        own = asked[start : start + _QUERIES, None]
        found = index.search(rows[own[:, 0]], k + 1)[1]
        # -1 stands where an index found too few.
        lacking = np.flatnonzero((found < 0).any(axis=1))
        if lacking.size:
            found[lacking] = brute.search(rows[own[lacking, 0]], k + 1)[1]
        is_other = found != own
        # Among many equal rows the row itself may not turn up: then the last one goes.
        is_other[is_other.all(axis=1), -1] = False
        first = np.argsort(~is_other, axis=1, kind="stable")[:, :k]
        parts.append(np.take_along_axis(found, first, axis=1))
    return np.concatenate(parts).astype(np.intp)
