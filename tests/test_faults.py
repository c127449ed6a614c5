"""Nothing is lost: processes are killed, files damaged, disks full, and results stay the same."""

import contextlib
import errno
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.datasets import make_moons

import onefit.search.checkpoint as checkpoint_module
import onefit.search.search as search_module
from forked import die, is_running, kill_fifty_times, seconds_of, start, wait_for
from onefit import LapRLSClassifier, ManifoldSearchCV, SemiSupervisedKFold
from onefit._files import write_aside
from onefit.cli import main
from onefit.search.checkpoint import Checkpoint

GRID = {
    "kernel_width": [2.0**i for i in range(-4, 4)],
    "n_neighbors": [4, 8],
    "ambient_penalty": [1e-4, 1e-2],
    "manifold_penalty": [0.0, 1.0],
}
N_GROUPS = 16


def moons():
    X, truth = make_moons(100, noise=0.2, random_state=0)
    return X, np.where(np.arange(100) % 4 == 0, truth, -1)


def the_search(checkpoint=None, **options):
    cv = SemiSupervisedKFold(4, shuffle=True, random_state=0)
    return ManifoldSearchCV(LapRLSClassifier(), GRID, cv=cv, checkpoint=checkpoint, **options)


def outcome(search):
    """All that a search found, as bytes: every column but the times, and the model's decisions."""
    columns = {key: value for key, value in search.cv_results_.items() if "time" not in key}
    parts = [search.decision_function(moons()[0]).tobytes(), repr(search.best_params_).encode()]
    for key, column in columns.items():
        values = np.ma.getdata(column)
        is_plain = values.dtype != object
        parts += [key.encode(), values.tobytes() if is_plain else repr(column).encode()]
    return b"\n".join(parts)


def run_search(checkpoint, result, **options):
    """A whole search; its outcome appears in one step."""
    found = outcome(the_search(checkpoint, **options).fit(*moons()))
    with write_aside(result) as aside:
        aside.write_bytes(found)


def n_groups(path):
    """Groups in a checkpoint whose lines are whole."""
    return path.read_bytes().count(b"}]}\n") if path.exists() else 0


def is_whole(path):
    """Whether a checkpoint holds nothing but headers and groups."""
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    return all(line.startswith(b"onefit-search-3 ") or line.endswith(b"}") for line in lines)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The outcome of an undisturbed search, and its checkpoint."""
    folder = tmp_path_factory.mktemp("reference")
    seconds_of(run_search, folder / "checkpoint", folder / "result")
    path, found = folder / "checkpoint", (folder / "result").read_bytes()
    assert n_groups(path) == N_GROUPS
    identity = path.read_text().split()[1]
    return Namespace(found=found, path=path, identity=identity)


@pytest.fixture
def evaluated(monkeypatch):
    """Numbers of kernel and graph pairs that were computed, call by call."""
    counts = []
    evaluate = search_module.evaluate_group

    def counting(task, geometry, group):
        counts.append(len(group.graphs))
        return evaluate(task, geometry, group)

    monkeypatch.setattr(search_module, "evaluate_group", counting)
    return counts


# Killed.


@pytest.mark.no_cover
def test_a_search_killed_at_fifty_moments(reference, tmp_path):
    def check(name):
        assert (tmp_path / f"{name}.result").read_bytes() == reference.found

    kill_fifty_times(
        np.random.default_rng(0),
        lambda name: (run_search, tmp_path / name, tmp_path / f"{name}.result"),
        lambda name: 0 < n_groups(tmp_path / name) < N_GROUPS,
        check,
    )


def kill_in_append(step, nth, checkpoint, result):
    """A search that dies in one step of the n-th write to its checkpoint."""
    original, left = getattr(os, step), nth

    def dying(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            if step == "write":
                original(arguments[0], arguments[1][: len(arguments[1]) // 2])
            die()
        return original(*arguments)

    # Other libraries close files, too: the checkpoint gets an "os" of its own.
    checkpoint_module.os = Namespace(**{**vars(os), step: dying})
    run_search(checkpoint, result)


@pytest.mark.parametrize("step", ["write", "fsync", "close"])
@pytest.mark.parametrize("nth", [1, 5])
def test_a_search_killed_while_it_writes(reference, tmp_path, step, nth, evaluated):
    checkpoint, result = tmp_path / "c", tmp_path / "result"
    process = start(kill_in_append, step, nth, checkpoint, result)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    kept = n_groups(checkpoint)
    run_search(checkpoint, result)
    assert result.read_bytes() == reference.found
    assert sum(evaluated) == N_GROUPS - kept
    assert kept == max(0, nth - 2) + (step != "write" and nth > 1)


def search_in_group(checkpoint, result):
    os.setsid()  # a group of its own, so that its workers can be told
    run_search(checkpoint, result, n_jobs=2)
    os._exit(0)  # a process of multiprocessing would wait until joblib's workers are tired


def test_a_search_with_workers_killed(reference, tmp_path):
    """At any moment: while the workers start, and when they have given something."""
    rng, kills = np.random.default_rng(2), 0
    for life in itertools.count():
        path, result = tmp_path / f"{life}", tmp_path / f"{life}.result"
        while kills < 8 and (kept := n_groups(path)) < N_GROUPS:
            process = start(search_in_group, path, result)
            if kills % 2:
                wait_for(lambda path=path, kept=kept: n_groups(path) > kept)
            time.sleep(rng.uniform(0.0, 0.05 if kills % 2 else 1.5))
            process.kill()
            process.join()
            kills += process.exitcode != 0
            # Workers that were given nothing to do yet would stay for minutes.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        seconds_of(search_in_group, path, result)
        assert result.read_bytes() == reference.found
        if kills == 8:
            break


AT_WORK = """
import os, sys, time
from pathlib import Path
from onefit.search.parallel import results_as_they_come

