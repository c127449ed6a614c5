"""Many at once, many in a row, and Ctrl-C: same results, no growth, nobody left behind."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import onefit.cli.outputs
import onefit.cli.select
import onefit.report
import onefit.search.jobs as jobs_module
import onefit.search.search as search_module
from command import COMMAND, ENVIRONMENT
from forked import group_is_alive, start, wait_for
from onefit import LapLogisticRegression, LapRLSClassifier, LapSVC, ManifoldSearchCV, _interrupts
from onefit._threads import blas_threads
from onefit.cli import main
from test_faults import GRID, N_GROUPS, moons, n_groups, outcome, the_search

AT_ONCE = 8
MEGABYTE = 2**20


# At once.


def outcome_of(i):
    """One of eight searches: other penalties and, in turn, other models, criteria and holdouts."""
    turns = [
        {"estimator": LapRLSClassifier()},
        {"estimator": LapSVC(), "criterion": "certified"},
        {"estimator": LapLogisticRegression(), "criterion": "newton"},
        {"estimator": LapRLSClassifier(n_components=20, random_state=0), "holdout": "points"},
    ]
    widths = GRID["kernel_width"][i % 3 : i % 3 + 4]
    grid = {**GRID, "kernel_width": widths, "ambient_penalty": [10.0 ** (-2 - i), 0.1]}
    search = the_search().set_params(param_grid=grid, **turns[i % 4])
    return outcome(search.fit(*moons()))


@pytest.fixture(scope="module")
def one_by_one():
    return [outcome_of(i) for i in range(AT_ONCE)]


def test_searches_in_threads(one_by_one):
    assert len(set(one_by_one)) == AT_ONCE
    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert list(pool.map(outcome_of, range(AT_ONCE))) == one_by_one


def write_outcome(i, path):
    path.write_bytes(outcome_of(i))


def test_searches_in_processes(one_by_one, tmp_path):
    paths = [tmp_path / str(i) for i in range(AT_ONCE)]
    processes = [start(write_outcome, i, path) for i, path in enumerate(paths)]
    for process in processes:
        process.join()
    assert [path.read_bytes() for path in paths] == one_by_one


def threads_now():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_threads_of_blas_are_given_back():
    """Two threads whose limits overlap: the one that ends last must not keep its own for all."""
    with threadpool_limits(2, user_api="blas"):
        one, other = blas_threads(1), blas_threads(1)
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert threads_now() == {1}
        other.__exit__(None, None, None)
        assert threads_now() == {2}
        with blas_threads(2), blas_threads(1):
            assert threads_now() == {1}
            with blas_threads(None):
                assert threads_now() == {1}
        assert threads_now() == {2}


INTERRUPTED = """
import contextlib, signal
import numpy as np
from threadpoolctl import threadpool_limits
from onefit._threads import blas_threads, threads_of_libraries, _is_blas

def interrupt(signum, frame):
    raise KeyboardInterrupt

def now():
    return {n for n, is_blas in zip(threads_of_libraries(), _is_blas(), strict=True) if is_blas}

now()  # threadpoolctl looks for libraries once, and would drop an interrupt
signal.signal(signal.SIGALRM, interrupt)
rng = np.random.default_rng(0)
with threadpool_limits(2, user_api="blas"):
    for _ in range(500):
        with contextlib.suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(2e-5, 3e-4))
            # Not for ever: Python drops an interrupt that falls into the end of a generator.
            for _ in range(2000):
                with blas_threads(1):
                    pass
            signal.setitimer(signal.ITIMER_REAL, 0)
        with blas_threads(1):
            assert now() == {1}, now()
        assert now() == {2}, now()
