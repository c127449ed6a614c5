r"""Exact cross-validation of a whole penalty plane with the square loss, labels held out.

For one ratio :math:`\gamma_I/\gamma_A` the labelled block of the deformed kernel is factored once,

.. math:: S^{1/2} \tilde K_{LL} S^{1/2} = U \Lambda U',

with S the weights of the labels. For every :math:`\gamma_A` and every fold, whose weights sum to
:math:`W'`, the matrix of equation (4) is then diagonal,

.. math:: A^{-1} = S^{1/2} U \left(\Lambda / \gamma_A + W'\right)^{-1} U' S^{1/2},

and a fold costs a small solve of the size of the fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onefit._interrupts import aside
from onefit._lapack import eigh, product
from onefit._rounding import is_rounding, settled
from onefit._typing import FloatArray, IntArray
from onefit.folds import Fold
from onefit.targets import LabelWeights

__all__ = ["square_plane"]

_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class _WeightedFolds:
    """Folds that weigh the labels alike up to a factor: weights s, and each fold's total W'."""

    weights: FloatArray
    totals: FloatArray
    members: IntArray


def square_plane(
    gram: FloatArray,
    ambient: FloatArray,
    targets: FloatArray,
    weights: LabelWeights,
    folds: Sequence[Fold],
    *,
    fit_intercept: bool,
) -> list[FloatArray]:
    """Held-out decisions of every fold for all ambient penalties of one ratio.

    Parameters
    ----------
    gram : array of shape (l, l)
        Labelled block of the deformed kernel.
    ambient : array of shape (a,)
        gamma_A of the candidates.
    targets : array of shape (l, q)
        Targets.
    weights : LabelWeights
        Weights of the loss.
    folds : sequence of Fold
        What to hold out.
    fit_intercept : bool
        Whether f has a constant.

    Returns
    -------
    list of arrays of shape (a, m, q)
        Decisions on the test labels of each fold.
    """
    decisions: list[FloatArray] = [np.empty(0)] * len(folds)
    for group in _group_by_weights(weights, folds):
        root = np.sqrt(group.weights)
        spectrum, U = eigh(root[:, None] * gram * root)
        vectors = root[:, None] * U
        projected = vectors.T @ targets
        ones = vectors.sum(axis=0)
        scaled = np.maximum(spectrum, 0.0) / ambient[:, None]
        for total, i in zip(group.totals, group.members, strict=True):
            inverse = 1.0 / (scaled + total)
            out = np.flatnonzero(~folds[i].kept_labels)
            residual = _residuals(vectors, inverse, projected, ones if fit_intercept else None, out)
            tested = folds[i].test_labels[out]
            f, size = targets[out[tested]] - residual[:, tested], np.abs(targets).max()
            if not fit_intercept and is_rounding(f, size).any():
                # f = G beta loses no digit where G is small.
                beta = product(
                    vectors, inverse[:, :, None] * (projected - vectors[out].T @ residual)
                )
                beta[:, out] = 0.0
                f = settled(f, product(gram[out[tested]], beta) / ambient[:, None, None], size)
            decisions[i] = f
    return decisions


def _residuals(
    vectors: FloatArray,
    inverse: FloatArray,
    projected: FloatArray,
    ones: FloatArray | None,
    out: IntArray,
) -> FloatArray:
    """Equation (4) for the labels ``out`` of one fold and all ambient penalties at once."""
    rank = np.count_nonzero(inverse > _EPS * inverse.max(axis=1, keepdims=True), axis=1)
    if rank.min() < out.size:
        raise np.linalg.LinAlgError("the system of a fold is singular to rounding.")
    rows = vectors[out]
    weighted = rows * inverse[:, None, :]
    block = product(weighted, rows.T)
    dual = weighted @ projected
    if ones is not None:
        by_one = weighted @ ones
        pivot = inverse @ np.square(ones)
        block -= by_one[:, :, None] * by_one[:, None, :] / pivot[:, None, None]
        means = (inverse * ones) @ projected / pivot[:, None]
        dual -= by_one[:, :, None] * means[:, None, :]
    return aside(block.size * block.shape[-1], np.linalg.solve, block, dual)


def _group_by_weights(weights: LabelWeights, folds: Sequence[Fold]) -> list[_WeightedFolds]:
    """Folds by their label weights, up to a factor that is each fold's own."""
    groups: dict[bytes, tuple[FloatArray, list[float], list[int]]] = {}
    for i, fold in enumerate(folds):
        v = weights.normalized(fold.kept_labels)
        direction = v / v[0]
        entry = groups.setdefault(np.round(direction, 12).tobytes(), (direction, [], []))
        entry[1].append(float(direction[0] / v[0]))
        entry[2].append(i)
    return [
        _WeightedFolds(direction, np.array(totals), np.array(members))
        for direction, totals, members in groups.values()
    ]
