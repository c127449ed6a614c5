"""The command as a process of its own, and a small grid for it."""

import os
import subprocess
import sys
from pathlib import Path

import onefit

GRID = {
    "kernel_width": [5.0, 50.0],
    "ambient_penalty": [1e-4, 1e-2],
    "manifold_penalty": [0.0, 1.0],
}


COMMAND = [sys.executable, "-m", "onefit"]
#: The package under test, wherever the process runs.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(onefit.__file__).parents[1])}


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        timeout=100,
        check=False,
        env=ENVIRONMENT,
        **options,
    )
