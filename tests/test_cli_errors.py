"""Bad input to the command is one line that says what to do, exit code 2, and no output."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onefit.cli import main
from table_files import write_csv


def good_table(folder):
    path = folder / "good.csv"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    frame["y"] = ["u", "v", "", ""] * 10
    frame["price"] = np.where(np.arange(40) % 2, rng.normal(size=40).round(4).astype(str), "")
    frame["void"], frame["one"] = "", ["u"] + [""] * 39
    frame.to_csv(path, index=False)
    (folder / "text.skops").write_text("this is no model")
    (folder / "list.json").write_text("[1, 2]")
    (folder / "broken.json").write_text("{")
    (folder / "unknown.json").write_text('{"width": [1]}')
    (folder / "nested.json").write_text('{"kernel_width": [[1]]}')
    (folder / "negative.json").write_text('{"kernel_width": [-1]}')
    (folder / "word.json").write_text('{"ambient_penalty": ["much"]}')
    (folder / "ragged.csv").write_text("a,y\n1,u\n2\n")
    (folder / "twice.csv").write_text("a,a\n1,u\n")
    (folder / "empty.csv").touch()
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "latin.csv").write_bytes("a,y\né,u\n".encode("latin1"))
    (folder / "few.csv").write_text("a,y\n1,u\n2,v\n3,\n4,\n")
    return path


SELECT = ["select", "good.csv", "--target", "y"]
BAD = {
    "no command": ([], "COMMAND"),
    "unknown command": (["guess"], "invalid choice"),
    "no data": (["select"], "DATA"),
    "unknown option": ([*SELECT, "--colour", "red"], "--colour"),
    "absent file": (["select", "absent.csv", "--target", "y"], "No such file"),
    "a folder": (["select", ".", "--target", "y"], "is a folder"),
    "empty file": (["select", "empty.csv", "--target", "y"], "is empty"),
    "binary file": (["select", "binary.csv", "--target", "y"], "not text"),
    "latin-1 file": (["select", "latin.csv", "--target", "y"], "not UTF-8"),
    "ragged file": (["select", "ragged.csv", "--target", "y"], "line 3"),
    "double name": (["select", "twice.csv", "--target", "y"], "two columns named 'a'"),
    "wrong format": (["select", "good.csv", "--format", "parquet", "--target", "y"], "no Parquet"),
    "unknown format": ([*SELECT, "--format", "xlsx"], "xlsx"),
    "too large": ([*SELECT, "--max-bytes", "100"], "more than 100 bytes"),
    "no size": ([*SELECT, "--max-bytes", "many"], "expected bytes"),
    "no target": (["select", "good.csv"], "--target"),
    "absent target": (["select", "good.csv", "--target", "z"], "no column 'z'"),
    "empty target": (["select", "good.csv", "--target", "void"], "empty in all 40 rows"),
    "one class": (["select", "good.csv", "--target", "one"], "one class only"),
    "few labels": (["select", "few.csv", "--target", "y"], "all different"),
    "text for regression": ([*SELECT, "--task", "regression"], "regression expects"),
    "svc for regression": (
        ["select", "good.csv", "--target", "price", "--model", "lapsvc"],
        "is for classes",
    ),
    "too many folds": ([*SELECT, "--folds", "30"], "more than the 20 labels"),
    "one fold": ([*SELECT, "--folds", "1"], "at least 2"),
    "no seed": ([*SELECT, "--seed", "x"], "whole number"),
    "unknown score": ([*SELECT, "--scoring", "luck"], "no scorer"),
    "certified points": (
        [*SELECT, "--criterion", "certified", "--holdout", "points"],
        "holdout='points'",
    ),
    "absent grid": ([*SELECT, "--grid", "absent.json"], "cannot be read"),
    "broken grid": ([*SELECT, "--grid", "broken.json"], "no JSON"),
    "list grid": ([*SELECT, "--grid", "list.json"], "expected an object"),
    "unknown parameter": ([*SELECT, "--grid", "unknown.json"], "'width'"),
    "nested grid": ([*SELECT, "--grid", "nested.json"], "list of numbers or words"),
    "negative width": ([*SELECT, "--grid", "negative.json"], "kernel_width"),
    "word for a number": ([*SELECT, "--grid", "word.json"], "ambient_penalty"),
    "no landmarks": ([*SELECT, "--components", "0"], "landmarks"),
    "dropped all": (
        [*SELECT, "--drop=a", "--drop=b", "--drop=price", "--drop=one"],
        "no feature is left",
    ),
    "absent folder": ([*SELECT, "--out", "absent/m.skops"], "folder does not exist"),
    "out is a folder": ([*SELECT, "--out", "."], "is a folder"),
    "out is the data": ([*SELECT, "--out", "good.csv"], "named twice"),
    "two of a name": ([*SELECT, "--out", "x", "--report", "x"], "named twice"),
    "foreign checkpoint": ([*SELECT, "--checkpoint", "few.csv"], "another search"),
    "absent model": (["predict", "absent.skops", "good.csv"], "cannot be read"),
    "no model": (["predict", "text.skops", "good.csv"], "no model file"),
    "nothing to inspect": (["inspect", "text.skops"], "no model file"),
    "unknown shell": (["completion", "tcsh"], "tcsh"),
    "no labels": (["demo", "--labels", "0"], ""),
}  # fmt: skip


@pytest.mark.parametrize("arguments, message", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    good_table(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(os.listdir())
    contents = {name: Path(name).read_bytes() for name in before}
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("onefit: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert sorted(os.listdir()) == before
    assert {name: Path(name).read_bytes() for name in before} == contents


@pytest.fixture
def small_model(tmp_path, grid):
    good_table(tmp_path)
    model = str(tmp_path / "m.skops")
    data = str(tmp_path / "good.csv")
    arguments = ["--target", "y", "--drop", "price", "--drop", "one", "--grid", grid, "--quiet"]
    assert main(["select", data, *arguments, "--out", model]) == 0
    return model


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\n1\n", "lacks 1 of the model's columns: 'b'"),
        ("a,b\n1,2\n3,tall\n", "'b' has 'tall' in row 2"),
        ("a,b,prediction\n1,2,u\n", "has a column 'prediction' already"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", "line 3"),
    ],
)
def test_bad_rows_to_predict(text, message, small_model, tmp_path, capsys):
    (tmp_path / "new.csv").write_text(text)
    before = sorted(os.listdir(tmp_path))
    out = str(tmp_path / "p.csv")
    assert main(["predict", small_model, str(tmp_path / "new.csv"), "--out", out]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_all_outputs_or_none(tmp_path, grid, report, monkeypatch, capsys):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["onefit.report"], "render_report", fail)
    data = str(good_table(tmp_path))
    before = sorted(os.listdir(tmp_path))
    names = [str(tmp_path / name) for name in ("m.skops", "r.html", "cv.csv")]
    arguments = ["--target", "y", "--grid", grid, "--repeats", "1", "--quiet"]
    files = ["--out", names[0], "--report", names[1], "--results", names[2]]
    assert main(["select", data, *arguments, *files]) == 2
    assert "No space left" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == before


def test_interruption(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("onefit.cli.select.select", interrupt)
    data = str(good_table(tmp_path))
    assert main(["select", data, "--target", "y", "--quiet", "--checkpoint", "kept"]) == 130
    assert capsys.readouterr().err == (
        "onefit: interrupted; what is finished is in kept: run the same command to go on.\n"
    )


def test_missing_extras_are_named(tmp_path, monkeypatch, capsys, small_model):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert main(["inspect", small_model]) == 2
    assert "onefit[all]" in capsys.readouterr().err


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("ONEFIT_DEBUG", "1")
    with pytest.raises(ValueError, match="No such file"):
        main(["select", "absent.csv", "--target", "y"])


@pytest.mark.parametrize(
    "options",
    [
        ["--out", "-"],
        ["--out", "folder" + os.sep],
        ["--checkpoint", "same", "--results", "same"],
        ["--drop", "target"],
        ["--keep", "target"],
        ["--scoring", "neg_log_loss"],
        ["--scoring", "f1"],
        ["--scoring", "roc_auc"],
        ["--scoring", "r2"],
        ["--scoring", "rand_score"],
    ],
    ids=" ".join,
)
def test_options_that_cannot_be_meant(tmp_path, grid, capsys, monkeypatch, options):
    data = write_csv(tmp_path, "iris")
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert main(["select", data, "--target", "target", "--grid", grid, *options]) == 2
    assert capsys.readouterr().err.strip().count("\n") == 0
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_checkpoint_is_never_the_data(tmp_path, grid, capsys):
    data = write_csv(tmp_path, "iris")
    arguments = ["select", data, "--target", "target", "--grid", grid, "--checkpoint", data]
    assert main(arguments) == 2
    assert "remove" not in capsys.readouterr().err
