"""Tables from files: every format, and one clear line for every file that is none."""

import bz2
import gzip
import io
import lzma
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from onefit.cli import options
from onefit.tables import FORMATS, TableError, iter_table, read_table


@pytest.fixture
def write(tmp_path):
    def _write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _write


def test_formats_are_those_of_the_command_line():
    assert options.FORMATS == FORMATS


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,x\n2,\n",
        b"\xef\xbb\xbfa,b\n1,x\n2,\n",
        b"a;b\r\n1;x\r\n2;\r\n",
        b"a\tb\r1\tx\n2\t\r\n",
        b'a|b\n"1"|x\n\n2|',
    ],
    ids=["plain", "bom", "semicolon", "mixed line ends", "bar, blank line, no last line end"],
)
def test_csv_cells_are_kept_as_written(write, content):
    frame = read_table(write("t.csv", content))
    assert frame.to_dict("list") == {"a": ["1", "2"], "b": ["x", ""]}


def test_csv_quotes_hold_separators_and_line_ends(write):
    frame = read_table(write("t.csv", '"a;b",c\n"x,\ny","say ""hi"""\n'))
    assert frame.to_dict("list") == {"a;b": ["x,\ny"], "c": ['say "hi"']}


@pytest.mark.parametrize("tool, suffix", [(gzip, "gz"), (lzma, "xz"), (bz2, "bz2")])
def test_compression_is_seen_whatever_the_name(write, tool, suffix):
    packed = tool.compress(b"a\tb\n1\t2\n")
    assert read_table(write(f"t.tsv.{suffix}", packed)).to_dict("list") == {"a": ["1"], "b": ["2"]}
    assert read_table(write("t.tsv", packed)).shape == (1, 2)


def test_arff_has_declared_types(write):
    text = (
        "% comment\n@RELATION r\n@ATTRIBUTE 'a b' NUMERIC\n@attribute k {x,'y z'}\n"
        "@attribute s string\n@DATA\n1.5, x, 'it\\'s'\n?, 'y z', q\n"
    )
    frame = read_table(write("t.arff", text))
    assert frame["a b"].tolist()[0] == 1.5
    assert np.isnan(frame["a b"].tolist()[1])
    assert isinstance(frame["k"].dtype, pd.CategoricalDtype)
    assert frame["k"].tolist() == ["x", "y z"]
    assert frame["s"].tolist() == ["it's", "q"]


def test_libsvm_without_suffix_is_recognised(write):
    path = write("a1a.xz", lzma.compress(b"+1 1:0.5 3:2\n-1 2:1 # c\n"))
    frame = read_table(path)
    assert frame.columns.tolist() == ["target", "x1", "x2", "x3"]
    np.testing.assert_array_equal(frame.to_numpy(), [[1, 0.5, 0, 2], [-1, 0, 1, 0]])
    (block,) = iter_table(path, columns=["x3", "x9"])
    np.testing.assert_array_equal(block.to_numpy(), [[1, 2, 0], [-1, 0, 0]])


def test_libsvm_counted_from_zero_keeps_its_first_column(write):
    frame = read_table(write("t.libsvm", "1 0:4\n2 1:5\n"))
    assert frame.columns.tolist() == ["target", "x0", "x1"]


def test_parquet_text_is_a_category(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "code": ["01", None], "flag": [True, False]})
    frame.to_parquet(tmp_path / "t.parquet")
    again = read_table(tmp_path / "t.parquet")
    assert isinstance(again["code"].dtype, pd.CategoricalDtype)
    assert again["flag"].dtype == bool
    assert again["a"].tolist() == [1, 2]


def test_standard_input_is_sniffed(monkeypatch):
    for content, shape in [(b"a,b\n1,2\n", (1, 2)), (gzip.compress(b"1 1:2\n3 1:4\n"), (2, 2))]:
        stream = io.BufferedReader(io.BytesIO(content))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        assert read_table("-").shape == shape
        assert not stream.closed


def test_blocks_are_the_table(write, monkeypatch):
    monkeypatch.setattr("onefit.tables._BLOCK_CELLS", 200)
    text = "a,b\n" + "".join(f"{i},t{i}\n" for i in range(250))
    path = write("t.csv", text)
    blocks = list(iter_table(path))
    assert [len(block) for block in blocks] == [100, 100, 50]
    whole = read_table(path)
    pd.testing.assert_frame_equal(pd.concat(blocks), whole)
    assert whole.index.tolist() == list(range(250))


def test_categories_of_blocks_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr("onefit.tables._BLOCK_CELLS", 200)
    pd.DataFrame({"a": [f"0{i // 50}" for i in range(250)]}).to_parquet(tmp_path / "t.pq")
    frame = read_table(tmp_path / "t.pq")
    assert isinstance(frame["a"].dtype, pd.CategoricalDtype)
    assert frame["a"].nunique() == 5


BAD = {
    "empty": ("t.csv", b"", "is empty"),
    "blank": ("t.csv", b" \n\n", "is empty"),
    "only a header": ("t.csv", b"a,b\n", "no rows"),
    "short row": ("t.csv", b"a,b\n1,2\n1\n", "1 cells in line 3, but 2 columns"),
    "long row": ("t.csv", b"a,b\n1,2,3\n", "3 cells in line 2"),
    "duplicate names": ("t.csv", b"a,b,a\n1,2,3\n", "two columns named 'a'"),
    "open quote": ("t.csv", b'a,b\n"x,1\n', "quotes to be closed"),
    "latin-1": ("t.csv", "a\né\n".encode("latin1"), "not UTF-8"),
    "utf-16": ("t.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "binary": ("t.csv", bytes(range(256)), "not text"),
    "excel": ("t.csv", b"PK\x03\x04rest", "Excel"),
    "cut gzip": ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 999)[:30], "cut short"),
    "bad bzip2": ("t.csv.bz2", b"BZh91AYjunkjunkjunk", "damaged"),
    "bad xz": ("t.csv.xz", b"\xfd7zXZ\x00junkjunkjunk", "damaged"),
    "bomb": ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 10**6), "more than 1,000,000 bytes"),
    "no parquet": ("t.parquet", b"PAR1 and so on", "no Parquet"),
    "no libsvm": ("t.libsvm", b"abc def\n", "no LIBSVM"),
    "binary libsvm": ("t.libsvm", b"1 1:2\n\x00\x00", "not text"),
    "wide libsvm": ("t.libsvm", b"1 1:2\n1 99999999:2\n", "columns, too many"),
    "sparse arff": ("t.arff", b"@relation r\n@attribute a real\n@data\n{0 1}\n", "sparse ARFF"),
    "arff text in numbers": ("t.arff", b"@relation r\n@attribute a real\n@data\nx\n", "declared"),
    "arff header": ("t.arff", b"@relation r\nfoo bar\n@data\n1\n", "expected ARFF"),
    "no arff": ("t.arff", b"@relation r\n", "declares no @attribute"),
}


@pytest.mark.parametrize("name, content, message", BAD.values(), ids=BAD.keys())
def test_bad_files_are_named_in_one_line(write, name, content, message):
    path = write(name, content)
    with pytest.raises(TableError) as caught:
        read_table(path, max_bytes=10**6)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_large_parquet_is_refused_before_it_is_expanded(tmp_path):
    pd.DataFrame({"a": np.zeros(200_000)}).to_parquet(tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10**5
    with pytest.raises(TableError, match="expands to 1,600,000 bytes"):
        read_table(tmp_path / "t.parquet", max_bytes=10**6)


def test_absent_files_and_folders(tmp_path):
    with pytest.raises(TableError, match="No such file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)
