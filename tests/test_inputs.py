"""Malformed input: one line that says what to do, exit code 2, no traceback, no file left behind.

Files are tried on the command line and in Python; options, outputs and models on the command line.
``test_cli.py`` and ``test_tables.py`` have the plain cases, ``test_validation.py`` those of arrays
and parameters; these are the sly ones.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzz_readers
from command import COMMAND, ENVIRONMENT
from onefit._files import write_aside
from onefit.cli import main
from onefit.persistence import ModelFileError, load_model
from onefit.preparation import prepare
from onefit.tables import read_table

ROWS = "".join(f"{i % 7}.5,{i % 5},{'uv'[i % 2] if i < 12 else ''}\n" for i in range(20))
GOOD = "a,b,y\n" + ROWS
#: Ten million bytes that hardly take any room when they are packed.
BALLAST = (b"x" * 997 + b",u\n") * 10**4


def parquet(frame, **options):
    buffer = io.BytesIO()
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame)
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def zipped(**entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def arff(*attributes, data="1,u\n2,v\n"):
    head = "".join(f"@attribute {attribute}\n" for attribute in attributes)
    return f"@relation r\n{head}@data\n{data}"


def with_target(cells):
    return "a,y\n" + "".join(f"{i % 7},{cell}\n" for i, cell in enumerate(cells))


def tiny_features():
    return "a,b,y\n" + "".join(f"{i},{i % 5}e-200,{'uv'[i % 2]}\n" for i in range(20))


#: Name, content, and a part of the message. The target is y.
FILES = {
    # encodings
    "UTF-16 without a mark": ("t.csv", GOOD.encode("utf-16-le"), "NUL bytes"),
    "UTF-32": ("t.csv", GOOD.encode("utf-32"), "UTF-16"),
    "quotes of Windows": ("t.csv", b"a,y\n1,\x93u\x94\n", "not UTF-8 text (byte 0x93)"),
    "Latin-1 far below": ("t.csv", (GOOD + "1,2,\n" * 20_000).encode() + b"\xe9,2,\n", "0xe9"),
    "cut in a character": ("t.csv", GOOD.encode() + "1,2,é".encode()[:-1], "not UTF-8"),
    "surrogates": ("t.csv", b"a,y\n\xed\xa0\x80,u\n", "not UTF-8"),
    "Latin-1 ARFF": ("t.arff", arff("a real", "y {u,v}").encode() + b"3,\xe9\n", "not UTF-8"),
    # empty
    "only a mark": ("t.csv", b"\xef\xbb\xbf", "is empty"),
    "only separators of lines": ("t.csv", b"\r\n\r\r\n", "is empty"),
    "only odd blanks": ("t.tsv", b"\x1c\x0b\n\x0c\n", "no columns"),
    "nothing, compressed": ("t.csv.gz", gzip.compress(b""), "is empty"),
    "a header and blank lines": ("t.csv", b"a,y\n\n\n\n", "no rows"),
    "ARFF without data": ("t.arff", arff("a real", "y {u,v}", data=""), "no rows"),
    "Parquet without rows": ("t.parquet", parquet(pd.DataFrame({"a": [], "y": []})), "no rows"),
    "Parquet without columns": ("t.parquet", parquet(pa.table({})), "no columns"),
    "LIBSVM remarks only": ("t.libsvm", b"# nothing\n# here\n", "no rows"),
    # ragged, quotes and line ends
    "a separator too many": ("t.csv", "a,b,y\n1,2,u,\n", "4 cells in line 2, but 3 columns"),
    "semicolons below commas": ("t.csv", "a,y\n1;u\n2;v\n", "1 cells in line 2"),
    "ragged after mixed line ends": ("t.csv", "a,y\r1,u\n2,v\r\n3\r", "1 cells in line 4"),
    "text behind a quote": ("t.csv", 'a,y\n"1"2,u\n', "quotes"),
    "an open quote": ("t.csv", 'a,y\n"1,u\n2,v\n', "quotes to be closed"),
    "ARFF row too long": ("t.arff", arff("a real", "y {u,v}", data="1,u,2\n"), "3 cells"),
    "TSV with commas": ("t.tsv", GOOD, "there is no column 'y'"),
    # names of columns
    "the target twice": ("t.csv", "y,a,y\nu,1,v\n", "two columns named 'y'"),
    "twice but for blanks": ("t.csv", "a, a ,y\n1,2,u\n", "two columns named 'a'"),
    "no name like a made-up one": ("t.csv", "column 2,,y\n1,2,u\n", "two columns named 'column 2'"),
    "ARFF twice": ("t.arff", arff("y real", "y real"), "two columns named 'y'"),
    "a name with line ends": ("t.csv", '"y\n\n",a\nu,1\nv,2\n' * 1, "one class only|all different"),
    "a name in other letters": ("t.csv", GOOD.replace("y", "Y", 1), "there is no column 'y'"),
    # huge
    "200,000 columns": ("t.csv", "," * 200_000 + "\n", "expected at most 100,000"),
    "a line of 17 million characters": ("t.csv", "a,y\n" + "1" * 17_000_000, "more than"),
    "a cell of 200,000 characters": ("t.csv", f"a,y\n{'x' * 200_000},u\n", "field larger"),
    "LIBSVM column 4,000,000,000": ("t.libsvm", b"1 4000000000:1\n", "no LIBSVM|columns"),
    "LIBSVM column below 0": ("t.libsvm", b"1 -1:1\n0 1:1\n", "no LIBSVM|columns"),
    # bombs
    "gzip bomb": ("t.csv.gz", gzip.compress(b"a,y\n" + BALLAST), "expands to more than"),
    "xz bomb": ("t.csv.xz", lzma.compress(b"a,y\n" + BALLAST), "expands to more than"),
    "bzip2 bomb": ("t.csv.bz2", bz2.compress(b"a,y\n" + BALLAST), "expands to more than"),
    "gzip in gzip": ("t.csv.gz", gzip.compress(gzip.compress(GOOD.encode())), "not text|UTF-8"),
    "zip": ("t.csv.zip", zipped(t_csv=GOOD), "a zip archive"),
    "Parquet bomb": (
        "t.parquet",
        parquet(pd.DataFrame({"a": np.zeros(10**6), "y": 0}), compression="zstd"),
        "raise --max-bytes",
    ),
    # cut short and mixed up
    "gzip cut short": ("t.csv.gz", gzip.compress(GOOD.encode())[:-9], "cut short"),
    "gzip with rubbish behind": ("t.csv.gz", gzip.compress(GOOD.encode()) + b"junk", "damaged"),
    "Parquet cut short": ("t.parquet", parquet(pd.DataFrame({"y": [1]}))[:-5], "no Parquet file"),
    "Parquet of which only marks are left": ("t.parquet", b"PAR1" * 3, "no Parquet file"),
    "CSV as Parquet": ("t.parquet", GOOD, "no Parquet file"),
    "CSV as ARFF": ("t.arff", GOOD, "expected ARFF"),
    "CSV as LIBSVM": ("t.svm", GOOD, "no LIBSVM"),
    "a pickle": ("t.csv", b"\x80\x04\x95\x00\x00\x00", "not text"),
    "a picture": ("t.csv", b"\x89PNG\r\n\x1a\n\x00\x00", "not text"),
    "a NUL far below": ("t.csv", GOOD + "1,2,\n" * 20_000 + "1\x00,2,u\n", "NUL bytes"),
    "a PDF": ("t.csv", b"%PDF-1.7\n", "a PDF document"),
    "an Excel file": ("t.xlsx", zipped(xl_workbook=GOOD), "Excel"),
    # ARFF and Parquet that say strange things
    "ARFF with an unknown word": ("t.arff", "@relation r\n@attrib y real\n", "expected ARFF"),
    "ARFF without @data": ("t.arff", "@relation r\n@attribute y real\n1\n", "expected ARFF"),
    "ARFF text for numbers": ("t.arff", arff("a real", "y real"), "declared real"),
    "sparse ARFF": ("t.arff", arff("a real", "y real", data="{0 1}\n"), "sparse ARFF"),
    "Parquet lists": ("t.pq", parquet(pd.DataFrame({"a": [[1]], "y": [1]})), "one number, text"),
    "Parquet records": ("t.pq", parquet(pd.DataFrame({"a": [{"b": 1}], "y": [1]})), "one number"),
    # the target
    "no such target": ("t.csv", "a,b\n1,u\n2,v\n", "there is no column 'y'"),
    "nothing known": ("t.csv", with_target(["", "?", "NA", "null"] * 3), "empty in all 12 rows"),
    "one class": ("t.csv", with_target(["u", "u", ""] * 4), "one class only"),
    "all different": ("t.csv", with_target("abcdefghij"), "all different"),
    "all different numbers": ("t.csv", with_target(range(10**17, 10**17 + 9)), "all different"),
    "infinite target": ("t.csv", with_target([*np.arange(20) + 0.5, "inf"]), "finite numbers"),
    "decimal commas in the target": ("t.csv", with_target(['"1,5"', '"2,5"'] * 6), "with commas"),
    "decimal commas": ("t.csv", "a;y\n" + "1,5;u\n2,5;v\n7;u\n" * 4, "such as '1,5'"),
    "commas between thousands": ("t.csv", "a\ty\n" + "1,234.5\tu\n2,000\tv\n" * 5, "commas"),
    "features beyond squares": ("t.csv", GOOD + "1e200,2,\n", "column 'a' has 1e+200 in row 21"),
    "features below squares": ("t.csv", tiny_features(), "column 'b' has numbers that differ by"),
    "targets beyond squares": ("t.csv", with_target(np.arange(20) * 1.5e299), "'y' has values up"),
    "targets below squares": ("t.csv", with_target(np.arange(20) * 1.5e-200), "'y' has values up"),
    "nothing but the target": ("t.csv", "y\n" + "u\nv\n" * 6, "no feature is left"),
    "nothing that varies": ("t.csv", "a,b,y\n" + "1,,u\n1,,v\n" * 6, "no feature is left"),
}  # fmt: skip

BELOW_ROUNDING = '{"ambient_penalty": [1, 1e-100], "fit_intercept": [true], "n_components": [9]}'
PENALTIES = ("kernel_width", "ambient_penalty", "manifold_penalty")
#: Content, and a part of the message.
GRIDS = {
    "deep": ("[" * 100_000, "no JSON"),
    "infinite": ('{"kernel_width": [1e400]}', "finite number"),
    "endless": (json.dumps(dict.fromkeys(PENALTIES, [1] * 1000)), "1,000,000,000 candidates"),
    "precomputed": ('{"kernel": ["precomputed"]}', "table of columns"),
    "many digits": ('{"kernel_width": [' + "9" * 5000 + "]}", "no JSON"),
    "a truth value": ('{"kernel_width": [true]}', "of type bool"),
    "empty": ("{}", "expected an object"),
    "a penalty without digits": ('{"ambient_penalty": [1, 1e-320]}', "1e-100 to 1e+100. Candidate"),
    "a penalty near the end": ('{"manifold_penalty": [1e308]}', "manifold_penalty=1e+308 is too"),
    "a width without digits": ('{"graph_width": [1e-320]}', "graph_width=1e-320 is too close"),
    "a penalty below rounding": (BELOW_ROUNDING, "Candidate: model__ambient_penalty=1e-100, "),
    "many neighbours": ('{"n_neighbors": [4000]}', "n_neighbors=4000"),
}
SELECT = ["select", "good.csv", "--target", "y"]
LONG = "x" * 300
#: Arguments, and a part of the message.
COMMANDS = {
    # paths
    "a file above": (["select", "../absent/t.csv", "--target", "y"], "No such file"),
    "NUL in the name of DATA": (["select", "a\0b.csv", "--target", "y"], "null"),
    "NUL in the name of an output": ([*SELECT, "--out", "a\0b"], "no name of a file"),
    "NUL in the name of a model": (["inspect", "a\0b"], "cannot be read|no model file"),
    "links in a circle": (["select", "circle.csv", "--target", "y"], "no name of a file|cannot be"),
    "a model in a circle": (["inspect", "circle.csv"], "cannot be read"),
    "a name too long": ([*SELECT, "--out", LONG], "too long"),
    "no name": (["select", "", "--target", "y"], "is a folder"),
    "the data by a link": ([*SELECT, "--out", "link.csv"], "is an input"),
    "the data by a detour": ([*SELECT, "--report", "folder/../good.csv"], "is an input"),
    "a device for output": ([*SELECT, "--out", "/dev/full"], "device or a pipe"),
    "no device for output": ([*SELECT, "--results", "/dev/null"], "device or a pipe"),
    "a pipe for output": ([*SELECT, "--report", "pipe"], "device or a pipe"),
    "a device for a checkpoint": ([*SELECT, "--checkpoint", "/dev/zero"], "device or a pipe"),
    "a device for data": (["select", "/dev/zero", "--target", "y"], "NUL bytes"),
    "a device for a model": (["inspect", "/dev/zero"], "device or a pipe"),
    "a device for a grid": ([*SELECT, "--grid", "/dev/zero"], "no JSON"),
    "a folder for a model": (["inspect", "folder"], "cannot be read"),
    "a folder for a grid": ([*SELECT, "--grid", "folder"], "cannot be read"),
    "a folder for a checkpoint": ([*SELECT, "--checkpoint", "folder"], "is a folder"),
    "a file as a folder": ([*SELECT, "--out", "good.csv/m.skops"], "folder does not exist"),
    # names that promise another format
    "results for Excel": ([*SELECT, "--results", "cv.xlsx"], "expected .csv"),
    "results as Parquet": ([*SELECT, "--results", "cv.parquet"], "expected .csv"),
    "predictions for Excel": (["predict", "m", "good.csv", "--out", "p.xlsx"], "expected .csv"),
    "predictions as JSON": (["predict", "m", "good.csv", "--out", "p.json.gz"], "expected .csv"),
    "Parquet, compressed": (["predict", "m", "good.csv", "--out", "p.parquet.gz"], "expected .csv"),
    # options
    "size beyond numbers": ([*SELECT, "--max-bytes", "9" * 400 + "GB"], "expected bytes"),
    "size of nothing": ([*SELECT, "--memory-limit", "0"], "expected bytes"),
    "size below 0": ([*SELECT, "--max-bytes=-5"], "expected bytes"),
    "seed too large": ([*SELECT, "--seed", "4294967296"], "to 4294967295"),
    "seed below 0": ([*SELECT, "--seed=-1"], "whole number"),
    "no processes": ([*SELECT, "--jobs", "0"], "at least 1"),
    "processes without end": ([*SELECT, "--jobs", "100000"], "number of processes"),
    "half a process": ([*SELECT, "--jobs", "1.5"], "number of processes"),
    "repeats without end": ([*SELECT, "--repeats", "1000000000"], "from 1 to 1000"),
    "folds without end": ([*SELECT, "--folds", "9" * 30], "more than the 12 labels"),
    "everything unlabelled": ([*SELECT, "--unlabeled=u", "--unlabeled=v"], "empty in all"),
    "nothing to keep": ([*SELECT, "--keep", "zzz"], "no column 'zzz'"),
    "no score": ([*SELECT, "--scoring", ""], "scorer"),
    "an option without its value": ([*SELECT, "--out"], "expected one argument"),
    "negative labels": (["demo", "--labels", "-3"], "from 1 to 342"),
    # grids
    **{
        f"grid: {name}": ([*SELECT, "--quiet", "--grid", f"{name}.json"], message)
        for name, (_, message) in GRIDS.items()
    },
    # models
    "a zip that is no model": (["inspect", "zip.skops"], "no model file"),
    "a model that is a bomb": (["inspect", "bomb.skops"], "expands to"),
    "a schema without end": (["inspect", "deep.skops"], "no model file"),
    "a foreign type": (["predict", "foreign.skops", "good.csv"], "os.system"),
    "a table for a model": (["predict", "good.csv", "good.csv"], "no model file"),
}  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with sound and unsound things, as the current one."""
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text(GOOD)
    Path("small.json").write_text('{"kernel_width": [1.0], "manifold_penalty": [0.0]}')
    Path("folder").mkdir()
    Path("link.csv").symlink_to("good.csv")
    Path("circle.csv").symlink_to("circle.csv")
    os.mkfifo("pipe")
    for name, (text, _) in GRIDS.items():
        Path(f"{name}.json").write_text(text)
    Path("zip.skops").write_bytes(zipped(x_txt="x"))
    Path("deep.skops").write_bytes(zipped(schema_json="[" * 100_000))
    node = {"__module__": "os", "__class__": "system", "__loader__": "TypeNode"}
    Path("foreign.skops").write_bytes(zipped(schema_json=json.dumps(node)))
    bomb = bytearray(zipped(schema_json="{}"))
    at = bomb.index(b"PK\x01\x02") + 24  # what it says it expands to
    bomb[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    Path("bomb.skops").write_bytes(bytes(bomb))
    return tmp_path


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def everything(folder):
    """All names below a folder, and what the plain files hold."""
    paths = sorted(path for path in folder.rglob("*"))
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


def assert_refused(arguments, message, folder, capsys):
    before = everything(folder)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith("onefit: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert any(part in said.err for part in message.split("|")), said.err
    assert everything(folder) == before


def test_there_are_at_least_80():
    contents = {as_bytes(content) for _, content, _ in FILES.values()}
    commands = {tuple(arguments) for arguments, _ in COMMANDS.values()}
    assert len(contents) + len(commands) >= 80
    assert min(len(contents), len(commands)) >= 40


@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path, monkeypatch, capsys):
    file, content, message = FILES[name]
    monkeypatch.chdir(tmp_path)
    Path(file).write_bytes(as_bytes(content))
    limit = 8 * 10**6 if "bomb" in name else 10**9
    arguments = ["select", file, "--target", "y", "--max-bytes", str(limit), "--out", "m.skops"]
    assert_refused(arguments, message, tmp_path, capsys)
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as caught:
        prepare(read_table(file, max_bytes=limit), "y")
    assert any(part in str(caught.value) for part in message.split("|"))


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name, place, capsys):
    arguments, message = COMMANDS[name]
    assert_refused(arguments, message, place, capsys)


