"""Generated data whose shape is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from onefit._typing import FloatArray
from onefit.validation import check_integer, check_number

__all__ = ["make_noisy_manifold"]

#: Windings of the sheet, whose outer radius and height are 1.
_TURNS = 4.0


def make_noisy_manifold(
    n_samples: int = 1000,
    n_features: int = 20,
    *,
    noise: float = 0.02,
    random_state: Any = None,
) -> tuple[FloatArray, FloatArray]:
    r"""A rolled-up sheet in many dimensions, with noise in all of them and a smooth target.

    With v uniform on [0, 1], the radius :math:`\rho = \sqrt u` for u uniform on [0, 1], so that the
    rows are spread nearly evenly, and the angle :math:`\varphi = 8 \pi \rho`,

    .. math:: x = Q\, (\rho \cos\varphi,\, \rho \sin\varphi,\, v)
              + \text{noise} \cdot \varepsilon,
              \qquad y = \sin(4 \pi u) + \cos(\pi v),

    where the columns of Q are orthonormal and :math:`\varepsilon` is standard normal divided by
    the square root of the number of columns, so that ``noise`` is the distance from the sheet.
    Windings are near each other in space and far apart along the sheet: a graph helps.

    Parameters
    ----------
    n_samples : int, default=1000
        Rows.
    n_features : int, default=20
        Columns, at least 3.
    noise : float, default=0.02
        Typical distance of the rows from the sheet.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Rows.
    y : array of shape (n_samples,)
        Targets, without noise.

    Examples
    --------
    >>> from onefit.datasets import make_noisy_manifold
    >>> X, y = make_noisy_manifold(500, random_state=0)
    >>> X.shape, y.shape
    ((500, 20), (500,))
    """
    check_integer("n_samples", n_samples, minimum=1)
    check_integer("n_features", n_features, minimum=3)
    check_number("noise", noise, zero_allowed=True)
    rng = check_random_state(random_state)
    u, v = rng.uniform(size=(2, n_samples))
    radius = np.sqrt(u)
    angle = 2.0 * np.pi * _TURNS * radius
    sheet = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), v])
    frame = np.linalg.qr(rng.normal(size=(n_features, 3)))[0]
    X = sheet @ frame.T
    X += (noise / np.sqrt(n_features)) * rng.normal(size=X.shape)
    return X, np.sin(4.0 * np.pi * u) + np.cos(np.pi * v)
