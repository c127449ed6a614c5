"""Files from strangers run nothing, outputs go where they were sent, and versions are pinned."""

import ast
import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import onefit
from command import ENVIRONMENT, GRID
from onefit import LapRLSClassifier
from onefit.cli import main
from onefit.datasets._libsvm_table import LIBSVM_SETS
from onefit.persistence import ModelFileError, load_model, save_model
from test_persistence import METADATA, Shell, call_node, fitted
from test_report import HOSTILE, Page

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "good.skops"
    save_model(fitted(LapRLSClassifier)[0], path, METADATA)
    return path


def rewritten(source, path, change=None, members=None):
    """A copy of a model file with another schema, and other or more members."""
    with zipfile.ZipFile(source) as good, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bad:
        contents = {name: good.read(name) for name in good.namelist()} | (members or {})
        schema = json.loads(contents.pop("schema.json"))
        if change is not None:
            change(schema)
        for name, content in contents.items():
            bad.writestr(name, content)
        bad.writestr("schema.json", json.dumps(schema))
    return path


# Gadgets.


def node(loader, name, **fields):
    module, _, kind = name.rpartition(".")
    return {"__class__": kind, "__module__": module, "__loader__": loader, "__id__": 0, **fields}


def text(value):
    return node("JsonNode", "builtins.str", content=json.dumps(value), is_json=True)


def items(kind, *values):
    loader = "TupleNode" if kind == "tuple" else "ListNode"
    return node(loader, f"builtins.{kind}", content=list(values))


def pairs(**values):
    keys = items("list", *[node("TypeNode", "builtins.str") for _ in values])
    return node("DictNode", "builtins.dict", content=values, key_types=keys)


def gadgets(mark):
    """Nodes by which skops would run ``touch mark``, or hand out what could."""
    shell = f"touch {mark}"
    words = items("list", text("touch"), text(str(mark)))
    code = f"open({str(mark)!r}, 'w')"
    system = node("FunctionNode", "os.system")
    nothing = node("JsonNode", "builtins.str", content="null", is_json=True)
    partial = {
        "func": system,
        "args": items("tuple", text(shell)),
        "kwds": pairs(),
        "namespace": nothing,
    }
    bits = pairs(bit_generator=text("seed"))
    return {
        "constructor": node(
            "ConstructorFromReduceNode", "subprocess.Popen", content=items("tuple", words)
        ),
        "allowed type, constructor": node(
            "ConstructorFromReduceNode", "builtins.str", content=items("tuple", words)
        ),
        "operator": call_node(shell),
        "methodcaller": node(
            "OperatorFuncNode", "operator.methodcaller", attrs=items("tuple", text("system"))
        ),
        "attrgetter": node(
            "OperatorFuncNode", "operator.attrgetter", attrs=items("tuple", text("__globals__"))
        ),
        "system": system,
        "eval": node("FunctionNode", "builtins.eval"),
        "exec of protocol 0": node(
            "FunctionNode",
            "builtins.str",
            content={"module_path": "builtins", "function": "exec", "code": code},
        ),
        "import": node("FunctionNode", "builtins.__import__"),
        "type": node("TypeNode", "subprocess.Popen"),
        "partial": node("PartialNode", "functools.partial", content=partial),
        "method": node(
            "MethodNode", "builtins.str", content={"func": "format", "obj": text(shell)}
        ),
        "object": node("ObjectNode", "subprocess.Popen", content=pairs(args=words)),
        "list type": node("ListNode", "subprocess.Popen", content=[words]),
        "keys": pairs(x=text("1")) | {"key_types": items("list", node("TypeNode", "os.system"))},
        "generator": node(
            "RandomGeneratorNode",
            "numpy.random.Generator",
            content={"bit_generator": bits, "seed_seq": pairs()},
        ),
        "no class": {"__loader__": "FunctionNode", "__module__": "os", "__id__": 0},
        "no loader": {"__class__": "system", "__module__": "os", "content": []},
    }