def work(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(1000)

list(results_as_they_come(work, [(sys.argv[1],)] * 2, 2))
"""


def test_workers_end_with_a_killed_search(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", AT_WORK, str(tmp_path)])
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    process.kill()
    process.wait()
    workers = [Path("/proc") / one.name for one in tmp_path.iterdir()]
    wait_for(lambda: not any(is_running(one) for one in workers), 30)


def test_workers_of_the_user_stay(tmp_path):
    """A search takes joblib's workers as they are, and leaves them so."""

    def meet(folder):
        """The process that this runs in, once another one is here too."""
        (folder / str(os.getpid())).touch()
        end = time.monotonic() + 60
        while len(list(folder.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return os.getpid()

    def workers(name):
        (tmp_path / name).mkdir()
        return set(Parallel(n_jobs=2, batch_size=1)([delayed(meet)(tmp_path / name)] * 2))

    before = workers("before")
    the_search(n_jobs=2).fit(*moons())
    assert workers("after") == before


# Damaged.


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A checkpoint with a header and three groups, and these."""
    path, identity = tmp_path_factory.mktemp("small") / "c", "0123456789abcdef" * 4
    store = Checkpoint(path, identity)
    for i in range(3):
        store.add(f"0-abc:{i}.0", [{"index": i, "losses": [0.1, 1e-17 * i], "scores": {}}])
    return Namespace(content=path.read_bytes(), groups=store.finished(), identity=identity)


def line_at(content, position):
    """The line that a byte is in; empty where the byte is the line feed between two lines."""
    begin = content.rfind(b"\n", 0, position) + 1
    return content[begin : content.find(b"\n", position)]


def test_any_damaged_byte_costs_one_group_at_most(small, tmp_path):
    path, rng = tmp_path / "c", np.random.default_rng(0)
    for position, byte in enumerate(small.content):
        damaged = bytearray(small.content)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        left = Checkpoint(path, small.identity).finished()
        assert all(left[key] == small.groups[key] for key in left)
        lost = [key.encode() for key in small.groups if key not in left]
        if byte == ord("\n"):
            assert len(lost) <= 1
        else:
            hit = line_at(small.content, position)
            assert len(lost) == (b"{" in hit)
            assert all(key in hit for key in lost)


@pytest.mark.parametrize(
    "payload",
    [
        "{",
        "[" * 100_000,
        "[]",
        "{}",
        '{"key": KEY}',
        '{"key": [], "value": []}',
        '{"key": KEY, "value": null}',
        '{"key": KEY, "value": 5}',
        '{"key": KEY, "value": {}}',
        '{"key": KEY, "value": [{"index": 0}]}',
        '{"key": KEY, "value": [{"index": 0, "losses": ["x"], "scores": {"score": [1]}}]}',
        '{"key": KEY, "value": [{"index": 0, "losses": [1], "scores": 3}]}',
        '{"key": KEY, "value": [{"ix": 0}]}',
    ],
)
def test_lines_that_no_search_has_written(reference, tmp_path, payload, evaluated):
    """The checksum is right, but that is no secret: such a group is computed again."""
    key = json.loads(reference.path.read_text().split()[3])["key"]
    payload = payload.replace("KEY", json.dumps(key))
    store = Checkpoint(tmp_path / "crafted", reference.identity)
    store._append(f"{store._checksum(payload)} {payload}")
    run_search(store.path, tmp_path / "result")
    assert (tmp_path / "result").read_bytes() == reference.found
    assert sum(evaluated) == N_GROUPS


def test_a_checkpoint_cut_at_any_length(small, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path = tmp_path / "c"
    for length in range(len(small.content)):
        path.write_bytes(small.content[:length])
        store = Checkpoint(path, small.identity)
        # The line feed behind a group may be missing.
        left = list(small.groups)[: (small.content[:length] + b"\n").count(b"}]}\n")]
        assert list(store.finished()) == left
        store.add("more", 1)
        assert list(Checkpoint(path, small.identity).finished()) == [*left, "more"]


@pytest.mark.parametrize("position", [5, 40, 400, -300, -1])
def test_only_what_was_damaged_is_computed_again(reference, tmp_path, position, evaluated):
    path = tmp_path / "c"
    damaged = bytearray(reference.path.read_bytes())
    damaged[position] ^= 1
    path.write_bytes(damaged)
    kept = len(Checkpoint(path, reference.identity).finished())
    run_search(path, tmp_path / "result")
    assert (tmp_path / "result").read_bytes() == reference.found
    assert sum(evaluated) == N_GROUPS - kept <= 1
    evaluated.clear()
    run_search(path, tmp_path / "result")
    assert evaluated == []


def test_files_of_others_are_refused(tmp_path):
    X, y = moons()
    for text in (
        b"a,b\n1,2\n",
        b"\x00" * 100,
        b"onefit-search-3 0123\n",
        b"onefit-search-2 0123\n",
    ):
        path = tmp_path / "c"
        path.write_bytes(text)
        with pytest.raises(ValueError, match="holds another search"):
            the_search(path).fit(X, y)
        assert path.read_bytes() == text
    for name in (tmp_path, "/dev/zero"):
        with pytest.raises(ValueError, match="expected the name of a file"):
            the_search(name).fit(X, y)


def test_refinement_of_another_choice_is_another(tmp_path):
    """The choice is no part of a checkpoint's identity; what refines it must not be mixed up."""
    X, y = moons()
    options = {"refine": 1, "selection": "one_standard_error"}
    first = the_search(tmp_path / "c", refine=1).fit(X, y)
    again = the_search(tmp_path / "c", **options).fit(X, y)
    alone = the_search(**options).fit(X, y)
    assert outcome(again) == outcome(alone)
    assert first.cv_results_["params"] != alone.cv_results_["params"]


# Two at once.


def test_two_processes_on_one_checkpoint(reference, tmp_path):
    for turn in range(4):
        path = tmp_path / f"{turn}"
        results = [tmp_path / f"{turn}.{i}" for i in range(2)]
        processes = [start(run_search, path, result) for result in results]
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0, 0]
        assert [result.read_bytes() for result in results] == [reference.found] * 2
        assert len(Checkpoint(path, reference.identity).finished()) == N_GROUPS
        assert is_whole(path)


def add_many(path, name):
    store = Checkpoint(path, "x" * 64)
    for i in range(100):
        store.add(f"{name}{i}", ["z" * 20_000])


def test_lines_of_many_writers_stay_whole(tmp_path):
    path = tmp_path / "c"
    processes = [start(add_many, path, name) for name in "abcd"]
    for process in processes:
        process.join()
    assert len(Checkpoint(path, "x" * 64).finished()) == 400
    assert is_whole(path)


# Full.


def with_file_limit(n_bytes, function, *arguments):
    """Files may not grow beyond a size: writes come back short, then fail."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))
    function(*arguments)


def say_failure(path, function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        # The message is longer than a limited file may be.
        os.symlink(str(error).replace("/", "|"), path)


def test_a_disk_that_is_full(reference, tmp_path, evaluated):
    path, result = tmp_path / "c", tmp_path / "result"
    limit = int(0.6 * reference.path.stat().st_size)
    start(say_failure, tmp_path / "said", with_file_limit, limit, run_search, path, result).join()
    said = os.readlink(tmp_path / "said")
    assert "cannot be written (File too large)" in said
    assert "run the same search again" in said
    assert path.stat().st_size == limit
    kept = n_groups(path)
    assert 0.4 * N_GROUPS < kept < 0.7 * N_GROUPS
    run_search(path, result)
    assert result.read_bytes() == reference.found
    assert sum(evaluated) == N_GROUPS - kept


@pytest.mark.parametrize("step", ["open", "write", "fsync"])
def test_no_space_left(reference, tmp_path, monkeypatch, step, evaluated):
    path, original, calls = tmp_path / "c", getattr(os, step), []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(
            OSError, match=r"No space left on device.*run the same search"
        ) as caught:
            the_search(path).fit(*moons())
    assert caught.value.errno == errno.ENOSPC
    evaluated.clear()
    run_search(path, tmp_path / "result")
    assert (tmp_path / "result").read_bytes() == reference.found
    assert N_GROUPS - 4 <= sum(evaluated) < N_GROUPS


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_no_space_left_for_a_file(tmp_path, monkeypatch, step):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    path.write_text("before")

    def write():
        with write_aside(path) as aside:
            aside.write_text("half")
            if step == "write":
                full()

    with monkeypatch.context() as patch:
        if step != "write":
            patch.setattr(os, step, full)
        with pytest.raises(OSError, match="No space left"):
            write()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


def command(folder, *options):
    os.chdir(folder)
    raise SystemExit(main(["select", "data.csv", "--target", "y", "--grid", "grid.json", *options]))


@pytest.mark.parametrize("output", ["--checkpoint", "--results"])
def test_the_command_on_a_full_disk(tmp_path, output):
    X, y = moons()
    lines = [f"{a},{b},{'' if c < 0 else 'uv'[c]}" for (a, b), c in zip(X, y, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,y", *lines]))
    (tmp_path / "grid.json").write_text(json.dumps(GRID))
    whole, rest = (tmp_path, output, "whole"), (tmp_path, output, "rest")
    process = start(with_file_limit, 6000, command, *rest)
    process.join()
    assert process.exitcode == 2
    left = {"data.csv", "grid.json"} | ({"rest"} if output == "--checkpoint" else set())
    assert set(os.listdir(tmp_path)) == left
    for arguments in (rest, whole):
        process = start(command, *arguments)
        process.join()
        assert process.exitcode == 0


def test_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="device or a pipe"), write_aside(tmp_path / "pipe"):
        pass
    with pytest.raises(ValueError, match="is a folder"), write_aside(tmp_path):
        pass


def test_no_moment_without_a_mask(tmp_path, monkeypatch):
    """Another thread that makes a file meanwhile must get its usual permissions."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask is of the whole process"))
    with write_aside(tmp_path / "new") as aside:
        aside.write_text("x")
    assert (tmp_path / "new").read_text() == "x"
