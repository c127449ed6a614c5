"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["check_regular", "is_special", "lock", "locked", "write_aside"]


def is_special(path: Path) -> bool:
    """Whether a path is a device, pipe or socket, which cannot be replaced by a file."""
    return path.exists() and not (path.is_file() or path.is_dir())


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse a name that a folder, a device or a pipe has: a file would take its place."""
    if is_special(Path(path)) or Path(path).is_dir():
        what = "a folder" if Path(path).is_dir() else "a device or a pipe"
        raise ValueError(f"{os.fspath(path)}: is {what}; expected the name of a file to write.")


def lock(descriptor: int) -> None:
    """Wait until no other process has the lock of a file; it goes when the file is closed."""
    if sys.platform != "win32":  # there, one process at a time
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """A block that one process at a time can be in: for files that are read and then replaced."""
    if sys.platform == "win32":  # there, folders cannot be opened
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def write_aside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the name ``path`` when the block succeeds.

    When the block fails, what was written goes, and a file that had the name before stays as it
    was. Its permissions are kept; a new file has the usual ones. A link is replaced, and what it
    points to stays; a device or a pipe is refused.
    """
    check_regular(path)
    wanted = Path(path)
    mode = stat.S_IMODE(wanted.stat().st_mode) if wanted.exists() else None
    aside = wanted.with_name(f".{wanted.name[:40]}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    os.close(os.open(aside, flags, 0o666 if mode is None else mode))
    try:
        yield aside
        if mode is not None:
            aside.chmod(mode)
        _flush_to_disk(aside)
        aside.replace(wanted)
    finally:
        aside.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