def numbered(value, ids):
    """Nodes with numbers of their own: skops takes an equal number for the same object."""
    if isinstance(value, list):
        return [numbered(one, ids) for one in value]
    if isinstance(value, dict):
        value = {key: numbered(one, ids) for key, one in value.items()}
        return value | {"__id__": next(ids)} if "__id__" in value else value
    return value


def with_gadget(name, mark):
    return numbered(gadgets(mark)[name], iter(range(10**9, 10**9 + 1000)))


def put_beside(schema, gadget):
    schema["content"]["extra"] = gadget
    schema["key_types"]["content"].append(numbered(node("TypeNode", "builtins.str"), iter([10**8])))


def put_inside(schema, gadget):
    """As an attribute of the estimator."""
    steps = schema["content"]["model"]["content"]["content"]["steps"]["content"]
    steps[-1]["content"][1]["content"]["content"]["kernel_params"] = gadget


@pytest.mark.parametrize("place", [put_beside, put_inside])
@pytest.mark.parametrize("name", list(gadgets("mark")))
def test_gadgets_are_refused(name, place, model_file, tmp_path):
    mark = tmp_path / "mark"
    path = rewritten(
        model_file, tmp_path / "bad.skops", lambda s: place(s, with_gadget(name, mark))
    )
    with pytest.raises(ModelFileError, match="types that no onefit model has"):
        load_model(path)
    assert main(["inspect", str(path)]) == 2
    assert not mark.exists()


def test_the_gadgets_are_no_duds(model_file, tmp_path):
    """Loaded by skops with every type trusted, one of them does run the command."""
    mark = tmp_path / "mark"
    gadget = with_gadget("constructor", mark)
    gadget["__class__"] = "run"
    path = rewritten(model_file, tmp_path / "bad.skops", lambda s: put_beside(s, gadget))
    trusted = skops.io.get_untrusted_types(file=path)
    assert "subprocess.run" in trusted
    skops.io.load(path, trusted=trusted)
    assert mark.exists()


@pytest.mark.parametrize("function", [os.system, eval, np.load], ids=lambda f: f.__name__)
def test_functions_in_pipelines_are_refused(function, tmp_path):
    model = make_pipeline(FunctionTransformer(function), LapRLSClassifier())
    path = tmp_path / "m.skops"
    skops.io.dump({"format": "onefit-model-1", "metadata": "{}", "model": model}, path)
    with pytest.raises(ModelFileError, match="FunctionTransformer"):
        load_model(path)


def npy(array):
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(**arrays):
    buffer = BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["pickle", "npy", "npz"])
def test_pickles_in_the_place_of_arrays(kind, model_file, tmp_path):
    mark = tmp_path / "mark"
    evil = np.array([Shell(["touch", str(mark)])], dtype=object)
    content = {"pickle": pickle.dumps(evil), "npy": npy(evil), "npz": npz(a=evil)}[kind]
    with zipfile.ZipFile(model_file) as archive:
        arrays = [name for name in archive.namelist() if name.endswith(".npy")]
    members = dict.fromkeys(arrays, content)
    path = rewritten(model_file, tmp_path / "bad.skops", members=members)
    try:
        model, _ = load_model(path)
        with pytest.raises((TypeError, ValueError, AttributeError)):
            model.predict(fitted(LapRLSClassifier)[1])
    except ModelFileError as error:
        assert "is damaged" in str(error)  # noqa: PT017
    assert not mark.exists()


def test_names_of_members_lead_nowhere(model_file, tmp_path):
    outside = tmp_path / "outside"
    members = {"../outside": b"x", str(outside): b"x", "a/../../outside": b"x"}
    folder = tmp_path / "folder"
    folder.mkdir()
    path = rewritten(model_file, folder / "m.skops", members=members)
    load_model(path)
    assert sorted(os.listdir(tmp_path)) == ["folder"]
    assert os.listdir(folder) == ["m.skops"]


# Bombs.


