"""The LIBSVM data: real files against counts made elsewhere, and made-up files for the rest."""

import bz2
import gzip
import hashlib
import http.server
import lzma
import os
import struct
import threading
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from scipy import sparse

from onefit.datasets import _files, _libsvm, libsvm_datasets, load_libsvm_data
from onefit.datasets._libsvm_table import LibsvmSet

# Rows, features, nonzeros and rows of the classes -1 and +1, counted in the text of the files
# with awk.
CLASSES = {
    "a1a": (1605, 123, 22249, (1210, 395)),
    "a2a": (2265, 123, 31404, (1693, 572)),
    "a3a": (3185, 123, 44162, (2412, 773)),
    "fourclass": (862, 2, 1724, (555, 307)),
    "german.numer": (1000, 24, 17989, (700, 300)),
    "madelon": (2000, 500, 999999, (1000, 1000)),
    "svmguide3": (1243, 22, 22014, (947, 296)),
    "splice": (1000, 60, 60000, (483, 517)),
    "w1a": (2477, 300, 28410, (2405, 72)),
    "w2a": (3470, 300, 40373, (3363, 107)),
    "w3a": (4912, 300, 57248, (4769, 143)),
}
# The same with smallest, largest and mean target.
REAL_VALUES = {
    "abalone": (4177, 8, 33414, (1, 29, 9.93368)),
    "bodyfat": (252, 14, 3527, (0.995, 1.1089, 1.05557)),
    "cpusmall": (8192, 12, 94903, (0, 99, 83.9689)),
    "housing": (506, 13, 5735, (5, 50, 22.5328)),
    "mg": (1385, 6, 8310, (0.417636, 1.31674, 0.930144)),
    "mpg": (392, 7, 2744, (9, 46.6, 23.4459)),
    "space_ga": (3107, 6, 18642, (-3.05705, 0.100083, -0.576234)),
}
SPARSE = {"a1a", "a2a", "a3a", "w1a", "w2a", "w3a"}

needs_data = pytest.mark.skipif(
    not os.environ.get("ONEFIT_DATA"),
    reason="needs the real data sets: set ONEFIT_DATA to their directory",
)

TEXT = b"+1 1:0.5 3:2\n-1 2:-1.5\n-1 1:1 2:1 3:1\n"
ROWS = [[0.5, 0, 2, 0], [0, -1.5, 0, 0], [1, 1, 1, 0]]
# Rows and targets written in another way.
SAME = b"1.0 1:0.50 2:0 3:2e0\r\n-1 2:-1.5\r\n-1 1:1 2:1 3:1"
OTHER = TEXT.replace(b"3:2", b"3:3")
COMPRESS = {"": bytes, ".xz": lzma.compress, ".bz2": bz2.compress, ".gz": gzip.compress}


def checksum(text):
    """The checksum by its definition: shape, row ends, columns, values, targets."""
    ends, columns, values, targets = [0], [], [], []
    for line in text.decode().split("\n")[:-1]:
        target, *entries = line.split()
        pairs = [entry.split(":") for entry in entries]
        columns += [int(index) - 1 for index, _ in pairs]
        values += [float(value) for _, value in pairs]
        targets.append(float(target))
        ends.append(len(columns))
    whole = [len(targets), 4, *ends, *columns]
    real = [*values, *targets]
    return hashlib.sha256(
        struct.pack(f"<{len(whole)}q", *whole) + struct.pack(f"<{len(real)}d", *real)
    ).hexdigest()