"""


def test_threads_of_blas_after_interrupts():
    """Wherever an interrupt falls, the next limit holds and is given back."""
    # In a process of its own: interrupts would fall into the locks of coverage, too.
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=60)


# In a row.


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fit_again_and_again(path):
    """Memory before and after 200 fits and 20 searches: of the process, and of Python objects."""
    X, y = moons()

    def work(n):
        for i in range(n):
            model = (LapRLSClassifier, LapSVC)[i % 2](kernel_width=0.5)
            model.fit(X, y).predict(X)
            if i % 10 == 0:
                grid = {"ambient_penalty": [1e-3, 1e-1], "kernel_width": [0.1, 1.0]}
                ManifoldSearchCV(LapRLSClassifier(), grid, cv=4).fit(X, y)

    work(40)
    before = resident_bytes()
    work(200)
    grown = resident_bytes() - before
    tracemalloc.start()
    work(10)
    traced = tracemalloc.get_traced_memory()[0]
    work(40)
    path.write_text(json.dumps([grown, tracemalloc.get_traced_memory()[0] - traced]))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow(tmp_path):
    process = start(fit_again_and_again, tmp_path / "grown")
    process.join()
    resident, objects = json.loads((tmp_path / "grown").read_text())
    # A kernel matrix of these rows has 80 kB: one that is kept at every fit would be 16 MB.
    assert resident < 4 * MEGABYTE
    assert objects < 0.1 * MEGABYTE


# Ctrl-C.


def announce(module, name, mark):
    """Let a function say that it was called, and then go on until somebody interrupts."""
    original = getattr(module, name)

    def announcing(*arguments, **options):
        mark.touch()
        while True:
            original(*arguments, **options)

    setattr(module, name, announcing)


#: Where a command spends its time.
PHASES = {
    "reading": (onefit.cli.select, "read_table"),
    "preparing": (onefit.cli.select, "prepare"),
    "distances": (jobs_module, "geometry_of"),
    "search": (search_module, "evaluate_group"),
    "refit": (LapRLSClassifier, "fit"),
    "report": (onefit.report, "render_report"),
    "model": (onefit.cli.outputs, "write_model"),
}


WORDS = ["select", "data.csv", "--target", "y", "--grid", "grid.json", "--quiet"]
WORDS += ["--out", "m.skops", "--report", "r.html", "--checkpoint", "kept"]


def interruptible(folder, phase):
    os.setsid()  # a group of its own, as in a terminal
    os.chdir(folder)
    announce(*PHASES[phase], folder / "mark")
    raise SystemExit(main(WORDS))


def write_table(folder, n_rows):
    rng = np.random.default_rng(0)
    lines = ["a,b,y"]
    for i, (a, b) in enumerate(rng.normal(size=(n_rows, 2))):
        lines.append(f"{a},{b},{('u' if a > 0 else 'v') if i % 4 == 0 else ''}")
    (folder / "data.csv").write_text("\n".join(lines))
    (folder / "grid.json").write_text(json.dumps(GRID))


def interrupt(process, send=os.kill):
    """Seconds until a process and all that it started have gone.

    Python drops an interrupt that comes within the callback of a weak reference, of which imports
    have many: after ten seconds it is sent again, as a person would.
    """
    began = time.monotonic()
    is_command = isinstance(process, subprocess.Popen)
    for _ in range(3):
        send(process.pid, signal.SIGINT)
        deadline = time.monotonic() + 10
        while process.poll() is None if is_command else process.is_alive():
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        else:
            break
    wait_for(lambda: not group_is_alive(process.pid), 30)
    return time.monotonic() - began


def soonest(attempt, folder):
    """Seconds of an attempt, taken again if it needs two: the machine may have been away."""
    seconds = []
    while len(seconds) < 5 and min(seconds, default=2.0) >= 2.0:
        place = folder / str(len(seconds))
        place.mkdir()
        seconds.append(attempt(place))
    return min(seconds)


@pytest.mark.parametrize("phase", PHASES)
def test_interrupts_in_every_phase(phase, tmp_path):
    def attempt(folder):
        write_table(folder, 120)
        process = start(interruptible, folder, phase)
        wait_for((folder / "mark").exists)
        time.sleep(0.2)
        seconds = interrupt(process)
        assert process.exitcode == 130
        assert set(os.listdir(folder)) <= {"data.csv", "grid.json", "mark", "kept"}
        return seconds

    assert soonest(attempt, tmp_path) < 2.0


def hear_interrupts():
    """A job in the background of a shell ignores interrupts, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupts_while_it_is_imported(tmp_path):
    """From the first line of the command on: scikit-learn and pandas take a second or two."""
    # So many rows that no process is near its end, where Python is silent, if it gets faster.
    write_table(tmp_path, 6000)
    began = time.monotonic()
    modules = "import onefit.cli.select, onefit.report, skops.io"
    subprocess.run([COMMAND[0], "-c", modules], env=ENVIRONMENT, check=True)
    longest = time.monotonic() - began
    program = "import onefit.__main__ as it, sys; assert 'numpy' not in sys.modules; "
    program += "print(flush=True); sys.exit(it.main())"
    twelfths = np.arange(12)
    for delay in longest * np.random.default_rng(0).uniform(twelfths, twelfths + 1) / 12:
        process = subprocess.Popen(
            [COMMAND[0], "-c", program, *WORDS],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=hear_interrupts,
        )
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        # Python itself ends with the signal if it came within exec("..."); shells say 130 then.
        assert process.returncode in (130, -signal.SIGINT)
        assert said.startswith(b"onefit: interrupted")
        assert said.count(b"\n") == 1
        assert set(os.listdir(tmp_path)) <= {"data.csv", "grid.json", "kept"}