def sparse_node(name):
    kind = "scipy.sparse._csr.csr_matrix"
    return node("SparseMatrixNode", kind, type="scipy", file=name)


def test_a_sparse_matrix_cannot_hide_a_bomb(model_file, tmp_path, monkeypatch):
    monkeypatch.setattr("onefit.persistence._MAX_BYTES", 10**6)
    load_model(model_file)
    matrix = sparse.csr_matrix(np.zeros((1, 1)))
    bomb = npz(
        format=b"csr",
        data=np.zeros(10**6),
        indices=matrix.indices,
        indptr=matrix.indptr,
        shape=(1, 1),
    )
    assert len(bomb) < 10**4
    gadget = sparse_node("b.npz") | {"__id__": 10**9}
    path = rewritten(
        model_file, tmp_path / "b.skops", lambda s: put_beside(s, gadget), {"b.npz": bomb}
    )
    with pytest.raises(ModelFileError, match="refused, because it expands to 8,"):
        load_model(path)


def refusal(path, X, capsys):
    """What the command and the loader say; a crash of ``predict`` would end the tests."""
    with pytest.raises(ModelFileError) as caught:
        load_model(path)[0].predict(X)
    assert main(["inspect", str(path)]) == 2
    assert capsys.readouterr().err == f"onefit: {caught.value}\n"
    return str(caught.value)


@pytest.mark.parametrize(
    "part, values, message",
    [
        ("indices", [2**30, 1], "is damaged.* indices"),
        ("indices", [-5, 1], "is damaged.* indices"),
        ("indptr", [0, 9, 2], "is damaged.* (indptr|index pointer)"),
        ("format", b"csc", "is damaged"),
    ],
)
def test_sparse_rows_that_lead_out_of_their_arrays(part, values, message, tmp_path, capsys):
    model, X = fitted(LapRLSClassifier)
    model[-1].X_fit_ = sparse.csr_array(model[-1].X_fit_)
    save_model(model, tmp_path / "good.skops", METADATA)
    again = load_model(tmp_path / "good.skops")[0]
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X))
    with zipfile.ZipFile(tmp_path / "good.skops") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".npz")]
        with np.load(BytesIO(archive.read(name))) as stored:
            arrays = dict(stored)
    if part == "format":
        arrays[part] = values
    else:
        arrays[part][: len(values)] = values
    path = rewritten(tmp_path / "good.skops", tmp_path / "bad.skops", members={name: npz(**arrays)})
    assert re.search(message, refusal(path, X, capsys))


@pytest.mark.parametrize("loader", ["ObjectNode", "TupleNode"])
def test_sparse_matrices_are_built_in_one_way(loader, model_file, tmp_path):
    gadget = node(loader, "scipy.sparse._csr.csr_array", content=[]) | {"__id__": 10**9}
    path = rewritten(model_file, tmp_path / "b.skops", lambda s: put_inside(s, gadget))
    with pytest.raises(ModelFileError, match=f"csr_array by {loader}"):
        load_model(path)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("X_fit_", lambda a: a[:-1], "X_fit_ has shape"),
        ("X_fit_", lambda a: a[:, 1:], "X_fit_ has shape"),
        ("X_fit_", lambda a: a * np.nan, "X_fit_ has values that are not finite"),
        ("dual_coef_", lambda a: a[1:], "dual_coef_ has shape"),
        ("dual_coef_", lambda a: a + np.inf, "dual_coef_ has values that are not finite"),
        ("intercept_", lambda a: np.zeros(7), "dual_coef_ has shape"),
        ("intercept_", lambda a: a[:, None], "intercept_ has shape"),
        ("intercept_", lambda a: a * np.nan, "intercept_ has values that are not finite"),
    ],
)
def test_arrays_that_do_not_fit_each_other(name, change, message, tmp_path, capsys):
    model, X = fitted(LapRLSClassifier)
    setattr(model[-1], name, change(getattr(model[-1], name)))
    save_model(model, tmp_path / "m.skops", METADATA)
    said = refusal(tmp_path / "m.skops", X, capsys)
    assert "is damaged" in said
    assert message in said


