"""Results on disk as they are made: an append-only log that survives being killed at any moment.

Every line stands between two line feeds of its own. One names the search by a hash of data and
settings; every other is one finished group, behind a checksum of that hash and the group. Lines
that are cut short, damaged or of another search are recognised and left out, so that exactly what
they held is computed again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from onefit._files import check_regular
from onefit.blocks import RowBlocks

if sys.platform != "win32":
    import fcntl

__all__ = ["Checkpoint", "fingerprint"]

_MAGIC = "onefit-search-2"


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
                if sys.platform != "win32":  # there, one process at a time
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
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
        record: dict[str, Any] = json.loads(payload)
        return record


def fingerprint(parts: Iterable[Any]) -> str:
    """SHA-256 over arrays, sparse matrices and plain values, in order."""
    return _fingerprint(*parts)


def _fingerprint(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        _update(digest, part)
    return digest.hexdigest()


def _update(digest: Any, part: Any) -> None:
    if sp.issparse(part):
        csr = sp.csr_array(cast(Any, part))
        for array in (np.asarray(csr.shape), csr.indptr, csr.indices, csr.data):
            _update(digest, array)
    elif isinstance(part, np.ndarray) and part.dtype != object:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(part, RowBlocks):
        _update(digest, part.each(_fingerprint))
    elif isinstance(part, Mapping):
        for key in sorted(part, key=str):
            _update(digest, str(key))
            _update(digest, part[key])
    elif isinstance(part, list | tuple):
        digest.update(f"[{len(part)}".encode())
        for item in part:
            _update(digest, item)
    elif isinstance(part, np.random.RandomState):
        _update(digest, list(part.get_state(legacy=True)))
    elif isinstance(part, functools.partial):
        _update(digest, [part.func, part.args, part.keywords])
    elif callable(part) and hasattr(part, "__qualname__"):
        digest.update(f"{part.__module__}.{part.__qualname__}".encode())
        _update_code(digest, part)
    else:
        digest.update(repr(part).encode("utf-8"))


def _update_code(digest: Any, function: Any) -> None:
    """What a function does, not only its name: two lambdas have the same."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    digest.update(code.co_code)
    for constant in code.co_consts:
        digest.update(constant.co_code if hasattr(constant, "co_code") else repr(constant).encode())
    _update(digest, [code.co_names, function.__defaults__, function.__kwdefaults__])
    _update(digest, [cell.cell_contents for cell in function.__closure__ or ()])
