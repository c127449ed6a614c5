"""Experiments that are killed, damaged, doubled and out of space end with the same files."""

import errno
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from forked import die, kill_fifty_times, seconds_of, start

ROOT = Path(__file__).parents[1]
if not (ROOT / "experiments").is_dir():  # installed without the repository
    pytest.skip("the experiments are not here", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from experiments import protocol, run, store, unit  # noqa: E402

SETS, REPEATS = ("bodyfat", "mpg"), 2
N_ROWS = 70  # in each file
needs_data = pytest.mark.skipif(
    not os.environ.get("ONEFIT_DATA"),
    reason="needs the real data sets: set ONEFIT_DATA to their directory",
)


every_candidate = protocol.candidates


def some_candidates(name, n_rows):
    """Three of the paper's, of one kernel and graph."""
    shared = {"kernel_width": 4.0, "n_neighbors": 8, "graph_width": 1.0}
    return [p for p in every_candidate(name, n_rows) if shared.items() <= p.items()][::40]


def run_experiment(results):
    """The paper's table 1 as it is run, on two of its sets, with three candidates, for t = 10."""
    words = ["--sets", *SETS, "--repeats", str(REPEATS), "--results", str(results)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "candidates", some_candidates)
        patch.setattr(protocol, "FOLDS", (10,))
        patch.setattr(sys, "argv", ["run", "table1", *words])
        run.main()


def content(folder):
    """Files of a folder; what a killed writer left has a name that begins with a point."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files if p.name[0] != "."}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Files of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    seconds_of(run_experiment, folder)
    files = content(folder)
    assert list(files) == ["criteria/bodyfat.csv", "criteria/mpg.csv", "machines.json"]
    assert all(len(store.read(folder / "criteria" / f"{name}.csv")) == N_ROWS for name in SETS)
    return files


def put(files, folder):
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)


# Killed.


@pytest.mark.no_cover
@needs_data
def test_an_experiment_killed_at_fifty_moments(whole, tmp_path):
    def check(name):
        assert content(tmp_path / name) == whole

    kill_fifty_times(
        np.random.default_rng(1),
        lambda name: (run_experiment, tmp_path / name),
        lambda name: "criteria/bodyfat.csv" in content(tmp_path / name) != whole,
        check,
    )


def kill_in_store(step, nth, results):
    """An experiment that dies in one step of the n-th file that it writes."""
    original, left = getattr(os, step), nth

    def dying(*arguments, **options):
        nonlocal left
        left -= 1
        if left == 0:
            die()
        return original(*arguments, **options)

    setattr(os, step, dying)
    run_experiment(results)


@needs_data
@pytest.mark.parametrize("step", ["fsync", "replace", "unlink"])
@pytest.mark.parametrize("nth", [1, 4])
def test_an_experiment_killed_while_it_writes(whole, tmp_path, step, nth):
    process = start(kill_in_store, step, nth, tmp_path)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    for name, text in content(tmp_path).items():
        assert whole[name].startswith(text[:-1]), name  # never half a file
        assert text.endswith(b"\n")
    seconds_of(run_experiment, tmp_path)
    assert content(tmp_path) == whole


# Damaged.


@pytest.fixture
def small(tmp_path):
    """A file with three units of two rows, and another one beside it."""
    units = [
        [{"set": "a", "repeat": i, "t": t, "test": f"{0.1 * i + t:.3g}"} for t in (5, 10)]
        for i in range(3)
    ]
    path = tmp_path / "a.csv"
    store.write(path, units)
    store.write(tmp_path / "b.csv", [[{"set": "b", "repeat": 0, "t": 5, "test": "1"}]])
    return Namespace(path=path, content=path.read_bytes(), units=units)


def mend(small, capsys):
    """Repeats that a damaged file has lost; they are stored again, and the file must be whole."""
    rows = store.read(small.path)
    said = capsys.readouterr().out
    kept = {int(row["repeat"]) for row in rows}
    assert rows == [
        {key: str(value) for key, value in row.items()}
        for i in sorted(kept)
        for row in small.units[i]
    ]
    lost = [i for i in range(3) if i not in kept]
    for i in lost:
        store.append(small.path, small.units[i])
    if lost:
        assert small.path.read_bytes() == small.content
    return lost, said


def test_any_damaged_byte_costs_one_unit(small, capsys, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    rng = np.random.default_rng(0)
    ends = np.cumsum([len(line) + 1 for line in small.content.split(b"\n")])
    for position, byte in enumerate(small.content):
        damaged = bytearray(small.content)
        damaged[position] ^= int(rng.integers(1, 256))
        small.path.write_bytes(damaged)
        line = int(np.searchsorted(ends, position, side="right"))
        hit = {(line - 1) // 2} if line else set()
        if byte == ord("\n"):  # of the line behind, too
            hit |= {line // 2} if line < 6 else set()
        lost, said = mend(small, capsys)
        assert lost == sorted(hit)
        assert said.count("\n") == ("are left out" in said) >= bool(lost)


def test_a_file_cut_at_any_length(small, capsys, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for length in range(len(small.content)):
        small.path.write_bytes(small.content[:length])
        # The line feed behind a unit may be missing.
        n_lines = (small.content[:length] + b"\n").count(b"\n", 0, length + 1)
        lines = small.content[:length].split(b"\n")
        n_whole = sum(a == b for a, b in zip(lines, small.content.split(b"\n"), strict=False))
        assert n_whole in (n_lines, n_lines - 1)
        lost, _ = mend(small, capsys)
        assert lost == list(range(max(0, n_whole - 1) // 2, 3))


def test_files_that_are_not_ours_are_left_alone(small):
    damaged = small.content.replace(b"repeat", b"reqeat", 1)
    foreign = b"set,repeat,test\na,0,0.5\n"
    (small.path.parent / "b.csv").unlink()
    for text in (damaged, foreign):
        small.path.write_bytes(text)
        for attempt in (store.read, lambda path: store.append(path, small.units[0])):
            with pytest.raises(ValueError, match="first line is damaged"):
                attempt(small.path)
        assert small.path.read_bytes() == text
    small.path.write_bytes(small.content)
    with pytest.raises(ValueError, match="other columns"):
        store.append(small.path, [{"set": "a", "repeat": 3, "test": "1"}])
    assert small.path.read_bytes() == small.content


@needs_data
@pytest.mark.parametrize("position", [10, 3000, -2000, -1])
def test_only_what_was_damaged_is_computed_again(whole, tmp_path, position, monkeypatch):
    put(whole, tmp_path)
    path = tmp_path / "criteria" / "mpg.csv"
    damaged = bytearray(whole["criteria/mpg.csv"])
    damaged[position] ^= 1
    path.write_bytes(damaged)
    computed, evaluate = [], unit.evaluate
    monkeypatch.setattr(unit, "evaluate", lambda *one: computed.append(one) or evaluate(*one))
    run_experiment(tmp_path)
    in_header = position == 10
    assert computed == ([] if in_header else [("mpg", 0 if position > 0 else 1)])
    assert in_header or content(tmp_path) == whole
    assert len(store.read(path)) == N_ROWS


# Two at once, and a full disk.


@needs_data
def test_two_runs_of_one_experiment(whole, tmp_path):
    processes = [start(run_experiment, tmp_path) for _ in range(2)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert content(tmp_path) == whole


def add_many(path, first):
    for i in range(first, 40):
        store.append(path, [{"set": "a", "repeat": i, "t": t, "test": "1"} for t in (5, 10)])


def test_units_of_many_writers_are_stored_once(tmp_path):
    processes = [start(add_many, tmp_path / "a.csv", first) for first in (0, 0, 10, 20)]
    for process in processes:
        process.join()
    add_many(tmp_path / "alone.csv", 0)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert len(store.read(tmp_path / "a.csv")) == 80


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_no_space_left(small, monkeypatch, step):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    more = [{"set": "a", "repeat": 3, "t": 5, "test": "1"}]
    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(OSError, match=r"No space left on device.*run the same experiment"):
            store.append(small.path, more)
    assert small.path.read_bytes() == small.content
    assert sorted(os.listdir(small.path.parent)) == ["a.csv", "b.csv"]
    store.append(small.path, more)
    assert len(store.read(small.path)) == 7