def test_an_array_named_many_times_counts_many_times(model_file, tmp_path, monkeypatch):
    monkeypatch.setattr("onefit.persistence._MAX_BYTES", 10**6)
    many = items(
        "list",
        *[
            node("NdArrayNode", "numpy.ndarray", type="numpy", file="a.npy") | {"__id__": 10**9 + i}
            for i in range(100)
        ],
    )
    content = {"a.npy": npy(np.zeros(2000))}
    path = rewritten(model_file, tmp_path / "b.skops", lambda s: put_beside(s, many), content)
    with pytest.raises(ModelFileError, match="refused, because it expands to 1,6"):
        load_model(path)


def test_an_array_that_lies_about_its_size(model_file, tmp_path):
    short = npy(np.zeros(3)).replace(b"'shape': (3,), }        ", b"'shape': (3000000,), }  ")
    assert b"3000000" in short
    gadget = node("NdArrayNode", "numpy.ndarray", type="numpy", file="a.npy") | {"__id__": 10**9}
    path = rewritten(
        model_file, tmp_path / "b.skops", lambda s: put_beside(s, gadget), {"a.npy": short}
    )
    with pytest.raises(ModelFileError, match="is damaged"):
        load_model(path)


def test_deep_nesting(model_file, tmp_path):
    gadget = text("x")
    for i in range(300):
        gadget = items("list", gadget) | {"__id__": 10**9 + i}
    path = rewritten(model_file, tmp_path / "b.skops", lambda s: put_beside(s, gadget))
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len_of_stack() + 250)
        with pytest.raises(ModelFileError):
            load_model(path)
    finally:
        sys.setrecursionlimit(limit)


def len_of_stack():
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def test_any_damage_to_a_model_file_is_one_error(model_file, tmp_path):
    whole, path = model_file.read_bytes(), tmp_path / "m.skops"
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged if rng.random() < 0.8 else damaged[: rng.integers(len(whole))])
        try:
            load_model(path)
        except ModelFileError:
            refused += 1
    assert refused > 200


# Outputs.


def hostile_table(folder):
    """A table whose names and cells are markup."""
    rng = np.random.default_rng(0)
    X, classes = rng.normal(size=(60, 2)), [HOSTILE.replace("\u2028", ""), "=cmd|' /C calc'!A0"]
    lines = ['a,"<b>bold</b>",y']
    for i, (a, b) in enumerate(X):
        label = classes[int(a > 0)].replace('"', '""')
        lines.append(f'{a},{b},"{label if i % 3 == 0 else ""}"')
    path = folder / "<script>alert(1)<|script>.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    (folder / "grid.json").write_text(json.dumps(GRID))
    return path


def test_the_report_of_a_hostile_table(tmp_path):
    data, report = hostile_table(tmp_path), tmp_path / "<img>.html"
    words = [str(data), "--target", "y", "--grid", str(tmp_path / "grid.json"), "--quiet"]
    assert main(["select", *words, "--report", str(report)]) == 0
    page = Page(report.read_text(encoding="utf-8"))
    assert not page.all("img")
    assert not page.all("b")
    assert len(page.all("script")) == 2
    assert "alert(1)" in page.text
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)


RECORDER = """
import json, os, sys
touched = []
def record(event, args):
    if event == "open" and isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR):
        touched.append(args[0])
    elif event in ("os.rename", "os.link", "os.symlink"):
        touched.extend(map(os.fsdecode, args[:2]))
    elif event in ("os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
        touched.append(os.fsdecode(args[0]))
    elif event == "socket.connect":
        touched.append(repr(args))
sys.addaudithook(record)
from onefit.cli import main
codes = [main(words) for words in json.loads(sys.argv[1])]
print(json.dumps([codes, [os.path.realpath(path) for path in touched if path != os.devnull]]))
"""


