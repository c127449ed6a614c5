"""What the estimators' docstrings have in common: parameters and attributes."""

from __future__ import annotations

from typing import Any

__all__ = ["documented"]

_PARAMETERS = """kernel : str or callable, default="gaussian"
        ``"gaussian"`` is exp(-||x - x'||^2 / (2 kernel_width)). ``"precomputed"``: X is the kernel
        matrix. Other names, with ``kernel_params``, are those of
        :func:`sklearn.metrics.pairwise.pairwise_kernels`. A callable k(X, Y) returns the matrix.
    kernel_width : float or "median", default="median"
        sigma of the Gaussian kernel, in units of a squared distance. "median" is the median
        squared distance between different rows (of at most 1,000, evenly spaced).
    ambient_penalty : float, default=0.001
        gamma_A > 0, the weight of the squared norm of f.
    manifold_penalty : float, default=10.0
        gamma_I >= 0, the weight of the smoothness of f along the graph. 0 ignores unlabelled rows.
    n_neighbors : int, default=8
        k, neighbours in the graph.
    graph_width : float, "median" or "wide", default="median"
        sigma_w of the heat weights. "median" is the median squared distance to a neighbour,
        equal rows left out (to an anchor: of at most 10,000 rows, evenly spaced); "wide" is four
        times that, with which outlying rows keep a part of their weights.
    kernel_params : dict, optional
        Keyword arguments of kernels other than ``"gaussian"`` and ``"precomputed"``.
    graph : "knn", "anchor", matrix of shape (N, N) or callable, default="knn"
        The graph: symmetric k nearest neighbours; every row tied to its k nearest of ``n_anchors``
        anchor rows, which needs no search for neighbours; a precomputed symmetric non-negative
        affinity on the rows of X, sparse or dense; or a function of X that returns one.
    graph_weights : {"heat", "binary"}, default="heat"
        Weights of the kNN edges: exp(-||x - x'||^2 / (2 graph_width)), or 1.
    laplacian : {"unnormalized", "normalized"}, default="unnormalized"
        D - W, or I - D^-1/2 W D^-1/2.
    laplacian_power : int, default=1
        The penalty is f' L^p f, p at most 10; with anchors p is at most 2.
    neighbors : {"auto", "sklearn", "flat", "ivf", "hnsw"}, default="auto"
        How neighbours are searched: by scikit-learn, or with faiss (``onefit[ann]``) exactly, by
        inverted lists or by a navigable graph (HNSW; with several threads not quite repeatable).
        "auto" is scikit-learn up to 50,000 rows, for up to 10 columns, for sparse rows and where
        faiss is not installed; else inverted lists, HNSW where these find too few neighbours, or
        brute force where both do. A method that was asked for warns where it finds too few.
    n_anchors : int, default=500
        Anchors of an anchor graph.
    n_components : int, "auto" or None, default=None
        None: the exact solution. A number: Nystrom approximation of the kernel with that many
        landmark rows. "auto" doubles their number until the decisions on held-out labels change
        by no more than 1 %.
    landmarks : {"uniform", "kmeans++", "rpcholesky"}, default="uniform"
        How landmarks are chosen: uniformly, far from each other as k-means++ does, or by randomly
        pivoted Cholesky, which needs fewer.
    memory_limit : float, optional
        Bytes that the basis may take, rows and graph aside; half of the machine's memory when
        None. Nystrom features that do not fit are computed in blocks of rows, again whenever they
        are wanted; "auto" stops before not even blocks fit; an exact fit is refused.
    fit_intercept : bool, default=False
        Whether f has a constant that is not penalised. Unbalanced classes want one."""

_SOLVER_PARAMETERS = """tol : float, default=1e-8
        Newton's method stops when a step moves no fitted value by more than this, or no further
        step would.
    max_iter : int, default=200
        Most Newton steps.
    random_state : int, RandomState instance or None, default=None
        Seed of the landmarks."""

_ATTRIBUTES = """X_fit_ : array or sparse matrix of shape (c, n_features).
        Rows that carry the kernel expansion of f (with a precomputed kernel: None).
    support_ : array of shape (c,)
        Their row numbers in the training data.
    dual_coef_ : array of shape (c, q)
        Weights of the expansion, ``f(x) = sum_j dual_coef_[j] k(X_fit_[j], x) + intercept_``.
    intercept_ : array of shape (q,)
        Constants; zeros without an intercept.
    transduction_ : array of shape (N,) or (N, q)
        Predictions on the training rows, labelled and unlabelled; lazy where X is a dask
        collection.
    kernel_width_, graph_width_ : float or None
        Widths used.
    graph_ : sparse array of shape (N, N) or None
        Affinity of the graph; of an anchor graph the weights of shape (N, n_anchors). None where
        X is a dask collection, whose graph is never held.
    neighbors_method_ : str or None
        How neighbours were found: a name of ``neighbors``; "matrix", from the distances of an
        exact kernel; "anchor"; None for a precomputed graph.
    n_components_ : int or None
        Landmarks asked for; with "auto", the number at which held-out decisions had settled.
    growth_ : tuple of (int, float) or None
        With "auto": the numbers of landmarks tried, from the second on, and by how much of
        themselves held-out decisions changed at each.
    n_iter_ : int
        Newton steps, over all outputs.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : array of shape (n_features,)
        Their names, when X has string column names."""


def documented(cls: type[Any]) -> type[Any]:
    """Fill the common parameters and attributes into a class docstring."""
    text = cls.__doc__ or ""
    parts = {
        "{parameters}": _PARAMETERS,
        "{solver_parameters}": _SOLVER_PARAMETERS,
        "{attributes}": _ATTRIBUTES,
    }
    for name, part in parts.items():
        text = text.replace(name, part)
    cls.__doc__ = text
    return cls
