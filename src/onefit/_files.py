"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["is_special", "write_aside"]


def is_special(path: Path) -> bool:
    """Whether a path is a device, pipe or socket, which cannot be replaced by a file."""
    return path.exists() and not (path.is_file() or path.is_dir())


@contextmanager
def write_aside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the name ``path`` when the block succeeds.

    When the block fails, what was written goes, and a file that had the name before stays as it
    was. A link is replaced, and what it points to stays; a device or a pipe is refused.
    """
    wanted = Path(path)
    if is_special(wanted):
        raise OSError(f"{wanted}: is a device or a pipe; expected the name of a file to write.")
    descriptor, name = tempfile.mkstemp(dir=wanted.parent, prefix=f".{wanted.name[:40]}.")
    os.close(descriptor)
    aside = Path(name)
    try:
        yield aside
        aside.chmod(_mode_for(wanted))
        _flush_to_disk(aside)
        aside.replace(wanted)
    finally:
        aside.unlink(missing_ok=True)


def _mode_for(path: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file would have."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
