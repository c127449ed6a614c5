r"""A basis for few ratios, which do not pay for a reduction to tridiagonal form.

With :math:`M = B'LB` the labelled block of the deformed kernel is

.. math:: G(r) = B_L (I + rM)^{-1} B_L' = \sum_{k < K} (-r)^k m_k + (-r)^K R_K, \qquad
          m_k = B_L M^k B_L', \qquad 0 \preceq R_K \preceq m_K,

since M is positive semi-definite. A ratio for which :math:`r^K m_K` is but rounding is a sum of
moments; others take a Cholesky factorisation each, :math:`I + rM = CC'` and
:math:`G = (C^{-1}B_L')'(C^{-1}B_L')`. A product :math:`Y_{j+1} = M Y_j` from :math:`Y_0 = B_L'`
gives two moments, :math:`m_{2j+1} = Y_j'Y_{j+1}` and :math:`m_{2j+2} = Y_{j+1}'Y_{j+1}`, of which
the last one is the bound.

All of this is products of matrices, in which a core is faster than in the vectors of a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onefit._lapack import cho_factor, cho_solve, product, solve_triangular
from onefit._typing import FloatArray, IntArray
from onefit.anchors import Operator
from onefit.basis import Deformed, FeatureBasis, PlaneBasis, plane_basis, symmetric_gram
from onefit.factors import Factor

__all__ = ["FormBasis", "basis_for_ratios"]

#: What is smaller than this, relative to G, is rounding.
_ROUNDING = 1e-15
#: Products with M for the moments.
_MOST_PRODUCTS = 4
#: Multiplications of matrices in the time of one of a reduction, half of which are of vectors.
_REDUCTION = 2.5
#: Condition of I + rM up to which it is factored here.
_MOST_CONDITION = 1e10


def _reach(n_products: int) -> float:
    """Size of rM up to which so many products may suffice."""
    return _ROUNDING ** (0.5 / n_products)


@dataclass(frozen=True)
class Moments:
    r"""Sums of moments of :math:`M`, for the ratios that they suffice for.

    Parameters
    ----------
    start : array of shape (d, l)
        :math:`Y_0 = B_L'`.
    times : callable
        From Y to M Y.
    scale : float
        Size of M, of the order of its largest eigenvalue.
    """

    start: FloatArray
    times: Callable[[FloatArray], FloatArray]
    scale: float

    def gram(self, ratio: float) -> FloatArray | None:
        """G(r) as a sum of moments; None where as many as we take do not suffice."""
        x = ratio * self.scale
        for n_products in range(1, _MOST_PRODUCTS + 1):
            if x > _reach(n_products):
                continue
            moments = self._up_to(n_products)
            bound = x ** (2 * n_products) * np.diagonal(moments[-1])
            if np.all(bound <= _ROUNDING * np.diagonal(moments[0])):
                total = moments[0].copy()
                for k, moment in enumerate(moments[1:-1], start=1):
                    total += (-x) ** k * moment
                return total
        return None

    def _up_to(self, n_products: int) -> list[FloatArray]:
        """Moments of M / scale up to number 2 n_products."""
        moments, Y = self._known
        while len(moments) <= 2 * n_products:
            after = self.times(Y[-1]) / max(self.scale, np.finfo(float).tiny)
            moments += [product(Y[-1].T, after), product(after.T, after)]
            Y[:] = [after]
        return moments[: 2 * n_products + 1]

    @cached_property
    def _known(self) -> tuple[list[FloatArray], list[FloatArray]]:
        """The moments so far, and the last of the products."""
        return [product(self.start.T, self.start)], [self.start]


def factored_and_products(sizes: FloatArray) -> tuple[int, int]:
    """How many ratios of these sizes are factored, and how many products the others need."""
    n_factored = int(np.count_nonzero(sizes > _reach(_MOST_PRODUCTS)))
    return n_factored, _MOST_PRODUCTS if n_factored < sizes.size else 0


def moments_are_small(m: int, n_rows: int, d: int) -> bool:
    """Whether the moments of m labels take no more memory than features of shape (n_rows, d)."""
    return (2 * _MOST_PRODUCTS + 1) * m**2 <= n_rows * d


def work_by_form(d: int, m: int, sizes: FloatArray) -> float:
    """Multiplications for G of ratios of these sizes r M, M of shape (d, d), by m labels."""
    n_factored, n_products = factored_and_products(sizes)
    per_ratio = d**3 / 6 + d**2 * m / 2 + d * m**2 / 2
    return n_factored * per_ratio + n_products * d * m * (d + m)


def work_by_reduction(d: int, m: int, sizes: FloatArray) -> float:
    """The same by one reduction for all of them."""
    return _REDUCTION * 2 / 3 * d**3 + d**2 * m + sizes.size * d * m**2


@dataclass(frozen=True)
class FormBasis(FeatureBasis):
    r"""Every ratio by itself: moments where they suffice, else a factorisation.

    Parameters
    ----------
    factor, laplacian, labelled
        As in :class:`~onefit.basis.FeatureBasis`.
    form : array of shape (d, d)
        :math:`M = B'LB`.
    """

    form: FloatArray

    @cached_property
    def scale(self) -> float:
        """Largest entry of M, which has none larger off the diagonal."""
        return float(np.diagonal(self.form).max(initial=0.0))

    @cached_property
    def moments(self) -> Moments:
        """Those of the form."""
        M = self.form.T  # in Fortran order, like what it is multiplied with
        return Moments(self.labelled_features.T, lambda Y: product(M, Y), self.scale)

    def deform(self, ratio: float) -> Deformed:
        """The deformed kernel of one ratio r; nothing is factored yet."""
        return _DeformedForm(self, ratio)

    @cached_property
    def reduced(self) -> PlaneBasis:
        """The basis by reduction, for ratios that cannot be factored to rounding."""
        return plane_basis(self.factor, self.laplacian, self.labelled, self.form.copy())


@dataclass(frozen=True)
class _DeformedForm:
    """The deformed kernel of one ratio, factored when somebody asks.

    Nobody asks twice in a search, which needs G alone: the factor, as large as M, is not kept.
    """

    basis: FormBasis
    ratio: float

    def _factor(self) -> tuple[FloatArray, bool] | None:
        system = self.ratio * self.basis.form.T
        system.flat[:: len(system) + 1] += 1.0
        try:
            return cho_factor(system, overwrite=True)
        except np.linalg.LinAlgError:  # M is positive to its own rounding only
            return None

    @cached_property
    def _reduced(self) -> Deformed:
        return self.basis.reduced.deform(self.ratio)

    @cached_property
    def labelled_gram(self) -> FloatArray:
        G = self.basis.moments.gram(self.ratio)
        if G is None:
            factor = self._factor()
            if factor is None:
                return self._reduced.labelled_gram
            half = solve_triangular(factor[0], self.basis.labelled_features.T, lower=True)
            G = product(half.T, half)
        return symmetric_gram(G, self.basis.labelled_kernel, slice(None))

    def solve(self, coef: FloatArray) -> FloatArray:
        factor = self._factor()
        return self._reduced.solve(coef) if factor is None else cho_solve(factor, coef)

    def expand(self, beta: FloatArray) -> FloatArray:
        return self.solve(product(self.basis.labelled_features.T, beta))


def basis_for_ratios(
    factor: Factor,
    laplacian: Operator,
    labelled: IntArray,
    ratios: Sequence[float],
    form: FloatArray | None = None,
) -> FormBasis | PlaneBasis:
    """The basis that costs less if nothing but G is asked of it, for these ratios.

    ``form`` is B'LB if it is known; it may be written over.
    """
    M = factor.quadratic_form(laplacian) if form is None else form
    basis = FormBasis(factor, laplacian, labelled, M)
    sizes, d, m = np.array(ratios) * basis.scale, len(M), labelled.size
    is_cheaper = work_by_form(d, m, sizes) < work_by_reduction(d, m, sizes)
    is_regular = sizes.max(initial=0.0) * d <= _MOST_CONDITION
    if is_cheaper and is_regular and moments_are_small(m, factor.n_rows, d):
        return basis
    return plane_basis(factor, laplacian, labelled, M)
