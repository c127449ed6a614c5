"""Results on disk as they are made: an append-only log that survives being killed at any moment.

Every line stands between two line feeds of its own. One names the search by a hash of data and
settings; every other is one finished group, behind a checksum of that hash and the group. Lines
that are cut short, damaged or of another search are recognised and left out, so that exactly what
they held is computed again.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from onefit._files import check_regular, lock
from onefit.blocks import RowBlocks

__all__ = ["Checkpoint", "fingerprint"]

_MAGIC = "onefit-search-3"
_PLAIN = (bool, int, float, complex, str, bytes)


class Checkpoint:
    """Finished groups of one search.

    Parameters
    ----------
    path : path-like
        File; created when it does not exist.
    identity : str
        :func:`fingerprint` of the search.
    """

    def __init__(self, path: str | os.PathLike[str], identity: str) -> None:
        self.path = Path(path)
        self.identity = identity
        self._check_or_create()

    def _check_or_create(self) -> None:
        check_regular(self.path)
        header = f"{_MAGIC} {self.identity}"
        content = self.path.read_bytes() if self.path.exists() else b""
        if f"\n{header}\n".encode().startswith(content):
            self._append(header)
            return
        # A damaged header does no harm where a group is there that belongs to this search.
        lines = content.split(b"\n")
        if header.encode() not in lines and not self.finished():
            found = next((line for line in lines if line.startswith(_MAGIC.encode())), b"")
            name = found.decode(errors="replace") or "something else"
            raise ValueError(
                f"checkpoint={str(self.path)!r} holds another search ({name[:40]}...); expected "
                f"one for these data and settings ({header[:40]}...). Use another path, or remove "
                "the file to start again."
            )

    def finished(self) -> dict[str, Any]:
        """Groups on disk by key."""
        with self.path.open("rb") as file:
            records = [self._verified(line) for line in file]
        return {record["key"]: record["value"] for record in records if record is not None}

    def add(self, key: str, value: Any) -> None:
        """Append one finished group; it is on disk when this returns."""
        payload = json.dumps({"key": key, "value": value}, separators=(",", ":"))
        self._append(f"{self._checksum(payload)} {payload}")

    def _append(self, line: str) -> None:
        # The first line feed ends what a killed writer may have left: ours is never glued to it.
        data = f"\n{line}\n".encode()
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                lock(descriptor)
                while data:
                    data = data[os.write(descriptor, data) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise OSError(
                error.errno,
                f"checkpoint {str(self.path)!r} cannot be written ({error.strerror}). What it "
                "holds is good: make room, or mend the path, then run the same search again",
            ) from error

    def _checksum(self, payload: str) -> str:
        return hashlib.sha256(f"{self.identity} {payload}".encode()).hexdigest()[:16]

    def _verified(self, line: bytes) -> dict[str, Any] | None:
        """The record of a line; None where it is damaged, or not of this search."""
        try:
            checksum, payload = line.decode().rstrip("\n").split(" ", 1)
        except ValueError:
            return None
        if checksum != self._checksum(payload):
            return None
        try:
            record = json.loads(payload)
        except (ValueError, RecursionError):  # nothing of ours, though the sum is right
            return None
        is_ours = isinstance(record, dict) and isinstance(record.get("key"), str)
        return record if is_ours and "value" in record else None


def fingerprint(parts: Iterable[Any]) -> str:
    """SHA-256 over arrays, sparse matrices, values, functions and objects, in order.

    Functions count by what they do, objects by class and state, neither by where they are in
    memory. What the functions call is not looked at.
    """
    return _fingerprint(*parts)


def _fingerprint(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        _update(digest, part, ())
    return digest.hexdigest()


def _update(digest: Any, part: Any, within: tuple[int, ...]) -> None:
    """Add one part, which is held by those whose ids are given."""
    if part is None or type(part) in _PLAIN or isinstance(part, np.generic):
        text = repr(part).encode("utf-8")
        digest.update(b"%d:%b" % (len(text), text))
    elif isinstance(part, np.ndarray) and not part.dtype.hasobject:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    elif id(part) in within:
        digest.update(f"^{within[::-1].index(id(part))}".encode())
    else:
        kind, items = _opened(part)
        digest.update(f"{kind}{len(items)}".encode())
        for item in items:
            _update(digest, item, (*within, id(part)))


def _opened(part: Any) -> tuple[str, Sequence[Any]]:
    """What a part is, and what it holds."""
    if sp.issparse(part):
        csr = sp.csr_array(cast(Any, part))
        return "sparse", [np.asarray(csr.shape), csr.indptr, csr.indices, csr.data]
    if isinstance(part, np.ndarray):
        return "array", [part.dtype.str, part.shape, part.ravel().tolist()]
    if isinstance(part, RowBlocks):
        return "blocks", part.each(_fingerprint)
    if isinstance(part, Mapping):
        return "{", [pair for key in sorted(part, key=str) for pair in (key, part[key])]
    if isinstance(part, list | tuple):
        return "[", part
    if isinstance(part, set | frozenset):
        return "set", sorted(map(_fingerprint, part))
    if isinstance(part, np.random.RandomState):
        return "state", list(part.get_state(legacy=True))
    if isinstance(part, functools.partial):
        return "partial", [part.func, part.args, part.keywords]
    if isinstance(part, CodeType):
        return "code", [part.co_code, part.co_consts, part.co_names, part.co_varnames]
    if isinstance(part, type):
        return "class", [part.__module__, part.__qualname__]
    if isinstance(part, ModuleType):
        return "module", [part.__name__]
    if callable(part) and hasattr(part, "__qualname__"):
        return "function", _function_state(part)
    return "object", _object_state(part)


def _function_state(function: Any) -> list[Any]:
    """What a function does, not only its name: two lambdas have the same."""
    names = ("__module__", "__qualname__", "__code__", "__defaults__", "__kwdefaults__")
    state = [getattr(function, name, None) for name in names]
    cells = getattr(function, "__closure__", None) or ()
    state.append([cell.cell_contents for cell in cells if cell != CellType()])  # not yet filled
    state.append(getattr(function, "__self__", None))
    if isinstance(function, FunctionType | MethodType):
        return [*state, vars(function)]
    return [*state, getattr(function, "__wrapped__", None)]


def _object_state(part: Any) -> list[Any]:
    """Class and state: an estimator's parameters, which are what clones keep, or as pickle asks."""
    call = getattr(type(part).__call__, "__code__", None) if callable(part) else None
    if hasattr(part, "get_params") and call is None:
        return [type(part), part.get_params(deep=False)]
    try:
        known = copyreg.dispatch_table.get(type(part))
        state = part.__reduce_ex__(4) if known is None else known(part)
    except Exception as error:
        raise TypeError(
            f"checkpoint with a {type(part).__name__} among data and settings: {part!r:.100} does "
            f"not tell its state ({error}), and another one could not be told from it. Give it "
            "__getstate__, use something else, or no checkpoint."
        ) from error
    if isinstance(state, str):
        return [type(part), state]
    items = [list(one) if isinstance(one, Iterator) else one for one in state]
    return [type(part), call, items]
