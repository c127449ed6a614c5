"""Fuzz the file readers with atheris (``pip install atheris``), guided by coverage.

    python benchmarks/fuzz.py --minutes 10 --seed 1

Mutates sound files of every kind (``tests/fuzz_readers.py``). A violation is noted, once for each
message, and the run goes on. Executions, kinds and violations go to benchmarks/results/fuzz.json.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import tempfile
import time
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
with atheris.instrument_imports(include=["onefit"]):
    import fuzz_readers

from common import save

_SAVE_EVERY = 30.0
KINDS = sorted(fuzz_readers.SEEDS)


class Run:
    """Counts what is executed, and keeps what is found."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.start = self.saved = time.time()
        self.executions: collections.Counter[str] = collections.Counter()
        self.found: dict[str, str] = {}

    def one(self, data: bytes) -> None:
        """The first byte says which reader; the rest is the file."""
        if not data:
            return
        kind = KINDS[data[0] % len(KINDS)]
        self.executions[kind] += 1
        try:
            fuzz_readers.check(kind, data[1:])
        except fuzz_readers.Violation as violation:
            key = re.sub(r"/[a-z]+/[^/ ]*/|[0-9]{2,}", "#", f"{kind}: {violation}")[:300]
            if key not in self.found:
                print("VIOLATION", key, flush=True)
            self.found.setdefault(key, data[1:].hex()[:4000])
        if time.time() - self.saved > _SAVE_EVERY:
            self.record()

    def record(self) -> None:
        """Write what is known so far: libFuzzer never returns."""
        self.saved = time.time()
        save(
            self.options.name,
            {
                "date": time.strftime("%Y-%m-%d", time.gmtime(self.start)),
                "seed": self.options.seed,
                "seconds": round(self.saved - self.start),
                "executions": self.executions.total(),
                "executions_by_kind": dict(sorted(self.executions.items())),
                "violations": self.found,
            },
        )


def main() -> None:
    """Fill a corpus with the sound files, and start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="fuzz")
    options = parser.parse_args()
    corpus = Path(tempfile.mkdtemp(prefix="onefit-fuzz-"))
    for i, kind in enumerate(KINDS):
        (corpus / kind).write_bytes(bytes([i]) + fuzz_readers.SEEDS[kind]())
    # A little longer, so that the last record is later than asked for.
    seconds = int(60 * options.minutes + 2 * _SAVE_EVERY)
    limits = ["-max_len=12000", "-len_control=0", "-rss_limit_mb=3000", "-timeout=60"]
    words = [sys.argv[0], f"-max_total_time={seconds}", f"-seed={options.seed}", *limits]
    atheris.Setup([*words, f"-artifact_prefix={corpus}/", str(corpus)], Run(options).one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