def test_interrupts_that_others_rename(tmp_path, monkeypatch, capsys):
    """A module written in C that is interrupted while it starts gives an ImportError."""

    def rename(*_, **__):
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(onefit.cli.select, "read_table", rename)
    write_table(tmp_path, 20)
    assert main(WORDS) == 130
    assert capsys.readouterr().err.startswith("onefit: interrupted")


#: Reduce 3,500 rows by LAPACK, which takes some seconds: a tenth of a second is too little to end.
IN_LAPACK = """
import sys
from onefit import _lapack
from onefit.cli import main

call = _lapack._call

def announcing(name, *arguments):
    if name == "dsytrd":
        print(flush=True)
    call(name, *arguments)

_lapack._call = announcing
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_interrupts_within_lapack(threads, tmp_path):
    """The call goes on without us; the process ends at once all the same, without a crash."""

    def attempt(folder):
        write_table(folder, 3500)
        # Narrow, because a wide kernel of these rows has a low rank.
        (folder / "grid.json").write_text(json.dumps({"kernel_width": [1e-4]}))
        process = subprocess.Popen(
            [COMMAND[0], "-c", IN_LAPACK, *WORDS, "--components", "exact"],
            cwd=folder,
            env={**ENVIRONMENT, "OPENBLAS_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
        process.stdout.readline()
        time.sleep(0.1)
        seconds = interrupt(process)
        said = process.communicate()[1]
        assert process.returncode == 130
        assert said.startswith(b"onefit: interrupted")
        assert said.count(b"\n") == 1
        assert set(os.listdir(folder)) <= {"data.csv", "grid.json", "kept"}
        return seconds

    assert soonest(attempt, tmp_path) < 2.0


def hang_in_long_call(folder, which):
    """All calls are long, and one of them never ends."""
    calls = itertools.count()

    def hang(_):
        if next(calls) == which:
            (folder / "mark").touch()
            time.sleep(600)

    _interrupts._LONG = 0
    _interrupts.set_threads = hang
    os.setsid()
    os.chdir(folder)
    raise SystemExit(main([*WORDS, "--components", "exact"]))


@pytest.mark.parametrize("which", [0, 1, 2, 3, 4, 5, 6, 10, 100, 1000, 4000])
def test_interrupts_in_any_long_call(which, tmp_path):
    """Of distances, factorisations, held-out decisions: the command has some 5,000 of them here."""

    def attempt(folder):
        write_table(folder, 120)
        process = start(hang_in_long_call, folder, which)
        wait_for((folder / "mark").exists)
        seconds = interrupt(process)
        assert process.exitcode == 130
        return seconds

    assert soonest(attempt, tmp_path) < 2.0


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_interrupts_with_workers(send, tmp_path):
    """By a signal to the command alone, or to its workers too, as a terminal does."""
    grid = {**GRID, "ambient_penalty": np.logspace(-6, 2, 60).tolist()}

    def attempt(folder):
        write_table(folder, 400)
        (folder / "grid.json").write_text(json.dumps(grid))
        process = subprocess.Popen(
            [*COMMAND, *WORDS, "--jobs", "2"],
            cwd=folder,
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
        wait_for(lambda: n_groups(folder / "kept") > 0)
        seconds = interrupt(process, send)
        said = process.communicate()[1]
        assert process.returncode == 130
        assert b"run the same command to go on" in said
        assert said.count(b"\n") == 1
        assert n_groups(folder / "kept") < N_GROUPS
        assert set(os.listdir(folder)) == {"data.csv", "grid.json", "kept"}
        return seconds

    assert soonest(attempt, tmp_path) < 2.0
