"""Child processes that start in milliseconds: forked from a server that has imported the package.

A process of the tests may have used threads of BLAS and OpenMP, and must not be forked itself.
"""

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

FOLDERS = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # tests, experiments
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["test_faults", "test_load", "onefit.cli.select", "experiments.run"])


def start(function, *arguments):
    """Run a function of a test module in a child process."""
    paths = os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with mock.patch.dict(os.environ, PYTHONPATH=paths, **single):
        forkserver.ensure_running()
    process = CONTEXT.Process(target=_quietly, args=(function, arguments))
    process.start()
    return process


def _quietly(function, arguments):
    with open(os.devnull, "w") as sys.stdout:
        # A job in the background of a shell ignores interrupts, and so would its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        function(*arguments)


def seconds_of(function, *arguments):
    """How long a child takes that nobody disturbs."""
    began = time.perf_counter()
    process = start(function, *arguments)
    process.join()
    assert process.exitcode == 0
    return time.perf_counter() - began


def killed_after(delay, function, *arguments):
    """Whether a child was still at work when it got SIGKILL."""
    process = start(function, *arguments)
    time.sleep(delay)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def die(*_, **__):
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)
