"""The command line from end to end."""

import io
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from command import GRID
from onefit import LapRLSClassifier, ManifoldSearchCV, __version__
from onefit.cli import main
from onefit.cli.select import _trust_lines
from onefit.cli.text import one_line, parse_size, printable
from onefit.cli.trust import Trust, _corrected_score, _standard_error
from onefit.persistence import load_model
from onefit.preparation import conform
from onefit.tables import read_table
from table_files import FILES, bundled, mostly_empty, write_csv


@pytest.mark.parametrize("name", FILES)
def test_select_predict_inspect(name, tmp_path, grid, report, capsys):
    write, task, least = FILES[name]
    data, model = write(tmp_path, name), str(tmp_path / "m.skops")
    html, cv = str(tmp_path / "r.html"), str(tmp_path / "cv.csv")
    arguments = ["select", data, "--target", "target", "--grid", grid, "--repeats", "2"]
    if name == "diabetes":
        arguments += ["--unlabeled", "999"]
    assert main([*arguments, "--out", model, "--report", html, "--results", cv]) == 0
    said = capsys.readouterr().out
    for words in (f"task: {task}", "labels only", "What it would cost to trust it", model):
        assert words in said
    assert Path(html).read_text() == "<html>report</html>"
    assert len(pd.read_csv(cv)) == 8
    (call,) = report
    assert [baseline[0] for baseline in call.baselines][1] == "labels only"
    assert call.target_name == "target"
    assert isinstance(call.search, ManifoldSearchCV)

    out = str(tmp_path / "p.csv")
    assert main(["predict", model, data, "--out", out]) == 0
    predicted = pd.read_csv(out, keep_default_na=False)
    expected = call.search.predict(call.X)
    truth = bundled(name)[1]
    if task == "regression":
        np.testing.assert_allclose(predicted["prediction"], expected, rtol=1e-12)
        error = np.mean((predicted["prediction"] - truth) ** 2)
        assert error < 0.8 * np.var(truth)
    else:
        assert predicted["prediction"].astype(str).tolist() == [str(one) for one in expected]
        assert np.mean(predicted["prediction"].astype(str) == truth.astype(str)) > least
        assert sum(column.startswith("decision_") for column in predicted) >= 1

    capsys.readouterr()
    assert main(["inspect", model]) == 0
    assert "kernel_width" in capsys.readouterr().out
    assert main(["inspect", model, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["task"] == task
    assert facts["cv_score"] == pytest.approx(call.search.best_score_)
    assert facts["command"].startswith("onefit select")
    loaded, metadata = load_model(model)
    again = loaded.predict(conform(read_table(data), metadata["columns"]))
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("name", ["fourclass", "german.numer", "bodyfat", "mpg", "housing"])
def test_flow_on_files_of_the_paper(name, tmp_path, grid):
    folder = os.environ.get("ONEFIT_DATA")
    if not folder:
        pytest.skip("ONEFIT_DATA is not set")
    whole = read_table(Path(folder) / f"{name}.xz")
    data, model, out = (str(tmp_path / n) for n in ("d.csv", "m.skops", "p.csv"))
    frame = whole.sample(min(300, len(whole)), random_state=0)
    frame.assign(target=mostly_empty(frame["target"])).to_csv(data, index=False)
    arguments = ["--target", "target", "--grid", grid, "--repeats", "1", "--out", model, "--quiet"]
    assert main(["select", data, *arguments]) == 0
    assert main(["predict", model, data, "--out", out, "--quiet"]) == 0
    predicted = pd.read_csv(out)["prediction"].to_numpy()
    truth = frame["target"].to_numpy()
    if name in ("fourclass", "german.numer"):
        assert set(predicted) <= {-1, 1}
        assert np.mean(predicted == truth) > 0.6
    else:
        assert np.mean((predicted - truth) ** 2) < 0.6 * np.var(truth)
    assert main(["inspect", model]) == 0


def test_select_gives_what_python_gives(tmp_path, grid, capsys):
    data, model = write_csv(tmp_path, "iris"), str(tmp_path / "m.skops")
    arguments = ["select", data, "--target", "target", "--grid", grid, "--out", model, "--json"]
    assert main(arguments) == 0
    facts = json.loads(capsys.readouterr().out)
    X, target = bundled("iris")
    y = np.array([cell or None for cell in mostly_empty(target).tolist()], dtype=object)
    named = {f"laprlsclassifier__{key}": values for key, values in GRID.items()}
    search = ManifoldSearchCV(
        make_pipeline(StandardScaler(), LapRLSClassifier()), named, random_state=0
    ).fit(X, y)
    assert facts["cv_score"] == pytest.approx(search.best_score_, abs=1e-12)
    assert facts["best_params"] == {
        key.removeprefix("laprlsclassifier__"): value for key, value in search.best_params_.items()
    }
    assert (load_model(model)[0].predict(X) == search.predict(X)).all()


def test_json_is_all_there_is_on_standard_output(tmp_path, grid, capsys):
    data = write_csv(tmp_path, "iris")
    assert main(["select", data, "--target", "target", "--grid", grid, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    facts = json.loads(out)
    assert {one["name"] for one in facts["baselines"]} == {"most frequent class", "labels only"}
    assert facts["candidates"] == 8
    assert facts["folds"] == 50


def test_a_grid_without_zero_still_has_the_supervised_baseline(tmp_path, capsys):
    data = write_csv(tmp_path, "iris")
    with_zero, without = tmp_path / "a.json", tmp_path / "b.json"
    with_zero.write_text(json.dumps(GRID))
    without.write_text(json.dumps({**GRID, "manifold_penalty": [1.0], "n_neighbors": [4, 6]}))
    scores = []
    for path in (with_zero, without):
        arguments = ["select", data, "--target", "target", "--grid", str(path), "--json"]
        assert main([*arguments, "--repeats", "1"]) == 0
        scores.append(json.loads(capsys.readouterr().out)["baselines"][1])
    assert scores[0] == scores[1]


@pytest.mark.parametrize("model", ["lapsvc", "laplogistic"])
def test_other_models_and_probabilities(model, tmp_path, grid):
    data, path = write_csv(tmp_path, "iris"), str(tmp_path / "m.skops")
    options = ["--model", model, "--folds", "3", "--components", "40", "--quiet"]
    assert (
        main(["select", data, "--target", "target", "--grid", grid, "--out", path, *options]) == 0
    )
    out = tmp_path / "p.parquet"
    assert main(["predict", path, data, "--out", str(out), "--quiet"]) == 0
    frame = pd.read_parquet(out)
    kind = "probability_" if model == "laplogistic" else "decision_"
    columns = [f"{kind}{name}" for name in ("setosa", "versicolor", "virginica")]
    best = frame[columns].idxmax(axis=1).str.removeprefix(kind)
    assert (best == frame["prediction"]).all()
    if model == "laplogistic":
        np.testing.assert_allclose(frame[columns].sum(axis=1), 1.0)


def test_minus_one_comes_back_as_it_was(tmp_path, grid, capsys):
    X, target = bundled("breast_cancer")
    numbers = np.where(target == "malignant", -1, 1)
    data, model = str(tmp_path / "d.csv"), str(tmp_path / "m.skops")
    X.assign(y=mostly_empty(numbers)).to_csv(data, index=False)
    assert main(["select", data, "--target", "y", "--grid", grid, "--out", model]) == 0
    assert "-1 is taken for a class" in capsys.readouterr().out
    assert main(["predict", model, data]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(frame["prediction"]) == {-1, 1}
    assert np.mean(frame["prediction"] == numbers) > 0.85
    assert any(name.startswith("decision_") for name in frame)


def test_predict_streams_and_keeps_cells(tmp_path, grid, monkeypatch, capsys):
    data, model = write_csv(tmp_path, "iris"), str(tmp_path / "m.skops")
    assert (
        main(["select", data, "--target", "target", "--grid", grid, "--out", model, "--quiet"]) == 0
    )
    lines = Path(data).read_text().splitlines()
    lines[0] += ",remark"
    lines[1:] = [f'{line},"=1+1, 0{i}.10"' for i, line in enumerate(lines[1:])]
    more = tmp_path / "more.csv"
    more.write_text("\n".join(lines))
    assert main(["predict", model, str(more), "--out", str(tmp_path / "whole.csv")]) == 0
    monkeypatch.setattr("onefit.tables._BLOCK_CELLS", 1)
    assert main(["predict", model, str(more), "--out", str(tmp_path / "blocks.tsv.gz")]) == 0
    whole = pd.read_csv(tmp_path / "whole.csv", dtype=str, keep_default_na=False)
    blocks = pd.read_csv(tmp_path / "blocks.tsv.gz", dtype=str, sep="\t", keep_default_na=False)
    assert whole["remark"].tolist() == [f"=1+1, 0{i}.10" for i in range(150)]
    pd.testing.assert_frame_equal(whole.iloc[:, :7], blocks.iloc[:, :7])
    decisions = whole.columns[7:]
    np.testing.assert_allclose(whole[decisions].astype(float), blocks[decisions].astype(float))


def test_large_tables_get_landmarks_and_it_is_said(tmp_path, monkeypatch, grid, capsys):
    monkeypatch.setattr("onefit.cli.selection._EXACT_ROWS", 100)
    monkeypatch.setattr("onefit.cli.selection._LANDMARKS", 30)
    data, model = write_csv(tmp_path, "iris"), str(tmp_path / "m.skops")
    assert main(["select", data, "--target", "target", "--grid", grid, "--out", model]) == 0
    assert "Nystrom with 30 landmarks (150 rows are more than 100" in " ".join(
        capsys.readouterr().out.split()
    )
    assert len(load_model(model)[0][-1].support_) == 30
    arguments = ["select", data, "--target", "target", "--grid", grid, "--json"]
    assert main([*arguments, "--components", "exact"]) == 0
    assert json.loads(capsys.readouterr().out)["n_components"] is None
    monkeypatch.setattr("onefit.cli.selection._EXACT_ROWS", 3000)
    assert main([*arguments, "--memory-limit", "500KB"]) == 0
    assert json.loads(capsys.readouterr().out)["n_components"] == 30


def test_checkpoints_resume(tmp_path, grid, capsys):
    data, kept = write_csv(tmp_path, "iris"), str(tmp_path / "c")
    arguments = ["select", data, "--target", "target", "--grid", grid, "--json"]
    assert main([*arguments, "--checkpoint", kept]) == 0
    first = json.loads(capsys.readouterr().out)
    size = os.path.getsize(kept)
    assert main([*arguments, "--checkpoint", kept]) == 0
    second = json.loads(capsys.readouterr().out)
    assert os.path.getsize(kept) == size
    assert second["cv_score"] == first["cv_score"]
    assert main([*arguments, "--checkpoint", kept, "--seed", "1"]) == 2
    assert "another search" in capsys.readouterr().err


def test_names_from_files_cannot_steer_the_terminal(tmp_path, grid, capsys):
    X, target = bundled("iris")
    X.columns = ["\x1b[31mred", "b", "c", "d"]
    data = tmp_path / "d.csv"
    X.assign(y=mostly_empty(target)).assign(void="").to_csv(data, index=False)
    model = str(tmp_path / "m.skops")
    assert main(["select", str(data), "--target", "y", "--grid", grid, "--out", model]) == 0
    assert main(["inspect", model]) == 0
    assert main(["select", str(data), "--target", "z"]) == 2
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "x1b[31mred" in captured.out


# Help, demo, completion.


@pytest.mark.parametrize("command", ["", "select", "predict", "inspect", "demo", "completion"])
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"])
    assert caught.value.code == 0
    assert "examples:\n  onefit " in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"onefit {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "manifold" not in script
    assert "memory-limit" in script


def test_demo_leaves_a_model_and_a_report(tmp_path, monkeypatch, report, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "2016 candidates, each cross-validated exactly on 50 folds" in said
    named_correctly = re.search(r"onefit +(0\.\d{3})$", said, flags=re.MULTILINE)
    assert float(named_correctly[1]) > 0.95
    assert sorted(os.listdir()) == ["onefit-demo.html", "onefit-demo.skops"]
    assert main(["inspect", "onefit-demo.skops"]) == 0
    assert report[0].title == "Palmer penguins"


# Small parts.


def test_corrected_score_by_hand():
    # The best on fold 1 is the second candidate, on fold 0 the first: each is scored on the other.
    scores = np.array([[[1.0, 0.0]], [[0.5, 0.75]]])
    assert _corrected_score(scores, np.array([1.0, 2.0])) == pytest.approx((0.5 + 0.0) / 2)
    assert _corrected_score(scores[:1], np.array([1.0])) == pytest.approx(0.5)


def test_corrected_score_removes_optimism():
    # 500 candidates that guess: the best seems better than a half, what choosing gives does not.
    rng = np.random.default_rng(0)
    best, corrected = [], []
    for _ in range(20):
        luck = rng.binomial(4, 0.5, size=(500, 5, 10)) / 4
        best.append(luck.mean(axis=(1, 2)).max())
        corrected.append(_corrected_score(luck, rng.random(500)))
    assert np.mean(best) > 0.58
    assert abs(np.mean(corrected) - 0.5) < 0.03


def test_standard_error():
    assert 0 < _standard_error(np.ones((5, 10)), 30, "accuracy") < 0.05
    scores = np.array([[1.0, 3.0], [1.0, 3.0]])
    assert _standard_error(scores, 10, "r2") == pytest.approx(np.sqrt(2) / np.sqrt(2))


def test_text():
    assert printable("a\x1b[0m\nb") == "a\\x1b[0m\\nb"
    assert one_line("a\n  b") == "a b"
    assert len(one_line("x" * 5000)) == 600
    sizes = {"2GB": 2 * 10**9, "500 MB": 5 * 10**8, "12": 12, "1.5k": 1500}
    assert {text: parse_size(text) for text in sizes} == sizes


@pytest.mark.parametrize(
    "scores, words",
    [
        # With the graph: chosen, and best. Labels only reach 0.52.
        ([0.51, 0.60], []),
        ([0.51, 0.53], ["gain over labels only is within one standard error"]),
        ([0.51, 0.52], ["Labels only do as well"]),
        ([0.60, 0.60], []),
    ],
)
def test_unlabelled_rows_are_judged_by_the_best_scores(scores, words):
    """Not by that of the choice, which may be one of several nearly as good."""
    search = SimpleNamespace(
        best_score_=scores[0], cv_results_={"mean_test_score": np.array([*scores, 0.52, np.nan])}
    )
    trust = Trust(30, 0.05, 0.5, 4, True)
    baselines = [("mean of the labels", 0.0, 0.1), ("labels only", 0.52, 0.1)]
    said = " ".join(
        _trust_lines(SimpleNamespace(search=search, trust=trust, scoring="r2", baselines=baselines))
    )
    assert all(word in said for word in words)
    assert ("abels only" in said) == bool(words)
    best = max(scores[1], 0.52)
    assert (f"The best score is {best:.3f}" in said) == (best > scores[0])
