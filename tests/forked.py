"""Child processes that start in milliseconds: forked from a server that has imported the package.

A process of the tests may have used threads of BLAS and OpenMP, and must not be forked itself.
"""

import itertools
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

FOLDERS = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # tests, experiments
KILLS = 50
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


def kill_fifty_times(rng, run, part_done, check):
    """Runs that are killed up to eight times and then finish, until there were 50 kills.

    ``run(name)`` gives a function with its arguments, ``part_done(name)`` says whether it left
    something to go on with, ``check(name)`` compares what it ended with. A good part of the kills
    must strike between the first result and the last.
    """
    kills, useful = 0, 0
    for life in itertools.count():
        seconds = seconds_of(*run(f"whole {life}"))  # every time: a machine may become busy
        for delay in rng.uniform(0.0, 0.95 * seconds, 8):
            if kills == KILLS or not killed_after(delay, *run(f"{life}")):
                break
            kills += 1
            useful += part_done(f"{life}")
        seconds_of(*run(f"{life}"))
        check(f"{life}")
        if kills == KILLS:
            break
    # The times are those of another run: on a busy machine many kills strike too early.
    assert useful >= KILLS // 10


def wait_for(condition, seconds=200.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def group_is_alive(group):
    """Whether a process of the group runs; the dead count only while nobody can tell them apart."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    processes = list(Path("/proc").glob("[0-9]*"))
    return not processes or any(is_running(one, group) for one in processes)


def is_running(process, group=None):
    """Whether a folder below /proc is that of a process that runs (in this group)."""
    try:
        state, _, its_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return group in (None, int(its_group)) and state != "Z"
