"""Dask: collections of rows, and searches on a cluster through joblib."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    cross_val_decisions,
)
from onefit.blocks import open_blocks

pytest.importorskip("dask.dataframe", reason="dask is not installed: onefit[dask]")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402

# Locks and sockets of distributed that the garbage collector finds are not our affair.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

N = 700
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
TRUTH = np.sin(X[:, 0]) + 0.5 * X[:, 1]
Y = np.where(np.arange(N) % 9 == 0, TRUTH, np.nan)
CLASSES = np.where(np.isnan(Y), -1, np.digitize(TRUTH, [-0.5, 0.5]))
PARAMS = {
    "n_components": 60,
    "graph": "anchor",
    "n_anchors": 40,
    "n_neighbors": 4,
    "random_state": 0,
}
GRID = {"kernel_width": [1.0, 4.0], "manifold_penalty": [0.0, 1.0, 1e3]}


def in_blocks(rows=X):
    """Uneven blocks, one of them empty, columns in two pieces."""
    return da.concatenate(
        [da.from_array(part, chunks=(100, 3)) for part in (rows[:250], rows[250:250], rows[250:])]
    )


def frame():
    return dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3)


class TestFit:
    @pytest.mark.parametrize("rule", ["uniform", "kmeans++", "rpcholesky"])
    @pytest.mark.parametrize("laplacian, power", [("unnormalized", 2), ("normalized", 1)])
    def test_the_numbers_of_the_array(self, rule, laplacian, power):
        params = {"landmarks": rule, "laplacian": laplacian, "laplacian_power": power}
        model = LapRLSRegressor(**params, **PARAMS)
        one = model.fit(X, Y).predict(X)
        widths = model.kernel_width_, model.graph_width_
        other = model.fit(in_blocks(), da.from_array(Y, chunks=200))
        assert_allclose((other.kernel_width_, other.graph_width_), widths, rtol=1e-12)
        assert_allclose(other.predict(X), one, atol=1e-8)
        assert_allclose(other.transduction_.compute(), one, atol=1e-8)
        assert other.graph_ is None
        assert other.neighbors_method_ == "anchor"

    @pytest.mark.parametrize("model", [LapSVC, LapLogisticRegression, LapRLSClassifier])
    def test_classes_and_weights(self, model):
        names = np.array(["low", "middle", "high"], dtype=object)
        y = np.where(CLASSES >= 0, names[CLASSES], None)
        weights = RNG.uniform(size=N)
        fits = [
            model(fit_intercept=True, **PARAMS).fit(rows, y, w)
            for rows, w in ((X, weights), (in_blocks(), da.from_array(weights)))
        ]
        assert_allclose(*(fit.decision_function(X) for fit in fits), atol=1e-8)
        assert (fits[1].transduction_.compute() == fits[0].transduction_).all()

    def test_data_frames(self):
        one = LapRLSRegressor(**PARAMS).fit(X, Y)
        other = LapRLSRegressor(**PARAMS).fit(frame(), dd.from_array(Y))
        assert other.feature_names_in_.tolist() == list("abcd")
        assert_allclose(other.predict(frame()).compute(), one.predict(X), atol=1e-8)
        with pytest.raises(ValueError, match="feature names"):
            other.predict(frame()[["b", "a", "c", "d"]])

    def test_sparse_blocks_and_other_kernels(self):
        rows = in_blocks().rechunk({1: -1}).map_blocks(sp.csr_array)
        one, other = (
            LapRLSRegressor(kernel="rbf", kernel_params={"gamma": 0.2}, **PARAMS).fit(r, Y)
            for r in (X, rows)
        )
        assert sp.issparse(other.X_fit_)
        assert_allclose(other.predict(X), one.predict(X), atol=1e-8)

    def test_auto_and_a_memory_limit(self):
        params = {**PARAMS, "n_components": "auto"}
        one = LapRLSRegressor(**params).fit(X, Y)
        other = LapRLSRegressor(memory_limit=1e8, **params).fit(in_blocks(), Y)
        assert other.n_components_ == one.n_components_
        assert_allclose(other.predict(X), one.predict(X), atol=1e-8)

    def test_held_out_labels(self):
        model = LapRLSRegressor(**PARAMS)
        assert_allclose(
            *(cross_val_decisions(model, rows, Y).predictions for rows in (X, in_blocks())),
            atol=1e-8,
        )

    @pytest.mark.parametrize(
        "params, match",
        [
            ({"graph": "knn"}, "graph='anchor'"),
            ({"graph": np.eye(N)}, "graph='anchor'"),
            ({"n_components": None}, "n_components"),
            ({"kernel": "precomputed"}, "precomputed"),
        ],
    )
    def test_what_would_gather_rows_is_refused(self, params, match):
        model = LapRLSRegressor(**{**PARAMS, **params})
        with pytest.raises(ValueError, match=match):
            model.fit(in_blocks(), Y)
        with pytest.raises(ValueError, match=match):
            ManifoldSearchCV(model, {"manifold_penalty": [1.0]}).fit(in_blocks(), Y)

    def test_bad_rows_are_found_where_they_are(self):
        rows = X.copy()
        rows[650, 1] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            LapRLSRegressor(**PARAMS).fit(in_blocks(rows), Y)
        with pytest.raises(ValueError, match="expected a dask array of shape"):
            LapRLSRegressor(**PARAMS).fit(in_blocks()[:, 0], Y)
        with pytest.raises(ValueError, match="rows of X, length of y"):
            LapRLSRegressor(**PARAMS).fit(in_blocks(), Y[1:])
        with pytest.raises(TypeError, match=r"X is a Delayed.* of dask; expected a dask array"):
            LapRLSRegressor(**PARAMS).fit(dask.delayed(X), Y)
        with pytest.raises(ValueError, match="X is a Series of dask"):
            LapRLSRegressor(**PARAMS).fit(frame()["a"], Y)

    @pytest.mark.parametrize("dtype", ["string", "category", object])
    def test_columns_that_are_no_numbers_are_refused_unread(self, dtype):
        def unread(part):
            pytest.fail("blocks were read")

        meta = frame()._meta.assign(island=pd.Series([], dtype=dtype))
        rows = frame().map_partitions(unread, meta=meta)
        model = LapRLSRegressor(**PARAMS)
        for fit in (model.fit, ManifoldSearchCV(model, GRID).fit):
            with pytest.raises(ValueError, match=r"not so in 'island'.*OneHotEncoder"):
                fit(rows, Y)
        numbers = meta.drop(columns="island").astype({"a": "Int64", "b": bool, "c": "float32"})
        assert open_blocks(dd.from_pandas(numbers, npartitions=1)).shape == (0, 4)


class TestLazyPredictions:
    def test_shapes_types_and_chunks(self):
        model = LapLogisticRegression(**PARAMS).fit(X, np.where(CLASSES >= 0, CLASSES + 0.0, -1.0))
        rows = in_blocks()
        for name, shape in (
            ("predict", (N,)),
            ("decision_function", (N, 3)),
            ("predict_proba", (N, 3)),
        ):
            lazy, now = getattr(model, name)(rows), getattr(model, name)(X)
            assert isinstance(lazy, da.Array)
            assert (lazy.shape, lazy.dtype) == (shape, now.dtype)
            assert lazy.chunks[0] == rows.chunks[0]
            assert (lazy._meta.ndim, lazy._meta.dtype) == (now.ndim, now.dtype)
            assert_allclose(lazy.compute(), now, atol=1e-12)

    def test_blocks_of_unknown_size(self):
        model = LapRLSClassifier(**PARAMS).fit(X, CLASSES)
        some = in_blocks()[in_blocks()[:, 0] > 0]
        predicted = model.predict(some)
        assert np.isnan(predicted.shape[0])
        assert (predicted.compute() == model.predict(X[X[:, 0] > 0])).all()
        assert open_blocks(some).shape == ((X[:, 0] > 0).sum(), 4)


class TestSearch:
    @pytest.mark.parametrize(
        "params",
        [
            {},
            {"holdout": "points"},
            {"scoring": ["r2", "neg_max_error"], "refit": "r2"},
            {"criterion": "newton"},
        ],
    )
    def test_the_numbers_of_the_array(self, params):
        found = [
            ManifoldSearchCV(LapRLSRegressor(**PARAMS), GRID, cv=4, **params).fit(rows, Y)
            for rows in (X, in_blocks())
        ]
        for column in found[0].cv_results_:
            if column.startswith(("mean_test", "std_test")):
                assert_allclose(*(one.cv_results_[column] for one in found), atol=1e-8)
        assert_allclose(found[1].predict(in_blocks()).compute(), found[0].predict(X), atol=1e-8)

    def test_default_grid_and_checkpoint(self, tmp_path):
        def search(rows):
            model = LapRLSClassifier(**PARAMS)
            path = tmp_path / f"checkpoint-{type(rows).__name__}"
            grid = {**GRID, "kernel_width": [1.0]}
            return ManifoldSearchCV(model, grid, checkpoint=path, random_state=0, refit=False).fit(
                rows, CLASSES
            )

        first, again = search(in_blocks()), search(in_blocks())
        assert first.cv_results_["mean_fit_time"][0] > 0
        assert_allclose(again.cv_results_["mean_test_score"], first.cv_results_["mean_test_score"])
        with pytest.raises(ValueError, match="another search"):
            search(in_blocks(X + 1.0))

    @pytest.mark.parametrize("c", [60, "auto"])
    def test_says_what_workers_need(self, c, capsys):
        model = LapRLSRegressor(**{**PARAMS, "n_components": c})
        ManifoldSearchCV(model, {"manifold_penalty": [1.0]}, cv=3, verbose=1).fit(in_blocks(), Y)
        said, most = capsys.readouterr().err, N if c == "auto" else c
        assert f"{N} x {most} features would take" in said
        assert said.startswith("At most") == (c == "auto")
        assert f"in blocks of {min(N, 2**19 // most)} rows" in said
        assert "for each task of a worker" in said

    def test_refusals(self):
        pipeline = make_pipeline(StandardScaler(), LapRLSRegressor(**PARAMS))
        with pytest.raises(TypeError, match="gather all rows"):
            ManifoldSearchCV(pipeline, {}).fit(in_blocks(), Y)
        search = ManifoldSearchCV(
            LapRLSRegressor(**PARAMS), {}, cv=3, holdout="points", criterion="bif"
        )
        with pytest.raises(TypeError, match="Laplacian as a matrix"):
            search.fit(in_blocks(), Y)


def fatal_kernel(path, width):
    """A Gaussian kernel that once, for one width, kills the process it runs in."""
    client = os.getpid()

    def kernel(A, B, gamma):
        if gamma == width and os.getpid() != client and not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        from sklearn.metrics.pairwise import rbf_kernel

        return rbf_kernel(A, B, gamma=gamma)

    return kernel


@pytest.fixture
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="1GB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def fatal_search(path, rows, **params):
    """A search in which a worker is killed while it works on the second of four kernels."""
    grid = {
        "kernel_params": [{"gamma": gamma} for gamma in (0.05, 0.1, 0.2, 0.4)],
        "manifold_penalty": GRID["manifold_penalty"],
    }
    model = LapRLSRegressor(kernel=fatal_kernel(path, 0.1), **PARAMS)
    return ManifoldSearchCV(model, grid, cv=4, **params).fit(rows, Y)


class TestCluster:
    @pytest.fixture
    def expected(self, tmp_path):
        return fatal_search(tmp_path / "none", X, n_jobs=1)

    def test_search_through_joblib(self, client, expected, tmp_path):
        with parallel_config(backend="dask"):
            found = fatal_search(tmp_path / "killed", X)
        assert (tmp_path / "killed").exists()
        self.assert_same(found, expected)

    def test_search_on_a_collection(self, client, expected, tmp_path):
        found = fatal_search(tmp_path / "killed", in_blocks())
        assert (tmp_path / "killed").exists()
        self.assert_same(found, expected)
        assert_allclose(found.predict(in_blocks()).compute(), expected.predict(X), atol=1e-8)

    def assert_same(self, found, expected):
        for column in ("mean_test_score", "std_test_score", "mean_test_loss"):
            assert_allclose(found.cv_results_[column], expected.cv_results_[column], atol=1e-8)
        assert found.best_params_ == expected.best_params_

    def test_data_travel_once_to_a_worker(self, client, tmp_path):
        arrivals = tmp_path / "arrivals"
        with parallel_config(backend="dask"):
            ManifoldSearchCV(
                LapRLSRegressor(**PARAMS),
                {"kernel_width": np.geomspace(1, 10, 8)},
                cv=2,
                scoring=noted_scorer(arrivals),
                selection="best",  # another rule may look at the rows once more
                refit=False,
            ).fit(X, Y)
        workers = set(client.run(os.getpid).values())
        places = [int(line) for line in arrivals.read_text().split()]
        assert [places.count(worker) for worker in workers] == [1, 1]


def noted_scorer(path):
    """A scorer, which travels with the data, that notes in which process it arrives."""

    def arrive():
        with path.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return noted_scorer(path)

    class Scorer:
        def __reduce__(self):
            return arrive, ()

        def __call__(self, model, X, y):
            return -float(np.mean(np.abs(model.predict(X) - y)))

    return Scorer()


def test_dask_is_not_imported_without_need():
    code = "import sys, onefit; assert not {'dask', 'distributed', 'ray'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