def test_nothing_is_written_elsewhere(tmp_path):
    folders = {name: tmp_path / name for name in ("in", "out", "home", "tmp", "cwd")}
    for folder in folders.values():
        folder.mkdir()
    data, out = str(hostile_table(folders["in"])), folders["out"]
    before = {path: path.stat().st_mtime_ns for path in folders["in"].iterdir()}
    names = {"out": "m.skops", "report": "r.html", "results": "c.csv.gz", "checkpoint": "kept"}
    files = [word for key, name in names.items() for word in (f"--{key}", str(out / name))]
    grid = str(folders["in"] / "grid.json")
    commands = [
        ["select", data, "--target", "y", "--grid", grid, "--quiet", *files],
        ["predict", str(out / "m.skops"), data, "--quiet", "--out", str(out / "p.csv")],
    ]
    environment = {
        **ENVIRONMENT,
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["tmp"]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", RECORDER, json.dumps(commands)],
        capture_output=True,
        check=True,
        cwd=folders["cwd"],
        env=environment,
    )
    codes, touched = json.loads(done.stdout)
    assert codes == [0, 0]
    wanted = {*names.values(), "p.csv"}
    # Python itself may look for libraries by way of a temporary file, which is gone at the end.
    touched = [path for path in touched if Path(path).parent != folders["tmp"].resolve()]
    assert {Path(path).parent for path in touched} == {out.resolve()}
    aside = re.compile(r"\.(.+)\.[0-9a-f]{12}")
    assert {aside.sub(r"\1", Path(path).name) for path in touched} == wanted
    assert set(os.listdir(out)) == wanted
    assert {path: path.stat().st_mtime_ns for path in folders["in"].iterdir()} == before
    assert [os.listdir(folders[name]) for name in ("home", "tmp", "cwd")] == [[], [], []]


# What is relied on.


def test_every_download_has_a_checksum():
    """That a wrong one is refused, and not kept, is tested with the loader."""
    for name, known in LIBSVM_SETS.items():
        assert re.fullmatch("[0-9a-f]{64}", known.checksum), name


SOURCES = list(Path(onefit.__file__).parent.rglob("*.py"))
FORBIDDEN = {"eval", "exec", "compile", "__import__", "system", "popen"}
DANGEROUS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "subprocess", "ctypes"}
#: Routines of LAPACK and of the C library, by names that stand in the code.
ALLOWED = {
    "_lapack.py": {"ctypes"},
    "_interrupts.py": {"ctypes"},
    "_subnormals.py": {"ctypes"},
}


@pytest.mark.parametrize("folder", sorted({p.parent for p in SOURCES}), ids=lambda p: p.name)
def test_the_package_runs_no_code_that_it_reads(folder):
    parts = [
        (path.name, part)
        for path in folder.glob("*.py")
        for part in ast.walk(ast.parse(path.read_text()))
    ]
    for name, part in parts:
        if isinstance(part, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in part.names} | {getattr(part, "module", "") or ""}
            found = DANGEROUS & {one.split(".")[0] for one in names}
            assert found <= ALLOWED.get(name, set())
        if isinstance(part, ast.Call):
            assert getattr(part.func, "id", None) not in FORBIDDEN
            owner = getattr(getattr(part.func, "value", None), "id", None)
            assert not (owner in ("os", "builtins") and part.func.attr in FORBIDDEN)
            for keyword in part.keywords:
                is_true = getattr(keyword.value, "value", None) is True
                assert not (keyword.arg in ("shell", "allow_pickle") and is_true)


@pytest.mark.skipif(not (ROOT / "requirements").is_dir(), reason="installed without the repository")
def test_the_lock_pins_every_dependency():
    lines = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in pins)
    names = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [one for key, some in extras.items() if key != "experiments" for one in some]
    direct = {re.match(r"[\w.-]+", one)[0].lower() for one in wanted} - {"onefit"}
    assert direct <= names
