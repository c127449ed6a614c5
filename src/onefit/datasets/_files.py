"""Files of data sets: found in a folder, read within a limit, downloaded, written in one step."""

from __future__ import annotations

import bz2
import gzip
import lzma
import time
import zlib
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from onefit._files import write_aside

MAX_BYTES = 64 * 2**20
"""Files larger than this, after expansion, are refused: a small archive can hide gigabytes."""

TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""

_OPENERS: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open, "": open}


def find_file(folder: Path, name: str) -> Path | None:
    """Find ``name.xz``, ``name.bz2``, ``name.gz`` or ``name`` in a folder, in this order."""
    candidates = (folder / f"{name}{suffix}" for suffix in _OPENERS)
    return next((path for path in candidates if path.is_file()), None)


def read_file(path: Path) -> bytes:
    """Read a file, expanded if its name says that it is compressed.

    Raises
    ------
    ValueError
        If the file is damaged, or too large.
    """
    suffix = path.suffix if path.suffix in _OPENERS else ""
    try:
        with _OPENERS[suffix](path, "rb") as stream:
            return _read_limited(stream, str(path))
    except PermissionError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        kind = f"a complete {suffix} file" if suffix else "a readable file"
        msg = f"{path} cannot be read ({error}): expected {kind}. Replace or remove it."
        raise ValueError(msg) from error


def download(url: str, *, n_retries: int, delay: float) -> bytes:
    """Download a file into memory; after a failure wait, and try ``n_retries`` times more.

    Raises
    ------
    ValueError
        If the file is too large.
    OSError
        If the last attempt failed too.
    """
    if n_retries < 0 or delay < 0:
        msg = f"n_retries={n_retries}, delay={delay}: expected numbers from 0 on. Pass such."
        raise ValueError(msg)
    for attempt in range(n_retries + 1):
        if attempt:
            time.sleep(delay)
        try:
            return _download_once(url)
        except (OSError, HTTPException) as error:
            failure = error
    msg = f"{url} could not be downloaded in {n_retries + 1} attempts ({failure})."
    raise OSError(msg) from failure


def write_file(path: Path, content: bytes) -> None:
    """Write a file in one step: it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_aside(path) as aside:
        aside.write_bytes(content)


class _HttpsRedirects(HTTPRedirectHandler):
    """Redirects are followed to https addresses only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.startswith("https://"):
            fp.close()
            reason = f"it redirects to {newurl}, expected an https address"
            raise URLError(reason)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download_once(url: str) -> bytes:
    try:
        with build_opener(_HttpsRedirects).open(url, timeout=TIMEOUT) as response:
            content = _read_limited(response, url)
            announced = response.headers.get("Content-Length")
    except HTTPError as error:
        error.close()  # it holds the connection
        raise
    if announced is not None and int(announced) != len(content):
        msg = f"{len(content)} bytes came, expected {announced}"
        raise OSError(msg)
    return content


def _read_limited(stream: IO[bytes], source: str) -> bytes:
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        msg = (
            f"{source} holds more than {MAX_BYTES} bytes: expected fewer for a data set of this "
            "collection. It is not what its name says: replace or remove it."
        )
        raise ValueError(msg)
    return content