@pytest.fixture
def isolated(monkeypatch, tmp_path):
    """No data of the user, an empty cache, and no network."""

    def no_network(url):
        raise URLError("no network in tests")

    monkeypatch.delenv("ONEFIT_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.setattr(_files, "_download_once", no_network)


@pytest.fixture
def toys(isolated, monkeypatch):
    """Two made-up sets."""
    for name, task in (("toy.set", "classification"), ("toy_values", "regression")):
        toy = LibsvmSet(task, 3, 4, checksum(TEXT), "Made up.")
        monkeypatch.setitem(_libsvm.LIBSVM_SETS, name, toy)


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "home" / "onefit"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def downloads(monkeypatch):
    """Answers to downloads, in order; an exception is raised. Returns answers and addresses."""
    answers, addresses, pauses = [], [], []

    def answer(url):
        addresses.append(url)
        found = answers.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(_files, "_download_once", answer)
    monkeypatch.setattr(_files.time, "sleep", pauses.append)
    return answers, addresses, pauses


@needs_data
class TestRealData:
    @pytest.mark.parametrize("name", CLASSES)
    def test_classes(self, name):
        n_rows, n_features, nonzeros, counts = CLASSES[name]
        bunch = load_libsvm_data(name, download_if_missing=False)
        assert bunch.task == "classification"
        assert bunch.target.dtype == np.int64
        assert np.bincount(bunch.target).tolist() == list(counts)
        assert bunch.target_names.tolist() == ["-1", "+1"]
        self.check_data(name, bunch, (n_rows, n_features), nonzeros)

    @pytest.mark.parametrize("name", REAL_VALUES)
    def test_real_values(self, name):
        n_rows, n_features, nonzeros, facts = REAL_VALUES[name]
        bunch = load_libsvm_data(name, download_if_missing=False)
        y = bunch.target
        assert bunch.task == "regression"
        assert bunch.target_names is None
        assert y.dtype == np.float64
        np.testing.assert_allclose([y.min(), y.max(), y.mean()], facts, rtol=1e-5, atol=0)
        self.check_data(name, bunch, (n_rows, n_features), nonzeros)

    def check_data(self, name, bunch, shape, nonzeros):
        assert bunch.data.shape == shape
        assert libsvm_datasets()[name] == (bunch.task, *shape)
        assert sparse.issparse(bunch.data) == (name in SPARSE)
        X = bunch.data.toarray() if sparse.issparse(bunch.data) else bunch.data
        assert X.dtype == np.float64
        assert np.count_nonzero(X) == nonzeros
        assert np.isfinite(X).all()
        assert np.isfinite(bunch.target).all()
        assert len(bunch.target) == shape[0]
        assert Path(bunch.filename).parent == Path(os.environ["ONEFIT_DATA"])

    def test_a_row_of_each_kind(self):
        X, y = load_libsvm_data("abalone", return_X_y=True)
        assert X[0].tolist() == [1, 0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15]
        assert y[0] == 15
        X, _ = load_libsvm_data("a1a", return_X_y=True)
        columns = [3, 11, 14, 19, 39, 42, 55, 64, 67, 73, 75, 76, 80, 83]
        assert (X[0].indices + 1).tolist() == columns


@pytest.mark.usefixtures("isolated")
class TestTable:
    def test_the_table_is_the_one_of_this_test(self):
        expected = {name: ("classification", *facts[:2]) for name, facts in CLASSES.items()}
        expected |= {name: ("regression", *facts[:2]) for name, facts in REAL_VALUES.items()}
        assert libsvm_datasets() == expected

    def test_addresses(self):
        root = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
        assert _libsvm._url("german.numer") == root + "binary/german.numer"
        assert _libsvm._url("mg") == root + "regression/mg_scale"

    @pytest.mark.parametrize(
        "name, canonical",
        [
            ("A1A", "a1a"),
            ("german", "german.numer"),
            ("German.Numer", "german.numer"),
            ("space-ga", "space_ga"),
            ("Space_GA", "space_ga"),
            ("bodfat", "bodyfat"),
            ("mg_scale", "mg"),
            ("mpg", "mpg"),
            ("cpusmall", "cpusmall"),
        ],
    )
    def test_names(self, name, canonical):
        with pytest.raises(OSError, match=rf"no file of '{canonical}'"):
            load_libsvm_data(name, download_if_missing=False)

    @pytest.mark.parametrize("name", ["a4a", "", "../a1a", None])
    def test_unknown_names(self, name):
        with pytest.raises(ValueError, match=r"expected one of a1a, .*, space_ga"):
            load_libsvm_data(name)


@pytest.mark.usefixtures("toys")
class TestContent:
    @pytest.mark.parametrize("suffix", COMPRESS)
    @pytest.mark.parametrize("by_argument", [False, True])
    def test_classes(self, suffix, by_argument, tmp_path, monkeypatch):
        path = tmp_path / f"toy.set{suffix}"
        path.write_bytes(COMPRESS[suffix](TEXT))
        if not by_argument:
            monkeypatch.setenv("ONEFIT_DATA", str(tmp_path))
        bunch = load_libsvm_data("toy.set", data_home=tmp_path if by_argument else None)
        assert bunch.data.tolist() == ROWS
        assert bunch.target.tolist() == [1, 0, 0]
        assert bunch.feature_names == ["x1", "x2", "x3", "x4"]
        assert bunch.filename == str(path)
        assert "Made up." in bunch.DESCR

    def test_real_values_and_tuple(self, tmp_path):
        (tmp_path / "toy_values").write_bytes(TEXT)
        X, y = load_libsvm_data("toy_values", data_home=str(tmp_path), return_X_y=True)
        assert X.tolist() == ROWS
        assert y.dtype == np.float64
        assert y.tolist() == [1.0, -1.0, -1.0]

    def test_data_home_comes_before_the_environment(self, tmp_path, monkeypatch):
        (tmp_path / "toy.set").write_bytes(TEXT)
        monkeypatch.setenv("ONEFIT_DATA", str(tmp_path / "elsewhere"))
        assert load_libsvm_data("toy.set", data_home=tmp_path).data.tolist() == ROWS

    def test_the_environment_comes_before_the_cache(self, cache, tmp_path, monkeypatch):
        monkeypatch.setenv("ONEFIT_DATA", str(tmp_path))
        (cache / "toy.set").write_bytes(TEXT)
        assert load_libsvm_data("toy.set").filename == str(cache / "toy.set")
        (tmp_path / "toy.set").write_bytes(TEXT)
        assert load_libsvm_data("toy.set").filename == str(tmp_path / "toy.set")

    def test_few_nonzeros_stay_sparse(self, tmp_path):
        (tmp_path / "toy_values").write_bytes(b"1 1:1\n2 2:1\n3 3:1\n")
        bunch = load_libsvm_data("toy_values", data_home=tmp_path, verify_checksum=False)
        assert sparse.issparse(bunch.data)
        np.testing.assert_array_equal(bunch.data.toarray(), np.eye(3, 4))

    def test_checksum_is_of_the_numbers(self, tmp_path):
        (tmp_path / "toy.set").write_bytes(SAME)
        assert load_libsvm_data("toy.set", data_home=tmp_path).data.tolist() == ROWS

    def test_other_content(self, tmp_path):
        path = tmp_path / "toy.set"
        path.write_bytes(OTHER)
        with pytest.raises(ValueError, match="verify_checksum=False") as caught:
            load_libsvm_data("toy.set", data_home=tmp_path)
        for part in (str(path), checksum(OTHER), checksum(TEXT)):
            assert part in str(caught.value)
        bunch = load_libsvm_data("toy.set", data_home=tmp_path, verify_checksum=False)
        assert bunch.data[0].tolist() == [0.5, 0, 3, 0]
        assert path.exists()

    @pytest.mark.parametrize("text", [b"<html>", b"1 9:1\n", b"1 0:1\n", b"1 2:1 1:1\n", b"1 1\n"])
    def test_other_text(self, text, tmp_path):
        (tmp_path / "toy.set").write_bytes(text)
        with pytest.raises(ValueError, match=r"toy\.set is not a file .* indices from 1 to 4"):
            load_libsvm_data("toy.set", data_home=tmp_path, verify_checksum=False)

    def test_other_labels(self, tmp_path):
        (tmp_path / "toy.set").write_bytes(b"2 1:1\n1 1:1\n")
        with pytest.raises(ValueError, match=r"label 2\.0: expected -1 and \+1"):
            load_libsvm_data("toy.set", data_home=tmp_path, verify_checksum=False)

    @pytest.mark.parametrize("suffix", [".xz", ".bz2", ".gz"])
    @pytest.mark.parametrize("keep", [0, 20, -4])
    def test_truncated(self, suffix, keep, tmp_path):
        path = tmp_path / f"toy.set{suffix}"
        path.write_bytes(COMPRESS[suffix](TEXT)[:keep])
        with pytest.raises(ValueError, match=r"toy\.set"):
            load_libsvm_data("toy.set", data_home=tmp_path)

    @pytest.mark.parametrize("suffix", COMPRESS)
    def test_bombs(self, suffix, tmp_path, monkeypatch):
        monkeypatch.setattr(_files, "MAX_BYTES", 1000)
        (tmp_path / f"toy.set{suffix}").write_bytes(COMPRESS[suffix](b"\n" * 10**6))
        with pytest.raises(ValueError, match="more than 1000 bytes"):
            load_libsvm_data("toy.set", data_home=tmp_path)


@pytest.mark.usefixtures("toys")
class TestDownload:
    def test_once(self, downloads, tmp_path):
        answers, addresses, _ = downloads
        answers.append(TEXT)
        bunch = load_libsvm_data("toy.set")
        assert bunch.data.tolist() == ROWS
        assert addresses == [_libsvm.LIBSVM_URL + "/binary/toy.set"]
        assert bunch.filename == str(tmp_path / "home" / "onefit" / "toy.set")
        assert Path(bunch.filename).read_bytes() == TEXT
        assert load_libsvm_data("toy.set").data.tolist() == ROWS
        assert len(addresses) == 1

    def test_into_data_home(self, downloads, tmp_path):
        downloads[0].append(TEXT)
        bunch = load_libsvm_data("toy.set", data_home=tmp_path)
        assert bunch.filename == str(tmp_path / "onefit" / "toy.set")

    @pytest.mark.parametrize("n_retries", [0, 2])
    def test_offline(self, n_retries, downloads, tmp_path):
        answers, addresses, pauses = downloads
        answers.extend([URLError("no route")] * 9)
        with pytest.raises(OSError, match="no route") as caught:
            load_libsvm_data("toy.set", n_retries=n_retries, delay=0.25)
        assert len(addresses) == n_retries + 1
        assert pauses == [0.25] * n_retries
        self.check_advice(caught, tmp_path)

    def test_not_wanted(self, downloads, tmp_path):
        with pytest.raises(OSError, match="download_if_missing=False") as caught:
            load_libsvm_data("toy.set", download_if_missing=False)
        assert downloads[1] == []
        self.check_advice(caught, tmp_path)

    def check_advice(self, caught, tmp_path):
        cache = str(tmp_path / "home" / "onefit")
        for part in ("ONEFIT_DATA", "data_home", cache, _libsvm.LIBSVM_URL, "toy.set.xz"):
            assert part in str(caught.value)

    def test_success_after_failures(self, downloads):
        answers, addresses, _ = downloads
        answers.extend([URLError("down"), TimeoutError("slow"), TEXT])
        assert load_libsvm_data("toy.set").data.tolist() == ROWS
        assert len(addresses) == 3

    @pytest.mark.parametrize("option", [{"n_retries": -1}, {"delay": -1.0}])
    def test_options_out_of_range(self, option):
        with pytest.raises(ValueError, match="expected numbers from 0 on"):
            load_libsvm_data("toy.set", **option)

    @pytest.mark.parametrize("content", [OTHER, b"<html>Please log in"])
    def test_other_content_is_not_kept(self, content, downloads, cache):
        downloads[0].append(content)
        with pytest.raises(ValueError, match=r"https://.*toy\.set"):
            load_libsvm_data("toy.set")
        assert list(cache.iterdir()) == []

    def test_other_content_on_demand(self, downloads, cache):
        downloads[0].append(OTHER)
        load_libsvm_data("toy.set", verify_checksum=False)
        assert (cache / "toy.set").read_bytes() == OTHER

    @pytest.mark.parametrize(
        "file, content", [("toy.set", OTHER), ("toy.set.xz", b"?"), ("toy.set", b"?")]
    )
    def test_bad_cache_is_replaced(self, file, content, downloads, cache):
        answers, addresses, _ = downloads
        (cache / file).write_bytes(content)
        answers.append(TEXT)
        with pytest.warns(UserWarning, match=r"Downloading 'toy\.set' again"):
            assert load_libsvm_data("toy.set").data.tolist() == ROWS
        assert [path.name for path in cache.iterdir()] == ["toy.set"]
        assert load_libsvm_data("toy.set").data.tolist() == ROWS
        assert len(addresses) == 1

    def test_bad_cache_is_replaced_once(self, downloads, cache):
        answers, addresses, _ = downloads
        (cache / "toy.set").write_bytes(b"?")
        answers.extend([OTHER, OTHER])
        with (
            pytest.warns(UserWarning, match="again"),
            pytest.raises(ValueError, match="other content"),
        ):
            load_libsvm_data("toy.set")
        assert len(addresses) == 1

    def test_bad_cache_without_download(self, cache):
        (cache / "toy.set").write_bytes(b"?")
        with pytest.raises(ValueError, match="is not a file of"):
            load_libsvm_data("toy.set", download_if_missing=False)

    def test_files_of_the_user_are_not_replaced(self, downloads, tmp_path):
        (tmp_path / "toy.set").write_bytes(OTHER)
        with pytest.raises(ValueError, match="other content"):
            load_libsvm_data("toy.set", data_home=tmp_path)
        assert (tmp_path / "toy.set").read_bytes() == OTHER
        assert downloads[1] == []

    @pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
    def test_failure_while_writing_leaves_nothing(self, failure, downloads, cache, monkeypatch):
        def fail(self, target):
            assert self.read_bytes() == TEXT
            raise failure

        downloads[0].append(TEXT)
        monkeypatch.setattr(Path, "replace", fail)
        with pytest.raises(type(failure)):
            load_libsvm_data("toy.set")
        assert list(cache.iterdir()) == []


class Answers(http.server.BaseHTTPRequestHandler):
    """A page for each case."""

    def do_GET(self):
        case = self.path.rsplit("/", 1)[-1]
        if case == "missing":
            self.send_error(404)
            return
        self.send_response(302 if case == "redirect" else 200)
        if case == "redirect":
            self.send_header("Location", self.path.replace("redirect", "whole"))
        length = len(TEXT) + (10 if case == "short" else 0)
        self.send_header("Content-Length", "0" if case == "redirect" else str(length))
        self.end_headers()
        if case != "redirect":
            self.wfile.write(TEXT)

    def log_message(self, *args):
        pass


class TestServer:
    """The real thing, from a server on this machine."""

    @pytest.fixture
    def server(self, monkeypatch):
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/binary/"
        server.shutdown()
        thread.join()
        server.server_close()

    def test_whole(self, server):
        assert _files.download(server + "whole", n_retries=0, delay=0) == TEXT

    @pytest.mark.parametrize(
        "case, reason",
        [
            ("missing", "404"),
            ("short", "bytes came, expected"),
            ("redirect", "expected an https address"),
        ],
    )
    def test_failures(self, server, case, reason):
        with pytest.raises(OSError, match=f"2 attempts .*{reason}"):
            _files.download(server + case, n_retries=1, delay=0)

    def test_too_large(self, server, monkeypatch):
        monkeypatch.setattr(_files, "MAX_BYTES", 10)
        with pytest.raises(ValueError, match="more than 10 bytes"):
            _files.download(server + "whole", n_retries=0, delay=0)

    def test_redirects_to_https_are_followed(self):
        new = "https://example.org/a1a"
        request = _files._HttpsRedirects().redirect_request(
            _files.Request("https://example.org"), None, 302, "Found", {}, new
        )
        assert request.full_url == new
