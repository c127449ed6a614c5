"""The command among other processes: pipes, closed streams, signals."""

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

from command import COMMAND, ENVIRONMENT, run
from table_files import write_csv


def test_pipes(tmp_path, grid):
    data, model = write_csv(tmp_path, "iris"), str(tmp_path / "m.skops")
    text = Path(data).read_bytes()
    done = run("select", "-", "--target", "target", "--grid", grid, "--out", model, input=text)
    assert (done.returncode, done.stderr) == (0, b"")
    done = run("predict", model, "-", input=text)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 151


def test_closed_streams(tmp_path, grid):
    data, model = write_csv(tmp_path, "iris"), str(tmp_path / "m.skops")
    assert run("select", data, "--target", "target", "--grid", grid, "--out", model).returncode == 0

    def closed(redirections, *arguments):
        command = f"{shlex.join([*COMMAND, *arguments])} {redirections}"
        return subprocess.run(
            ["/bin/sh", "-c", command],
            capture_output=True,
            timeout=100,
            check=False,
            env=ENVIRONMENT,
        )

    done = closed(">&-", "predict", model, data)
    assert (done.returncode, done.stderr) == (0, b"")
    done = closed("2>&-", "predict", model, "absent.csv")
    assert (done.returncode, done.stdout) == (2, b"")  # nor the message among the predictions
    done = closed("<&-", "predict", model, "-")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    select = ["select", data, "--target", "target", "--grid", grid, "--out", model]
    assert closed("<&- >&- 2>&-", *select).returncode == 0


def test_bad_input_as_a_process(tmp_path):
    done = run("select", "absent.csv", "--target", "y", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert (
        done.stderr
        == b"onefit: absent.csv: cannot be read (No such file or directory); expected a file.\n"
    )
    assert os.listdir(tmp_path) == []


def test_control_c_keeps_the_checkpoint(tmp_path):
    data, kept = write_csv(tmp_path, "digits"), tmp_path / "kept"
    arguments = ["select", data, "--target", "target", "--model", "lapsvc", "--out", "m.skops"]
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--checkpoint", str(kept)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # A job in the background of a shell ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not kept.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.count(b"\n") == 1
    assert b"run the same command to go on" in error
    assert sorted(os.listdir(tmp_path)) == ["digits.csv", "kept"]


def test_control_c_while_the_command_is_imported(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'onefit.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    done = subprocess.run(
        [*COMMAND, "demo"],
        capture_output=True,
        timeout=100,
        check=False,
        env=ENVIRONMENT | {"PYTHONPATH": path},
    )
    assert (done.returncode, done.stderr) == (130, b"onefit: interrupted; nothing was written.\n")