def test_as_a_process(place):
    """Also when the output is full, and when the name is no text."""
    arguments = ["select", os.fsdecode(b"\xff.csv"), "--target", "y"]
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, check=False, env=ENVIRONMENT, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *SELECT, "--grid", "small.json", "--repeats", "1", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=ENVIRONMENT,
            timeout=100,
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"No space left" in done.stderr


def test_devices_stay_devices(place):
    with pytest.raises(ValueError, match="device or a pipe"), write_aside("pipe"):
        pytest.fail("nothing can be written here")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


# What is odd and read nevertheless.


def test_row_labels_of_pandas_are_no_column(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u", "v", None]}, index=[5, 7, 9])
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns.tolist() == ["a", "y"]
    frame.rename_axis("when").to_parquet(tmp_path / "t.parquet")
    assert sorted(read_table(tmp_path / "t.parquet").columns) == ["a", "when", "y"]


def test_a_text_stored_once_is_held_once(tmp_path):
    """A thousand bytes that expand to gigabytes, if every cell gets its own copy."""
    codes = pa.array(np.arange(4000) % 2, type=pa.int32())
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 10**6, "y" * 10**6]))
    content = parquet(pa.table({"a": texts}), compression="zstd", store_schema=False)
    assert len(content) < 2000
    (tmp_path / "t.parquet").write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read_table(tmp_path / "t.parquet").shape == (4000, 1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 5 * 10**8


def test_decimals_are_numbers(tmp_path):
    table = pa.table({"a": pa.array([1, 2, 3]).cast(pa.decimal128(21, 2)), "y": [1, 2, 1]})
    (tmp_path / "t.parquet").write_bytes(parquet(table))
    assert read_table(tmp_path / "t.parquet")["a"].tolist() == [1.0, 2.0, 3.0]


def test_long_class_numbers_stay_apart(tmp_path):
    (tmp_path / "t.csv").write_text(with_target([2**53, 2**53 + 1] * 6))
    prepared = prepare(read_table(tmp_path / "t.csv"), "y", task="classification")
    assert set(prepared.y) == {str(2**53), str(2**53 + 1)}


def test_a_link_at_the_output_is_replaced(place, capsys):
    Path("old").write_text("as it was")
    Path("new.skops").symlink_to("old")
    options = ["--grid", "small.json", "--repeats", "1", "--quiet", "--out", "new.skops"]
    assert main([*SELECT, *options]) == 0
    assert Path("old").read_text() == "as it was"
    assert not Path("new.skops").is_symlink()
    # Formula-like cells go through as they are: nothing is repaired silently.
    Path("new.csv").write_text("a,b,remark\n1,2,=cmd()\n3,4,@SUM(A1)\n")
    assert main(["predict", "new.skops", "new.csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[2] for line in lines[1:]] == ["=cmd()", "@SUM(A1)"]


# Fuzzing, a little of it; benchmarks/fuzz.py does more.


@st.composite
def mutated(draw):
    """A kind of file, and its bytes with a few pieces replaced, repeated or taken out."""
    kind = draw(st.sampled_from(sorted(fuzz_readers.SEEDS)))
    data = fuzz_readers.SEEDS[kind]()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 9)))
        data = data[:at] + draw(st.binary(max_size=6)) * draw(st.integers(1, 3)) + data[end:]
    return kind, data


@given(mutated())
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_readers_refuse_what_they_cannot_read(file):
    fuzz_readers.check(*file)


@pytest.mark.parametrize("kind", ["schema", "metadata"])
def test_edited_models_are_refused_or_work(kind):
    rng = np.random.default_rng(0)
    for _ in range(40):
        fuzz_readers.check(kind, rng.bytes(3 * int(rng.integers(1, 3))))


def test_metadata_that_select_does_not_write(place, capsys):
    content = fuzz_readers._edited_model(b"\x00\x00\x07", of_metadata=True)
    Path("m.skops").write_bytes(content)
    assert_refused(["inspect", "m.skops"], "metadata that onefit select does not", place, capsys)
    assert load_model("m.skops")[1]["cv_score"] == "x"
    Path("m.skops").write_bytes(content[:-100])
    with pytest.raises(ModelFileError, match=r"\A[^\n]+\Z"):
        load_model("m.skops")
