r"""A basis of a graph that has lost few edges, from the tridiagonal form of the whole graph.

With :math:`B'LB = QTQ'` of the whole graph and the edges that are gone as columns,

.. math:: B'L_iB = Q\,(T - VV')\,Q', \qquad V = Q'B'W, \qquad
          W = \bigl(\sqrt{w_e}\,(e_i - e_j)\bigr)_{e = (i, j)\ \text{gone}} .

Of :math:`S = X'(I + rT)^{-1}X` with the columns :math:`X = (V, Q'B_L')`, whose factor costs next to
nothing, Woodbury's identity makes the labelled block of the deformed kernel,

.. math:: G(r) = S_{LL} + r\,S_{LV}\,(I - r\,S_{VV})^{-1}\,S_{VL} .

which is equation (13) of the documentation. The system is as large as there are edges gone: with
few folds, or many neighbours, it is no smaller than the form of the fold, which is then made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from onefit._lapack import cho_factor, product, solve_triangular
from onefit._typing import BoolArray, FloatArray
from onefit.anchors import Operator
from onefit.basis import Deformed, FeatureBasis, PlaneBasis, symmetric_gram
from onefit.factors import KernelFactor
from onefit.form_basis import (
    FormBasis,
    Moments,
    basis_for_ratios,
    factored_and_products,
    moments_are_small,
    work_by_form,
    work_by_reduction,
)
from onefit.graphs import Edges

__all__ = ["EdgeFeatures", "ThinnedBasis", "thinned_basis"]

#: Edges whose part of rM is smaller than this, all together, are but rounding.
_ROUNDING = 1e-16
#: Smallest pivot of I - r S_VV that leaves G its digits.
_LEAST_PIVOT = 1e-4
#: Multiplications of matrices in the time of one of a recurrence.
_RECURRENCE = 150
#: The same in that of one of its steps.
_STEP = 50_000
#: Rows of differences that are made at once.
_BLOCK = 256


@dataclass(frozen=True)
class EdgeFeatures:
    """What every edge of a graph adds to the form of a basis: the columns of V.

    Parameters
    ----------
    basis : PlaneBasis
        Basis of the whole graph, its features held.
    factor : KernelFactor
        Its factor.
    edges : Edges
        The edges.
    """

    basis: PlaneBasis
    factor: KernelFactor
    edges: Edges

    @cached_property
    def sizes(self) -> FloatArray:
        """Squared norms of the columns: the largest eigenvalue of each edge's part of the form."""
        B, edges = self._centred, self.edges
        sizes = np.empty(edges.weights.size)
        for start in range(0, sizes.size, _BLOCK):
            some = slice(start, start + _BLOCK)
            difference = B[edges.first[some]] - B[edges.second[some]]
            sizes[some] = edges.weights[some] * np.einsum("ij,ij->i", difference, difference)
        return sizes

    def matters(self, which: BoolArray, ratio: float) -> BoolArray:
        """Those of some edges that change I + rM by more than its rounding, taken together."""
        return which & (self.sizes * ratio > _ROUNDING / max(1, int(np.count_nonzero(which))))

    def columns(self, which: BoolArray) -> FloatArray:
        """V for some edges, of shape (d, e), in Fortran order."""
        edges = self.edges
        Z, roots = self._rotated, np.sqrt(edges.weights[which])
        difference = Z[edges.first[which]] - Z[edges.second[which]]
        difference *= roots[:, None]
        return difference.T

    @property
    def _centred(self) -> FloatArray:
        """Features less their means, so that rounding of a rotation is that of differences."""
        features = self.factor.features
        return features - features.mean(axis=0)

    @cached_property
    def _rotated(self) -> FloatArray:
        return self.basis.rotate(self._centred.T, back=False).T


