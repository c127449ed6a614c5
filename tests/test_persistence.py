"""Model files: equal predictions after loading, refusal of everything strange."""

import json
import os
import pickle
import subprocess
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, LapSVC
from onefit._files import write_aside
from onefit.persistence import ModelFileError, load_model, save_model
from onefit.preparation import feature_pipeline, prepare
from test_preparation import some_table

METADATA = {"columns": {"a": "number"}, "name": 'é "quoted"'}


def fitted(estimator, **settings):
    prepared = prepare(some_table(), "kind")
    y = prepared.y
    if estimator is LapRLSRegressor:
        y = np.where(prepared.labelled, np.arange(len(y)), np.nan)
    model = Pipeline(
        [("prepare", feature_pipeline(prepared.kinds)), ("model", estimator(**settings))]
    )
    return model.fit(prepared.X, y), prepared.X


@pytest.mark.parametrize(
    "estimator, settings",
    [
        (LapRLSClassifier, {}),
        (LapRLSClassifier, {"n_components": 10, "random_state": 0, "class_weight": "balanced"}),
        (LapSVC, {}),
        (LapLogisticRegression, {"fit_intercept": True}),
        (LapRLSRegressor, {"kernel": "polynomial", "kernel_params": {"degree": 2}}),
    ],
)
def test_predictions_are_equal_after_loading(tmp_path, estimator, settings):
    model, X = fitted(estimator, **settings)
    save_model(model, tmp_path / "m.skops", METADATA)
    again, metadata = load_model(tmp_path / "m.skops")
    assert metadata == METADATA
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert os.listdir(tmp_path) == ["m.skops"]


def test_what_only_training_needs_is_left_out(tmp_path):
    model, _ = fitted(LapRLSClassifier)
    save_model(model, tmp_path / "m.skops", METADATA)
    again = load_model(tmp_path / "m.skops")[0]
    for name in ("graph_", "transduction_"):
        assert hasattr(model[-1], name)
        assert not hasattr(again[-1], name)


class Shell:
    """Unpickling this runs a command."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return subprocess.call, (self.command,)


def test_pickles_are_not_opened(tmp_path):
    mark = tmp_path / "mark"
    path = tmp_path / "m.skops"
    path.write_bytes(pickle.dumps(Shell(["touch", str(mark)])))
    with pytest.raises(ModelFileError, match="no model file"):
        load_model(path)
    assert not mark.exists()


def crafted(path, tmp_path, change):
    """A model file whose schema was changed."""
    save_model(fitted(LapRLSClassifier)[0], tmp_path / "good.skops", METADATA)
    with zipfile.ZipFile(tmp_path / "good.skops") as good, zipfile.ZipFile(path, "w") as bad:
        for name in good.namelist():
            content = good.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            bad.writestr(name, content)


def call_node(command):
    """What skops would build by a call of a function."""
    argument = {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "__id__": 1,
        "content": json.dumps(command),
        "is_json": True,
    }
    return {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "OperatorFuncNode",
        "__id__": 2,
        "attrs": argument,
    }


def test_a_crafted_file_runs_nothing_and_its_types_are_named(tmp_path):
    mark, path = tmp_path / "mark", tmp_path / "bad.skops"
    crafted(path, tmp_path, lambda s: s["content"].update(extra=call_node(f"touch {mark}")))
    with pytest.raises(ModelFileError, match=r"types that no onefit model has: os\.system"):
        load_model(path)
    assert not mark.exists()


def test_an_allowed_name_with_another_loader_is_refused(tmp_path):
    path = tmp_path / "bad.skops"
    node = call_node("x") | {"__class__": "str", "__module__": "builtins"}
    crafted(path, tmp_path, lambda s: s["content"].update(extra=node))
    with pytest.raises(ModelFileError, match=r"builtins\.str by OperatorFuncNode"):
        load_model(path)


@pytest.mark.parametrize(
    "content, message",
    [
        (RandomForestClassifier(), "RandomForestClassifier"),
        (make_pipeline(FunctionTransformer(os.path.join), LapRLSClassifier()), "posixpath.join"),
        ({"format": "another"}, "no onefit model"),
        ({"format": "onefit-model-1", "metadata": "{}", "model": "x"}, "ends in a onefit"),
        (
            {
                "format": "onefit-model-1",
                "metadata": "{}",
                "model": make_pipeline(StandardScaler(), LapRLSClassifier()),
            },
            "list of columns",
        ),
    ],
)
def test_other_skops_files_are_refused(tmp_path, content, message):
    skops.io.dump(content, tmp_path / "m.skops")
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "m.skops")


def test_damaged_files(tmp_path):
    path = tmp_path / "m.skops"
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(path)
    save_model(fitted(LapRLSClassifier)[0], path, METADATA)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError, match="no model file"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "[" * 10**5)
    with pytest.raises(ModelFileError, match="no model file"):
        load_model(path)


def test_files_that_lack_an_array(tmp_path):
    save_model(fitted(LapRLSClassifier)[0], tmp_path / "m.skops", METADATA)
    path = tmp_path / "less.skops"
    with zipfile.ZipFile(tmp_path / "m.skops") as good, zipfile.ZipFile(path, "w") as bad:
        bad.writestr("schema.json", good.read("schema.json"))
    with pytest.raises(ModelFileError, match="is damaged"):
        load_model(path)


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("onefit.persistence._MAX_SCHEMA", 1000)
    with zipfile.ZipFile(tmp_path / "m.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}" + " " * 2000)
    with pytest.raises(ModelFileError, match="expands to 2,002 bytes"):
        load_model(tmp_path / "m.skops")


def test_a_failing_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "m.skops"
    path.write_text("before")
    model, _ = fitted(LapRLSClassifier)
    model[-1].kernel = os.path.join
    with pytest.raises(ModelFileError, match=r"posixpath\.join"):
        save_model(model, path, METADATA)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["m.skops"]


def test_written_files_have_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    with write_aside(tmp_path / "new") as aside:
        aside.write_text("x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    with write_aside(tmp_path / "new") as aside:
        aside.write_text("y")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
