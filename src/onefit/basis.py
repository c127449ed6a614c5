r"""Function spaces in which a fit is solved, and their deformation by the graph.

A *basis* holds functions :math:`f` of the RKHS as coefficient arrays. Everything that solvers and
criteria do is said with three operations,

* ``values(a)``: the values of f on the N rows,
* ``representer(u)``: the coefficients of :math:`\sum_j u_j \kappa(x_j, \cdot)`,
* ``inner(a, b, values_b)``: the inner product :math:`\langle f_a, f_b \rangle_\kappa`,

and with the *deformed* kernel of one ratio :math:`r = \gamma_I / (\gamma_A N^2)`,

.. math:: \tilde K = (K^{-1} + r L)^{-1} = K (I + r L K)^{-1},

of which a fit needs the block of the labelled rows only (equation (3) of the documentation).

:class:`KernelBasis` keeps K and factors for one ratio, which is all that a single fit needs.
:class:`PlaneBasis` pays for one reduction to tridiagonal form, after which every ratio is nearly
free (equation (2), stopped before the eigenvectors); it is also the form of the Nystrom
approximation. Between the two is :class:`~onefit.form_basis.FormBasis`, for few ratios.

:class:`KernelBasis` eliminates the unlabelled rows first, so that the factorisation yields the
labelled block of the deformed kernel as a by-product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.sparse import csgraph

from onefit._interrupts import aside
from onefit._lapack import (
    apply_reflectors,
    copied,
    lu_solve,
    product,
    solve_triangular,
    solve_unit_triangular,
    sparse_product,
    tridiagonal,
)
from onefit._rounding import settled
from onefit._typing import FloatArray, IntArray, Sparse
from onefit.anchors import Operator
from onefit.factors import Factor, KernelFactor

__all__ = [
    "Basis",
    "Deformed",
    "FeatureBasis",
    "KernelBasis",
    "PlaneBasis",
    "plane_basis",
    "symmetric_gram",
]


#: Kernels that vary by less than this factor lose digits in products with a Laplacian.
_ALMOST_CONSTANT = 0.5
#: Entries of a Gram matrix that are smaller, relative to its diagonal, have no correct digit.
_NO_DIGIT = 1e-14
#: Rows of a Gram matrix that are looked at together.
_BLOCK = 64


class Deformed(Protocol):
    """The deformed kernel of one ratio r, factored: solve many."""

    @property
    def labelled_gram(self) -> FloatArray:
        r"""The l x l block :math:`\tilde K_{LL}`."""
        ...

    def solve(self, coef: FloatArray) -> FloatArray:
        r"""Coefficients of :math:`(I + r L_{op})^{-1} f`, :math:`L_{op}` the graph operator."""
        ...

    def expand(self, beta: FloatArray) -> FloatArray:
        r"""Coefficients of :math:`\sum_{j \in L} \beta_j \tilde\kappa(x_j, \cdot)`."""
        ...


class Basis(Protocol):
    """A space of functions on the rows; see the module's description."""

    @property
    def laplacian(self) -> Operator:
        """L of the graph on the rows."""
        ...

    @property
    def labelled(self) -> IntArray:
        """Numbers of the labelled rows."""
        ...

    @property
    def n_rows(self) -> int:
        """N, labelled and unlabelled rows together."""
        ...

    def values(self, coef: FloatArray) -> FloatArray:
        """Function values on all rows."""
        ...

    def labelled_values(self, coef: FloatArray) -> FloatArray:
        """Function values on the labelled rows."""
        ...

    def representer(self, weights: FloatArray) -> FloatArray:
        """Coefficients of the kernel expansion with these weights on the rows."""
        ...

    def kernel_columns(self, rows: IntArray) -> FloatArray:
        """Kernel between all rows and ``rows``, as the space sees it."""
        ...

    @property
    def labelled_columns(self) -> FloatArray:
        """Kernel between all rows and the labelled ones, of shape (N, l)."""
        ...

    def inner(self, coef: FloatArray, other: FloatArray, other_values: FloatArray) -> FloatArray:
        """Column-wise inner products in the RKHS."""
        ...

    def squared_norms_of_evaluation(self) -> FloatArray:
        """``k(x, x)`` on the rows, as the space sees it."""
        ...

    def dense_operator(self, S: Sparse) -> FloatArray:
        r"""Matrix of :math:`a \mapsto` representer(S values(a)) in coefficients."""
        ...

    def deform(self, ratio: float) -> Deformed:
        """Factor the deformed kernel of one ratio r."""
        ...

    def dual_coefficients(self, coef: FloatArray) -> tuple[IntArray, FloatArray]:
        """Rows and weights of the kernel expansion with which new rows are predicted."""
        ...


