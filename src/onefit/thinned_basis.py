r"""A basis of a graph that has lost few edges, from the tridiagonal form of the whole graph.

With :math:`B'LB = QTQ'` of the whole graph and the edges that are gone as columns,

.. math:: B'L_iB = Q\,(T - VV')\,Q', \qquad V = Q'B'W, \qquad
          W = \bigl(\sqrt{w_e}\,(e_i - e_j)\bigr)_{e = (i, j)\ \text{gone}} .

Of :math:`S = X'(I + rT)^{-1}X` with the columns :math:`X = (V, Q'B_L')`, whose factor costs next to
nothing, Woodbury's identity makes the labelled block of the deformed kernel,

.. math:: G(r) = S_{LL} + r\,S_{LV}\,(I - r\,S_{VV})^{-1}\,S_{VL} .

The system is as large as there are edges gone. That few points are held out is not enough: with
many neighbours each they take most edges of the others with them, and then the form of the fold is
factored as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from onefit._lapack import cho_factor, product, solve_triangular
from onefit._subnormals import subnormals_as_zero
from onefit._typing import BoolArray, FloatArray
from onefit.anchors import Operator
from onefit.basis import Deformed, FeatureBasis, PlaneBasis, symmetric_gram
from onefit.factors import KernelFactor
from onefit.form_basis import FormBasis, Moments, direct_work, factored_and_products
from onefit.graphs import Edges

__all__ = ["EdgeFeatures", "ThinnedBasis", "thinned_basis"]

#: Edges whose part of rM is smaller than this, all together, are but rounding.
_ROUNDING = 1e-16
#: Smallest pivot of I - r S_VV that leaves G its digits.
_LEAST_PIVOT = 1e-4
#: Multiplications of matrices in the time of one of a recurrence.
_RECURRENCE = 150
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
    gone : array of shape (d, e)
        V, in Fortran order.
    """

    whole: PlaneBasis
    gone: FloatArray

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
    def columns(self) -> FloatArray:
        """X = (V, Q'B_L')."""
        return np.hstack([self.gone, self.whole.rotated_labelled])

    @cached_property
    def direct(self) -> FormBasis:
        """The same basis from its form, for what has no short cut."""
        form = self.factor.quadratic_form(self.laplacian)
        return FormBasis(self.factor, self.laplacian, self.labelled, form)


@dataclass(frozen=True)
class _DeformedThinned:
    """The deformed kernel of one ratio, factored when somebody asks."""

    basis: ThinnedBasis
    ratio: float

    @cached_property
    def _direct(self) -> Deformed:
        return self.basis.direct.deform(self.ratio)

    @cached_property
    @subnormals_as_zero()
    def labelled_gram(self) -> FloatArray:
        # No digit of G hangs on subnormal results: small entries are the kernel's own.
        G = self.basis.moments.gram(self.ratio)
        if G is None:
            G = self._by_woodbury()
        if G is None:
            return self._direct.labelled_gram
        return symmetric_gram(G, self.basis.labelled_kernel, slice(None))

    def _by_woodbury(self) -> FloatArray | None:
        """G(r); None where the difference of the two forms leaves it too few digits."""
        r, e = self.ratio, self.basis.gone.shape[1]
        half = self.basis.whole.deform(r).half_solve_rotated(self.basis.columns)
        S = product(half.T, half)
        system = -r * S[:e, :e]
        system.flat[:: e + 1] += 1.0
        try:
            lower, _ = cho_factor(system.T, overwrite=True)
        except np.linalg.LinAlgError:
            return None
        if np.diagonal(lower).min(initial=1.0) ** 2 < _LEAST_PIVOT:
            return None
        response = solve_triangular(lower, S[:e, e:], lower=True)
        return S[e:, e:] + r * product(response.T, response)

    def solve(self, coef: FloatArray) -> FloatArray:
        return self._direct.solve(coef)

    def expand(self, beta: FloatArray) -> FloatArray:
        return self._direct.expand(beta)


def _without_edges(whole: PlaneBasis, gone: FloatArray, Y: FloatArray) -> FloatArray:
    """(T - VV') Y."""
    result = whole.diagonal[:, None] * Y
    result[1:] += whole.off_diagonal[:, None] * Y[:-1]
    result[:-1] += whole.off_diagonal[:, None] * Y[1:]
    result -= product(gone, product(gone.T, Y))
    return result


def _size(basis: PlaneBasis) -> float:
    return float(basis.diagonal.max(initial=0.0))


@subnormals_as_zero()
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
    sizes = np.array(ratios) * _size(whole)
    which = features.matters(gone, max(ratios, default=0.0))
    e, d, m = int(np.count_nonzero(which)), whole.diagonal.size, whole.labelled.size
    n_factored, n_products = factored_and_products(sizes)
    per_ratio = d * (e + m) * ((e + m) / 2 + _RECURRENCE) + e * (e**2 / 6 + e * m / 2 + m**2 / 2)
    here = n_factored * per_ratio + n_products * d * m * (2 * e + m)
    if here > direct_work(d, m, sizes):
        return None
    columns = features.columns(which)
    return ThinnedBasis(whole.factor, laplacian, whole.labelled, whole, columns)
