"""Data sets that ship inside the package."""

from __future__ import annotations

import csv
from importlib import resources
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

__all__ = ["load_penguins"]

_DATA = resources.files("onefit.datasets") / "data"


@overload
def load_penguins(*, return_X_y: Literal[False] = ..., as_frame: bool = ...) -> Bunch: ...


@overload
def load_penguins(
    *, return_X_y: Literal[True], as_frame: Literal[False] = ...
) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...


@overload
def load_penguins(*, return_X_y: Literal[True], as_frame: Literal[True]) -> tuple[Any, Any]: ...


def load_penguins(
    *, return_X_y: bool = False, as_frame: bool = False
) -> Bunch | tuple[NDArray[np.float64], NDArray[np.int64]] | tuple[Any, Any]:
    """Load the Palmer penguins: three species from four body measurements.

    The 342 penguins of the original 344 whose measurements are complete. The
    data are real, in the public domain (CC0), and small: a fit takes
    milliseconds.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a bunch.
    as_frame : bool, default=False
        Return pandas objects: ``data`` as a DataFrame, ``target`` as a Series.
        Needs pandas (``pip install 'onefit[pandas]'``).

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With the attributes

        data : ndarray of shape (342, 4), or DataFrame
            The measurements, in millimetres and grams: not standardised.
        target : ndarray of shape (342,), or Series
            The species as codes 0, 1, 2 into ``target_names``.
        frame : DataFrame or None
            ``data`` and ``target`` in one, if ``as_frame``.
        feature_names : list of str
            Names of the columns of ``data``.
        target_names : ndarray of str
            ``Adelie``, ``Chinstrap``, ``Gentoo``.
        DESCR : str
            What the data are, where they come from, and their licence.
    (data, target) : tuple
        If ``return_X_y``.

    See Also
    --------
    make_partially_labeled : Hide most labels of a target.

    Examples
    --------
    >>> from onefit.datasets import load_penguins
    >>> penguins = load_penguins()
    >>> penguins.data.shape
    (342, 4)
    >>> penguins.feature_names
    ['bill_length_mm', 'bill_depth_mm', 'flipper_length_mm', 'body_mass_g']
    >>> penguins.target_names.tolist()
    ['Adelie', 'Chinstrap', 'Gentoo']
    """
    feature_names, data, species = _read_csv("penguins.csv")
    target_names, codes = np.unique(species, return_inverse=True)
    target = codes.astype(np.int64)
    frame = None
    X: Any = data
    y: Any = target
    if as_frame:
        frame = _to_frame(data, target, feature_names, "species")
        X, y = frame[feature_names], frame["species"]
    if return_X_y:
        return X, y
    return Bunch(
        data=X,
        target=y,
        frame=frame,
        feature_names=feature_names,
        target_names=target_names,
        DESCR=(_DATA / "penguins.rst").read_text(encoding="utf-8"),
    )


def _read_csv(name: str) -> tuple[list[str], NDArray[np.float64], NDArray[np.str_]]:
    """Read a bundled file: a header, numeric columns, and the class in the last one."""
    lines = (_DATA / name).read_text(encoding="utf-8").splitlines()
    header, *rows = csv.reader(lines)
    data = np.array([row[:-1] for row in rows], dtype=np.float64)
    classes = np.array([row[-1] for row in rows], dtype=np.str_)
    return header[:-1], data, classes


def _to_frame(
    data: NDArray[np.float64],
    target: NDArray[np.int64],
    feature_names: list[str],
    target_name: str,
) -> Any:
    """Join data and target in one pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        msg = (
            "as_frame=True needs pandas, which is not installed. Install it with "
            "pip install 'onefit[pandas]', or use as_frame=False."
        )
        raise ImportError(msg) from error
    frame = pd.DataFrame(data, columns=feature_names)
    frame[target_name] = target
    return frame
