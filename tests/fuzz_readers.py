"""What a reader may do with any bytes: succeed, or raise an error of our own in one line.

Used with a few hundred mutated files by ``test_inputs.py``, and for minutes or hours, guided by
coverage, by ``benchmarks/fuzz.py``.
"""

import contextlib
import copy
import functools
import gzip
import io
import json
import tempfile
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

import onefit
from onefit import LapRLSClassifier
from onefit.cli import main
from onefit.cli.selection import _read_grid
from onefit.persistence import save_model
from onefit.preparation import feature_pipeline, prepare
from onefit.tables import read_table

MAX_BYTES = 10**6
_PACKAGE = str(Path(onefit.__file__).parent)

CSV = b'a,b,day,y\n1,x,2020-01-01,u\n2.5,"y, z",2020-01-02,v\n-3e4,x,,u\n?,x,2020-01-04,v\n5,x,,\n'
ARFF = (
    b"% remark\n@relation r\n@attribute 'a b' numeric\n@attribute k {x,'y z'}\n"
    b"@attribute s string\n@data\n1.5, x, 'it\\'s'\n?, 'y z', q\n2, x, q\n"
)
LIBSVM = b"+1 1:0.5 3:2\n-1 2:1 # remark\n+1 1:-2e3 2:nan\n-1 qid:3 3:4\n"
GRID = b'[{"kernel_width": [1, 2.5], "laplacian": ["normalized"]}, {"ambient_penalty": 1e-3}]'


class Violation(AssertionError):
    """A reader did what it must not do."""


@functools.cache
def _parquet():
    frame = pd.DataFrame({"a": [1.5, 2.0, None], "k": ["u", "v", "u"], "n": [1, 2, 3]})
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


@functools.cache
def _model():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=12).astype(str), "b": ["x", "y", "x"] * 4})
    prepared = prepare(frame.assign(y=["u", "v", "", "u"] * 3), "y")
    model = Pipeline(
        [("prepare", feature_pipeline(prepared.kinds)), ("model", LapRLSClassifier(n_neighbors=2))]
    ).fit(prepared.X, prepared.y)
    facts = {
        **dict.fromkeys(("cv_score", "standard_error", "corrected_score"), 0.5),
        **dict.fromkeys(("estimator", "target", "created", "onefit", "command", "scoring"), "x"),
        **{"task": "classification", "classes": ["u", "v"], "rows": 12, "labels": 9},
        **{"versions": {"scikit-learn": "1"}, "baselines": [{"name": "x", "cv_score": 0.5}]},
        **{"columns": prepared.kinds, "renamed_classes": {}, "best_params": {}, "notes": ["x"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.skops")
        save_model(model, path, facts)
        return path.read_bytes()


def _edited_model(data, *, of_metadata):
    """The model file with its schema or its metadata edited; the archive itself stays sound."""
    with zipfile.ZipFile(io.BytesIO(_model())) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(entries["schema.json"])
    if of_metadata:
        # A text of JSON, which the schema holds as JSON again.
        node = schema["content"]["metadata"]
        metadata = json.loads(json.loads(node["content"]))
        node["content"] = json.dumps(json.dumps(_edited(metadata, data)))
    else:
        schema = _edited(schema, data)
    entries["schema.json"] = json.dumps(schema).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _edited(tree, data):
    """Every three bytes replace one value of a JSON tree: two say which, one by what."""
    for i in range(0, min(len(data), 9) - 2, 3):
        places = list(_places(tree))
        parent, key = places[int.from_bytes(data[i : i + 2]) % len(places)]
        values = [*_REPLACEMENTS, *(one[at] for one, at in places[:200])]
        parent[key] = copy.deepcopy(values[data[i + 2] % len(values)])
    return tree


_REPLACEMENTS = (None, 0, -1, 10**30, 1e308, True, "", "x", "../x", "\x00", [], [0], {}, {"x": 0})


def _places(tree):
    """All places of a JSON tree: containers with keys or positions."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


#: A sound file of every kind, from which mutations start.
SEEDS = {
    "csv": lambda: CSV,
    "tsv": lambda: CSV.replace(b",", b"\t"),
    "arff": lambda: ARFF,
    "libsvm": lambda: LIBSVM,
    "parquet": _parquet,
    "packed": lambda: gzip.compress(CSV, mtime=0),
    "gzipped": lambda: CSV,
    "unnamed": lambda: ARFF,
    "model": _model,
    "schema": lambda: b"",
    "metadata": lambda: b"",
    "grid": lambda: GRID,
}
_SUFFIXES = {"packed": "csv.gz", "gzipped": "csv.gz", "unnamed": "dat"}
_MODELS = ("model", "schema", "metadata")


def check(kind, data):
    """Have one file read; raises :class:`Violation` unless it is read or properly refused.

    Parameters
    ----------
    kind : str
        One of ``SEEDS``.
    data : bytes
        Content of the file; of kind "gzipped" what is packed into it; of kinds "schema" and
        "metadata" the edits to a model file.
    """
    if kind == "gzipped":
        data = gzip.compress(data, compresslevel=1)
    if kind in ("schema", "metadata"):
        data = _edited_model(data, of_metadata=kind == "metadata")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"file.{_SUFFIXES.get(kind, kind)}")
        path.write_bytes(data)
        if kind in _MODELS:
            _check_command(["inspect", str(path)])
            (path.parent / "new.csv").write_bytes(b"a,b\n1,x\n2,z\n")
            _check_command(["predict", str(path), str(path.parent / "new.csv")])
            return
        with _only_own_errors():
            if kind == "grid":
                _read_grid(str(path))
            else:
                frame = read_table(path, max_bytes=MAX_BYTES)
                prepare(frame, str(frame.columns[-1]))


@contextlib.contextmanager
def _only_own_errors():
    """Errors that end in our own code, are of one line, and are meant for users; no warning."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    except (ValueError, ImportError, TypeError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if not last.filename.startswith(_PACKAGE) or "\n" in str(error):
            place = f"{Path(last.filename).name}:{last.lineno}"
            raise Violation(f"{place}: {type(error).__name__}: {error}") from error
    except Exception as error:
        raise Violation(repr(error)) from error


def _check_command(words):
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    except Exception as error:
        raise Violation(f"{words[0]}: {error!r}") from error
    said = [line for line in err.getvalue().splitlines() if "warning: " not in line]
    if code not in (0, 2) or len(said) != (code == 2):
        raise Violation(f"{words[0]}: exit code {code}, {len(said)} lines")