@dataclass(frozen=True)
class ThinnedBasis(FeatureBasis):
    """Every ratio by itself: moments where they suffice, else a system of the edges gone.

    Parameters
    ----------
    factor, laplacian, labelled
        As in :class:`~onefit.basis.FeatureBasis`, of the graph that is left.
    whole : PlaneBasis
        The basis with all edges.
    columns : array of shape (d, e + l)
        X = (V, Q'B_L').
    ratios : sequence of float
        The ratios that will be asked for.
    """

    whole: PlaneBasis
    columns: FloatArray
    ratios: Sequence[float]

    @property
    def gone(self) -> FloatArray:
        """V, of shape (d, e)."""
        return self.columns[:, : self.columns.shape[1] - self.labelled.size]

    def deform(self, ratio: float) -> Deformed:
        """The deformed kernel of one ratio r; nothing is factored yet."""
        return _DeformedThinned(self, ratio)

    @cached_property
    def moments(self) -> Moments:
        """Those of T - VV'."""
        # Not a method of this basis, which would then be kept until somebody collects cycles.
        times = partial(_without_edges, self.whole, self.gone)
        return Moments(self.whole.rotated_labelled, times, _size(self.whole))

    @cached_property
    def by_form(self) -> FormBasis | PlaneBasis:
        """The basis of the form, for what has no short cut."""
        return basis_for_ratios(self.factor, self.laplacian, self.labelled, self.ratios)


@dataclass(frozen=True)
class _DeformedThinned:
    """The deformed kernel of one ratio, factored when somebody asks."""

    basis: ThinnedBasis
    ratio: float

    @cached_property
    def _by_form(self) -> Deformed:
        return self.basis.by_form.deform(self.ratio)

    @cached_property
    def labelled_gram(self) -> FloatArray:
        G = self.basis.moments.gram(self.ratio)
        if G is None:
            G = self._by_woodbury()
        if G is None:
            return self._by_form.labelled_gram
        return symmetric_gram(G, self.basis.labelled_kernel, slice(None))

    def _by_woodbury(self) -> FloatArray | None:
        """G(r); None where rounding of the difference of two forms may have left no digit."""
        r, e = self.ratio, self.basis.gone.shape[1]
        whole = self.basis.whole.deform(r)
        if not whole.diagonal.min(initial=1.0) > 0.0:
            return None
        half = whole.half_solve_rotated(self.basis.columns)
        S = product(half.T, half)
        system = -r * S[:e, :e]
        system.flat[:: e + 1] += 1.0
        try:
            lower, _ = cho_factor(system.T, overwrite=True)
        except np.linalg.LinAlgError:
            return None
        if not np.diagonal(lower).min(initial=1.0) ** 2 >= _LEAST_PIVOT:
            return None
        response = solve_triangular(lower, S[:e, e:], lower=True)
        return S[e:, e:] + r * product(response.T, response)

    def solve(self, coef: FloatArray) -> FloatArray:
        return self._by_form.solve(coef)

    def expand(self, beta: FloatArray) -> FloatArray:
        return self._by_form.expand(beta)


def _without_edges(whole: PlaneBasis, gone: FloatArray, Y: FloatArray) -> FloatArray:
    """(T - VV') Y."""
    result = whole.diagonal[:, None] * Y
    result[1:] += whole.off_diagonal[:, None] * Y[:-1]
    result[:-1] += whole.off_diagonal[:, None] * Y[1:]
    result -= product(gone, product(gone.T, Y))
    return result


def _size(basis: PlaneBasis) -> float:
    return float(basis.diagonal.max(initial=0.0))


def thinned_basis(
    features: EdgeFeatures,
    laplacian: Operator,
    gone: BoolArray,
    ratios: Sequence[float],
) -> ThinnedBasis | None:
    """The basis without some edges; None where it costs less to begin with its form.

    ``laplacian`` is that of the graph that is left.
    """
    whole = features.basis
    which = features.matters(gone, max(ratios, default=0.0))
    e, d, m = int(np.count_nonzero(which)), whole.diagonal.size, whole.labelled.size
    sizes = np.array(ratios) * _size(whole)
    n_factored, n_products = factored_and_products(sizes)
    per_ratio = d * (e + m) * ((e + m) / 2 + _RECURRENCE) + e * (e**2 / 6 + e * m / 2 + m**2 / 2)
    here = n_factored * (per_ratio + _STEP * d) + n_products * d * m * (2 * e + m)
    there = min(work_by_form(d, m, sizes), work_by_reduction(d, m, sizes))
    if here > there or e + m > d or not moments_are_small(m, whole.n_rows, d):
        return None
    columns = np.hstack([features.columns(which), whole.rotated_labelled])
    return ThinnedBasis(whole.factor, laplacian, whole.labelled, whole, columns, ratios)
