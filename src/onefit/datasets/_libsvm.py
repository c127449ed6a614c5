"""Small sets of the LIBSVM collection, from a local folder or downloaded once."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import get_data_home, load_svmlight_file
from sklearn.utils import Bunch

from onefit.datasets._files import download, find_file, read_file, write_file
from onefit.datasets._libsvm_table import ALIASES, LIBSVM_SETS, LibsvmSet, Task

__all__ = ["libsvm_datasets", "load_libsvm_data"]

LIBSVM_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
DENSE_ABOVE = 0.3

_FOLDERS = {"classification": "binary", "regression": "regression"}


@overload
def load_libsvm_data(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = ...,
    return_X_y: Literal[False] = ...,
    download_if_missing: bool = ...,
    n_retries: int = ...,
    delay: float = ...,
    verify_checksum: bool = ...,
) -> Bunch: ...


@overload
def load_libsvm_data(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = ...,
    return_X_y: Literal[True],
    download_if_missing: bool = ...,
    n_retries: int = ...,
    delay: float = ...,
    verify_checksum: bool = ...,
) -> tuple[Any, NDArray[Any]]: ...


def load_libsvm_data(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
    download_if_missing: bool = True,
    n_retries: int = 3,
    delay: float = 1.0,
    verify_checksum: bool = True,
) -> Bunch | tuple[Any, NDArray[Any]]:
    """Load a data set of the LIBSVM collection: 11 of two classes, 7 of real values.

    A file ``NAME``, or ``NAME.xz``, ``NAME.bz2``, ``NAME.gz``, is looked for

    1. in ``data_home``; if that is None, in the folder that the environment
       variable ``ONEFIT_DATA`` names;
    2. in the cache: the folder ``onefit`` inside ``data_home``, or inside
       scikit-learn's :func:`~sklearn.datasets.get_data_home`;

    and is otherwise downloaded from the `LIBSVM data page
    <https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/>`_ into the cache.
    Files outside the cache are only ever read.

    Parameters
    ----------
    name : str
        One of the names that :func:`libsvm_datasets` lists, in any case. Also
        understood: ``german``, ``space-ga``, ``bodfat``, ``mg_scale``.
    data_home : str or path-like, default=None
        A folder with data; see above.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a bunch.
    download_if_missing : bool, default=True
        If False, never use the network.
    n_retries : int, default=3
        How often to try again after a download failed.
    delay : float, default=1.0
        Seconds between these attempts.
    verify_checksum : bool, default=True
        Whether to refuse a file with other content than expected; see Notes.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With the attributes

        data : ndarray or CSR matrix of shape (n_rows, n_features)
            The features, as published: not standardised. Sparse (``a1a`` to
            ``a3a``, ``w1a`` to ``w3a``) where at most 30 % of the entries
            differ from zero.
        target : ndarray of shape (n_rows,)
            Classes as the integers 0 and 1 for the published -1 and +1,
            because -1 means unlabelled in this package; real values as floats.
        target_names : ndarray of str, or None
            ``-1`` and ``+1`` for classes.
        task : str
            ``"classification"`` or ``"regression"``.
        feature_names : list of str
            ``x1``, ``x2`` and so on: the collection has no names.
        filename : str
            The file that was read.
        DESCR : str
            What the data are, and where they come from.
    (data, target) : tuple
        If ``return_X_y``.

    Raises
    ------
    ValueError
        If the name is unknown, or a file is damaged, larger than 64 MiB or has
        other content than expected.
    OSError
        If there is no file and it cannot or may not be downloaded.

    See Also
    --------
    libsvm_datasets : The names, with task and size.
    make_partially_labeled : Hide most labels of a target.

    Notes
    -----
    The checksum is of the numbers, not of the bytes: line ends, spelled-out
    zeros and trailing zeros make no difference. It was taken from copies of the
    files that were compared with others, not from the LIBSVM server. Some of
    them were converted from the original sources of the data, and a published
    file may differ from them: ``space_ga`` in the last digits of the targets,
    ``w2a`` in the order of equal rows. Such a file is refused unless
    ``verify_checksum=False``. A file in the cache that is damaged or refused is
    downloaded again, once, with a warning.

    Examples
    --------
    >>> from onefit.datasets import libsvm_datasets, load_libsvm_data
    >>> libsvm_datasets()["a1a"]
    ('classification', 1605, 123)
    >>> a1a = load_libsvm_data("a1a")  # doctest: +SKIP
    >>> a1a.data.shape, a1a.target_names[a1a.target[:2]]  # doctest: +SKIP
    ((1605, 123), array(['-1', '-1'], dtype='<U2'))
    """
    name = _canonical(name)
    found = _read_own(name, data_home, verify_checksum)
    if found is None:
        cache = Path(get_data_home(data_home)) / "onefit"
        found = _read_cached(name, cache, verify_checksum, replaceable=download_if_missing)
    if found is None:
        if not download_if_missing:
            msg = f"There is no file of {name!r}, and download_if_missing=False. "
            raise OSError(msg + _by_hand(name, cache))
        found = _download(name, cache, n_retries, delay, verify_checksum)
    bunch = _as_bunch(name, found)
    return (bunch.data, bunch.target) if return_X_y else bunch


def libsvm_datasets() -> dict[str, tuple[Task, int, int]]:
    """List the data sets that :func:`load_libsvm_data` knows.

    Returns
    -------
    sets : dict of str to tuple
        For each name its task, ``"classification"`` or ``"regression"``, the
        number of rows and the number of features.

    See Also
    --------
    load_libsvm_data : Load one of them.

    Examples
    --------
    >>> from onefit.datasets import libsvm_datasets
    >>> [name for name, (task, _, _) in libsvm_datasets().items() if task == "regression"]
    ['abalone', 'bodyfat', 'cpusmall', 'housing', 'mg', 'mpg', 'space_ga']
    """
    return {name: (s.task, s.n_rows, s.n_features) for name, s in LIBSVM_SETS.items()}


def content_checksum(X: Any, y: NDArray[np.float64]) -> str:
    """SHA-256 of the numbers: shape, nonzero entries row by row, targets; little-endian."""
    digest = hashlib.sha256()
    parts = [(X.shape, "<i8"), (X.indptr, "<i8"), (X.indices, "<i8"), (X.data, "<f8"), (y, "<f8")]
    for part, dtype in parts:
        digest.update(np.ascontiguousarray(part, dtype=dtype).tobytes())
    return digest.hexdigest()


class _Numbers(NamedTuple):
    """What a file holds: rows without spelled-out zeros, targets as published."""

    X: Any
    y: NDArray[np.float64]
    path: Path


def _canonical(name: str) -> str:
    """Find the name in the table, whatever its case and hyphens."""
    key = str(name).lower().replace("-", "_")
    key = ALIASES.get(key, key)
    if key not in LIBSVM_SETS:
        msg = f"name={name!r}: expected one of {', '.join(LIBSVM_SETS)}. Choose one of these."
        raise ValueError(msg)
    return key


def _read_own(name: str, data_home: str | os.PathLike[str] | None, verify: bool) -> _Numbers | None:
    """Read a file that the user put there."""
    folder = data_home if data_home is not None else os.environ.get("ONEFIT_DATA")
    path = find_file(Path(folder).expanduser(), name) if folder else None
    return None if path is None else _parse(name, read_file(path), path, verify)


def _read_cached(name: str, cache: Path, verify: bool, *, replaceable: bool) -> _Numbers | None:
    """Read a file of the cache; a bad one is only a warning if it can be downloaded again."""
    path = find_file(cache, name)
    if path is None:
        return None
    try:
        return _parse(name, read_file(path), path, verify)
    except ValueError as error:
        if not replaceable:
            raise
        warnings.warn(f"Downloading {name!r} again: {error}", stacklevel=3)
        return None


def _download(name: str, cache: Path, n_retries: int, delay: float, verify: bool) -> _Numbers:
    """Download a file, and keep it if its content is right."""
    url = _url(name)
    try:
        content = download(url, n_retries=n_retries, delay=delay)
    except OSError as error:
        msg = f"{error} Is there a connection to the network? {_by_hand(name, cache)}"
        raise OSError(msg) from error
    numbers = _parse(name, content, url, verify)
    old, path = find_file(cache, name), cache / name
    write_file(path, content)
    if old is not None and old != path:
        old.unlink(missing_ok=True)  # a bad file, which would be found before the new one
    return numbers._replace(path=path)


def _url(name: str) -> str:
    known = LIBSVM_SETS[name]
    return f"{LIBSVM_URL}/{_FOLDERS[known.task]}/{known.published_as or name}"


def _by_hand(name: str, cache: Path) -> str:
    """Say how to do without a download."""
    return (
        f"To load it without a download, get {_url(name)} on another machine and save it as "
        f"{name} (or compressed, as {name}.xz, {name}.bz2 or {name}.gz) in {cache}, or in a "
        "folder that the environment variable ONEFIT_DATA or the argument data_home names."
    )


def _parse(name: str, content: bytes, source: Path | str, verify: bool) -> _Numbers:
    """Turn the text of a file into numbers, and check them."""
    known = LIBSVM_SETS[name]
    try:
        X, y = load_svmlight_file(
            io.BytesIO(content), n_features=known.n_features, zero_based=False
        )
        X.check_format(full_check=True)  # an index 0 in the file is -1 here
    except (ValueError, OverflowError) as error:
        msg = (
            f"{source} is not a file of {name!r} ({error}): expected lines "
            f"'label index:value ...' with indices from 1 to {known.n_features}. Replace or "
            "remove it."
        )
        raise ValueError(msg) from error
    X.eliminate_zeros()
    if verify:
        _check_content(name, X, y, source)
    elif known.task == "classification" and not np.isin(y, (-1, 1)).all():
        other = y[~np.isin(y, (-1, 1))][0]
        msg = f"{source} has the label {other}: expected -1 and +1 only. Recode its labels."
        raise ValueError(msg)
    return _Numbers(X, y, Path(source))


def _check_content(name: str, X: Any, y: NDArray[np.float64], source: Path | str) -> None:
    known, found = LIBSVM_SETS[name], content_checksum(X, y)
    if found != known.checksum:
        msg = (
            f"{source} has other content than the known {name!r}: {X.shape[0]} rows with "
            f"checksum {found}, expected {known.n_rows} rows with checksum {known.checksum}. "
            "Replace it, or pass verify_checksum=False to accept it."
        )
        raise ValueError(msg)


def _as_bunch(name: str, numbers: _Numbers) -> Bunch:
    known: LibsvmSet = LIBSVM_SETS[name]
    X, y, path = numbers
    n_rows, n_features = X.shape
    classes = known.task == "classification"
    return Bunch(
        data=X.toarray() if X.nnz > DENSE_ABOVE * n_rows * n_features else X,
        target=(y > 0).astype(np.int64) if classes else y,
        target_names=np.array(["-1", "+1"]) if classes else None,
        task=known.task,
        feature_names=[f"x{i}" for i in range(1, n_features + 1)],
        filename=str(path),
        DESCR=_describe(name),
    )


def _describe(name: str) -> str:
    known = LIBSVM_SETS[name]
    return (
        f"{name}\n{'-' * len(name)}\n\n{known.about}\n\n"
        f":Number of rows: {known.n_rows}\n"
        f":Number of features: {known.n_features}\n"
        f":Task: {known.task}\n"
        f":Source: {_url(name)}\n\n"
        "Of the LIBSVM collection: C.-C. Chang and C.-J. Lin (2011), LIBSVM: A library for\n"
        "support vector machines, ACM TIST 2(3), 27:1-27:27.\n"
    )
