"""Results on disk as they are made: an append-only log that survives being killed at any moment.

The first line names the search by a hash of data and settings. Every other line is one finished
group, behind a checksum; lines that are cut short or damaged are recognised and left out, so that
exactly what they held is computed again.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

__all__ = ["Checkpoint", "fingerprint"]

_MAGIC = "onefit-search-1"


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
        header = f"{_MAGIC} {self.identity}"
        if not self.path.exists() or self.path.stat().st_size == 0:
            self._append(header)
            return
        with self.path.open("rb") as file:
            first = file.readline(1000).decode("utf-8", errors="replace").rstrip("\n")
        if first != header:
            found = first if first.startswith(_MAGIC) else "something else"
            raise ValueError(
                f"checkpoint={str(self.path)!r} holds another search ({found[:40]}...); expected "
                f"one for these data and settings ({header[:40]}...). Use another path, or remove "
                "the file to start again."
            )

    def finished(self) -> dict[str, Any]:
        """Groups on disk by key."""
        groups = {}
        with self.path.open("rb") as file:
            next(file, None)
            for line in file:
                record = _verified(line)
                if record is not None:
                    groups[record["key"]] = record["value"]
        return groups

    def add(self, key: str, value: Any) -> None:
        """Append one finished group; it is on disk when this returns."""
        payload = json.dumps({"key": key, "value": value}, separators=(",", ":"))
        self._append(f"{_checksum(payload)} {payload}")

    def _append(self, line: str) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            # A killed writer may have left half a line: never glue ours to it.
            broken = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            data = (("\n" if broken else "") + line + "\n").encode("utf-8")
            written = os.write(descriptor, data)
            if written != len(data):
                raise OSError(
                    f"checkpoint {self.path}: only {written} of {len(data)} bytes written"
                )
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _checksum(payload: str) -> str:
    return hashlib.sha256(payload.encode("utf-8")).hexdigest()[:16]


def _verified(line: bytes) -> dict[str, Any] | None:
    try:
        checksum, payload = line.decode("utf-8").rstrip("\n").split(" ", 1)
    except ValueError:
        return None
    if checksum != _checksum(payload):
        return None
    record: dict[str, Any] = json.loads(payload)
    return record


def fingerprint(parts: Iterable[Any]) -> str:
    """SHA-256 over arrays, sparse matrices and plain values, in order."""
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