def _is_almost_constant(K: FloatArray, part: IntArray, size: IntArray) -> bool:
    """Whether a kernel is almost constant on some part of several rows; ``part`` of each row."""
    first = np.unique(part, return_index=True)[1]
    lowest = K[first, first].copy()
    np.minimum.at(lowest, part, K[np.arange(part.size), first[part]])
    return bool(np.any((lowest > _ALMOST_CONSTANT * K[first, first]) & (size > 1)))


def symmetric_gram(G: FloatArray, K: FloatArray | None, columns: IntArray | slice) -> FloatArray:
    """G symmetric, and with the entries of K[:, columns] where there is but rounding."""
    G = 0.5 * (G + G.T)
    if K is None:
        return G
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    for start in range(0, len(G), _BLOCK):
        rows = slice(start, start + _BLOCK)
        scale = size[rows, None] * size
        G[rows] = settled(G[rows], K[rows, columns], scale, _NO_DIGIT)
    return G


# --- one ratio: a factorisation for a single fit ------------------------------------------------


@dataclass(frozen=True)
class KernelBasis:
    """All of the RKHS that the data sees: coefficients are kernel weights on the N rows.

    Parameters
    ----------
    kernel : array of shape (N, N)
        K.
    laplacian : sparse array of shape (N, N)
        L of the graph on the same rows.
    labelled : array of shape (l,)
        Numbers of the labelled rows.
    """

    kernel: FloatArray
    laplacian: Sparse
    labelled: IntArray

    @cached_property
    def labelled_kernel(self) -> FloatArray:
        """Kernel between the labelled rows and all, shape (l, N)."""
        return self.kernel[self.labelled]

    @property
    def n_rows(self) -> int:
        return self.kernel.shape[0]

    def values(self, coef: FloatArray) -> FloatArray:
        return product(self.kernel, coef)

    def labelled_values(self, coef: FloatArray) -> FloatArray:
        return self.labelled_kernel @ coef

    def representer(self, weights: FloatArray) -> FloatArray:
        return weights

    @property
    def labelled_columns(self) -> FloatArray:
        return self.kernel_columns(self.labelled)

    def kernel_columns(self, rows: IntArray) -> FloatArray:
        return self.kernel[rows].T

    def inner(self, coef: FloatArray, other: FloatArray, other_values: FloatArray) -> FloatArray:
        return np.einsum("ij,ij->j", coef, other_values)

    def squared_norms_of_evaluation(self) -> FloatArray:
        return np.diagonal(self.kernel)

    def dense_operator(self, S: Sparse) -> FloatArray:
        return sparse_product(S, self.kernel)

    def deform(self, ratio: float) -> Deformed:
        if ratio == 0.0:
            return _Undeformed(self)
        n = self.n_rows
        unlabelled = np.ones(n, dtype=bool)
        unlabelled[self.labelled] = False
        order = np.concatenate([np.flatnonzero(unlabelled), self.labelled])
        # (L K) in C order is (K L) in Fortran order: LAPACK factors I + r K L in this buffer, its
        # columns permuted so that the labelled ones come last.
        D = self._laplacian_times_kernel(order, ratio)
        D[np.arange(n), order] += 1.0
        lu, pivots, info = aside(n**3, sl.lapack.dgetrf, D.T, overwrite_a=1)
        if info != 0:  # pragma: no cover - I + rKL has eigenvalues >= 1 for any PSD kernel
            raise np.linalg.LinAlgError("I + r K L is singular: the kernel is not PSD.")
        return _DeformedKernel(self, order, lu, pivots)

    def _laplacian_times_kernel(self, order: IntArray, ratio: float) -> FloatArray:
        """The product r L K with its rows in this order.

        Wide kernels are almost constant, on all rows or on each part of a graph in several parts,
        and what is constant on parts is what the Laplacian takes to zero: rounding of it would act
        as a penalty. It is taken out first.
        """
        L, K = self.laplacian[order], self.kernel
        has_constants = np.abs(L.sum(axis=1)).max() <= 1e-12 * np.abs(L.data).max(initial=0.0)
        L = ratio * L
        if not has_constants:
            return sparse_product(L, K)
        part = csgraph.connected_components(self.laplacian, directed=False)[1].astype(np.intp)
        size = np.bincount(part)
        if not _is_almost_constant(K, part, size):
            return sparse_product(L, K)
        rows = np.arange(self.n_rows)
        average = sp.csr_array((1.0 / size[part], (part, rows)), shape=(size.size, rows.size))
        means: FloatArray = np.asarray(average @ K)
        return sparse_product(L, K - means[part])

    def dual_coefficients(self, coef: FloatArray) -> tuple[IntArray, FloatArray]:
        rows = np.flatnonzero(np.any(coef != 0.0, axis=1))
        return rows, coef[rows]


@dataclass(frozen=True)
class _DeformedKernel:
    """LU factors of (I + r K L) P, with P the column order that puts labelled rows last."""

    basis: KernelBasis
    order: IntArray
    lu: FloatArray
    pivots: IntArray

    @cached_property
    def labelled_gram(self) -> FloatArray:
        # K~ = (I + rKL)^-1 K. With the labelled unknowns last, forward substitution and the last
        # l x l triangle of U give the labelled block; nothing above it is needed.
        first = self.basis.n_rows - self.basis.labelled.size
        columns = np.array(self.basis.labelled_kernel.T, order="F")
        columns = sl.lapack.dlaswp(columns, self.pivots, overwrite_a=1)
        columns = solve_unit_triangular(self.lu, columns)
        G = solve_triangular(self.lu[first:, first:], columns[first:])
        return symmetric_gram(G, self.basis.labelled_kernel, self.basis.labelled)

    def solve(self, coef: FloatArray) -> FloatArray:
        # Rows of I + r L K are in the same order: it is the transpose of what is factored.
        return lu_solve((self.lu, self.pivots), coef[self.order], trans=1)

    def expand(self, beta: FloatArray) -> FloatArray:
        return self.solve(_on_labelled(self.basis, beta))


@dataclass(frozen=True)
class _Undeformed:
    """No manifold penalty: the deformed kernel is the kernel."""

    basis: KernelBasis

    @cached_property
    def labelled_gram(self) -> FloatArray:
        return self.basis.labelled_kernel[:, self.basis.labelled]

    def solve(self, coef: FloatArray) -> FloatArray:
        return coef

    def expand(self, beta: FloatArray) -> FloatArray:
        return _on_labelled(self.basis, beta)


def _on_labelled(basis: KernelBasis, beta: FloatArray) -> FloatArray:
    coef = np.zeros((basis.n_rows, beta.shape[1]))
    coef[basis.labelled] = beta
    return coef


# --- every ratio: one reduction to tridiagonal form ---------------------------------------------


@dataclass(frozen=True)
class FeatureBasis:
    r"""Functions f = B a: coefficients are those of features, of norm :math:`a'a`.

    Parameters
    ----------
    factor : Factor
        B.
    laplacian, labelled
        As in :class:`KernelBasis`.
    """

    factor: Factor
    laplacian: Operator
    labelled: IntArray

    @property
    def n_rows(self) -> int:
        return self.factor.n_rows

    @cached_property
    def labelled_features(self) -> FloatArray:
        """B_L, the labelled rows of B."""
        return self.factor.rows(self.labelled)

    @cached_property
    def labelled_kernel(self) -> FloatArray | None:
        """Kernel between the labelled rows, if the factor knows it."""
        if not isinstance(self.factor, KernelFactor):
            return None
        return self.factor.kernel_between(self.labelled)

    def values(self, coef: FloatArray) -> FloatArray:
        return self.factor.values(coef)

    def labelled_values(self, coef: FloatArray) -> FloatArray:
        return self.labelled_features @ coef

    def representer(self, weights: FloatArray) -> FloatArray:
        return self.factor.representer(weights)

    @cached_property
    def labelled_columns(self) -> FloatArray:
        return self.kernel_columns(self.labelled)

    def kernel_columns(self, rows: IntArray) -> FloatArray:
        return self.factor.values(self.factor.rows(rows).T)

    def inner(self, coef: FloatArray, other: FloatArray, other_values: FloatArray) -> FloatArray:
        return np.einsum("ij,ij->j", coef, other)

    def squared_norms_of_evaluation(self) -> FloatArray:
        return self.factor.squared_norms()

    def dense_operator(self, S: Sparse) -> FloatArray:
        return self.factor.quadratic_form(S)

    def dual_coefficients(self, coef: FloatArray) -> tuple[IntArray, FloatArray]:
        weights = sl.solve_triangular(
            self.factor.triangle, coef, lower=True, trans=1, check_finite=False
        )
        return self.factor.landmarks, weights


@dataclass(frozen=True)
class PlaneBasis(FeatureBasis):
    r"""One reduction :math:`B'LB = Q T Q'` to tridiagonal T serves every ratio.

    In the rotated features :math:`Z = B Q` the norm is :math:`w'w` and the manifold penalty
    :math:`w'Tw`, so that a ratio costs only a tridiagonal factorisation. The rotation is kept as
    Householder reflectors and is applied to what is needed: the labelled rows, and solutions.

    Parameters
    ----------
    factor, laplacian, labelled
        As in :class:`FeatureBasis`.
    reflectors : array of shape (d, d) and (d - 1,)
        Q as LAPACK's ``sytrd`` leaves it.
    diagonal, off_diagonal : arrays of shape (d,) and (d - 1,)
        T.
    """

    reflectors: tuple[FloatArray, FloatArray]
    diagonal: FloatArray
    off_diagonal: FloatArray

    @cached_property
    def rotated_labelled(self) -> FloatArray:
        """Q'B_L' of shape (d, l), in Fortran order."""
        return self.rotate(self.labelled_features.T, back=False)

    def rotate(self, coef: FloatArray, *, back: bool) -> FloatArray:
        """Q coef (``back``) or Q' coef."""
        result = copied(coef)
        reflectors, scales = self.reflectors
        if scales.size:
            trans = "N" if back else "T"
            result[1:] = apply_reflectors(trans, reflectors, scales, result[1:])
        return result

    def deform(self, ratio: float) -> _DeformedPlane:
        diagonal, off_diagonal = 1.0 + ratio * self.diagonal, ratio * self.off_diagonal
        if off_diagonal.size:
            diagonal, off_diagonal, _ = sl.lapack.dpttrf(diagonal, off_diagonal)
        return _DeformedPlane(self, diagonal, off_diagonal)


@dataclass(frozen=True)
class _DeformedPlane:
    """LDL' factors of the tridiagonal I + r T."""

    basis: PlaneBasis
    diagonal: FloatArray
    off_diagonal: FloatArray

    def _solve_rotated(self, coef: FloatArray) -> FloatArray:
        if not self.off_diagonal.size:
            return coef / self.diagonal[:, None]
        solution, _ = sl.lapack.dpttrs(self.diagonal, self.off_diagonal, coef)
        return solution

    def half_solve_rotated(self, coef: FloatArray) -> FloatArray:
        """D^-1/2 U^-1 coef, I + r T = U D U' with U a unit triangle of two diagonals."""
        # Row by row: LAPACK goes column by column, which takes longer where they are many.
        half = np.array(coef, order="C")
        for row, before, factor in zip(half[1:], half[:-1], self.off_diagonal, strict=True):
            row -= factor * before
        half /= np.sqrt(self.diagonal)[:, None]
        return half

    @cached_property
    def labelled_gram(self) -> FloatArray:
        columns = self.basis.rotated_labelled
        G = product(columns.T, self._solve_rotated(columns))
        return symmetric_gram(G, self.basis.labelled_kernel, slice(None))

    def solve(self, coef: FloatArray) -> FloatArray:
        rotated = self.basis.rotate(coef, back=False)
        return self.basis.rotate(self._solve_rotated(rotated), back=True)

    def expand(self, beta: FloatArray) -> FloatArray:
        solution = self._solve_rotated(product(self.basis.rotated_labelled, beta))
        return self.basis.rotate(solution, back=True)


def plane_basis(
    factor: Factor, laplacian: Operator, labelled: IntArray, form: FloatArray | None = None
) -> PlaneBasis:
    """Reduce the quadratic form of the Laplacian on these features to tridiagonal form.

    ``form`` is B'LB if it is known; it is written over.
    """
    M = factor.quadratic_form(laplacian) if form is None else form
    d = M.shape[0]
    if d < 2:
        empty = np.empty((0, 0)), np.empty(0)
        return PlaneBasis(factor, laplacian, labelled, empty, np.diagonal(M), np.empty(0))
    reduced, diagonal, off_diagonal, scales = tridiagonal(M.T)
    reflectors = copied(reduced[1:, :-1])
    return PlaneBasis(factor, laplacian, labelled, (reflectors, scales), diagonal, off_diagonal)
