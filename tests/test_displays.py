"""Displays draw what the search and the criteria say."""

import sys

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefit import (
    CriterionAgreementDisplay,
    DecisionDisplay,
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    ManifoldSearchCV,
    SearchSurfaceDisplay,
    cross_val_decisions,
)
from onefit.search.surface import search_surface

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

GRID = {
    "ambient_penalty": [1e-4, 1e-2],
    "manifold_penalty": [0.0, 1.0, 100.0],
    "kernel_width": [0.1, 1.0],
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    X, truth = make_moons(120, noise=0.15, random_state=0)
    return X, np.where(np.arange(120) < 24, truth, -1)


@pytest.fixture(scope="module")
def search(moons):
    return ManifoldSearchCV(LapRLSClassifier(), GRID, cv=4).fit(*moons)


def mean_of(search, **params):
    where = [
        i
        for i, one in enumerate(search.cv_results_["params"])
        if all(one[name] == value for name, value in params.items())
    ]
    assert len(where) == 1
    return search.cv_results_["mean_test_score"][where[0]]


def test_surface_shows_the_scores_at_the_best_width(search):
    display = SearchSurfaceDisplay.from_search(search)
    width = search.best_params_["kernel_width"]
    for i, manifold in enumerate(GRID["manifold_penalty"]):
        for j, ambient in enumerate(GRID["ambient_penalty"]):
            expected = mean_of(
                search, ambient_penalty=ambient, manifold_penalty=manifold, kernel_width=width
            )
            assert display.mean[i, j] == expected
    row, column = display.chosen
    assert GRID["manifold_penalty"][row] == search.best_params_["manifold_penalty"]
    assert GRID["ambient_penalty"][column] == search.best_params_["ambient_penalty"]
    np.testing.assert_array_equal(display.im_.get_array(), display.mean)
    assert display.figure_ is display.ax_.figure


def test_surface_at_other_values_and_axes(search):
    other = ({0.1, 1.0} - {search.best_params_["kernel_width"]}).pop()
    display = SearchSurfaceDisplay.from_search(search, params={"kernel_width": other})
    assert display.chosen is None
    expected = mean_of(search, ambient_penalty=1e-2, manifold_penalty=1.0, kernel_width=other)
    assert display.mean[1, 1] == expected
    display = SearchSurfaceDisplay.from_search(search, x="kernel_width", y="manifold_penalty")
    assert display.mean.shape == (3, 2)
    assert display.ax_.get_xlabel() == "kernel_width"


def test_surface_draws_on_given_axes_and_knows_prefixes(moons):
    from matplotlib import pyplot as plt

    pipeline = make_pipeline(StandardScaler(), LapRLSClassifier())
    grid = {f"laprlsclassifier__{name}": values for name, values in GRID.items()}
    search = ManifoldSearchCV(pipeline, grid, cv=4).fit(*moons)
    _, ax = plt.subplots()
    display = SearchSurfaceDisplay.from_search(
        search, x="laprlsclassifier__kernel_width", ax=ax, values=False, colorbar=False
    )
    assert display.ax_ is ax
    assert display.row_name == "ambient_penalty"


def test_words_that_vary_together_are_one_axis(moons):
    X, y = moons
    grid = [
        {"laplacian": ["unnormalized"], "graph_weights": ["heat"], "ambient_penalty": [0.1, 1.0]},
        {"laplacian": ["normalized"], "graph_weights": ["binary"], "ambient_penalty": [0.1, 1.0]},
    ]
    surface = search_surface(ManifoldSearchCV(LapRLSClassifier(), grid, random_state=0).fit(X, y))
    assert [axis.label for axis in surface.axes] == ["ambient_penalty", "laplacian"]
    assert set(surface.axis("laplacian").levels) == {"unnormalized, heat", "normalized, binary"}
    grid[0]["graph_weights"] = ["heat", "binary"]
    surface = search_surface(ManifoldSearchCV(LapRLSClassifier(), grid, random_state=0).fit(X, y))
    assert {axis.label for axis in surface.axes[1:]} == {"laplacian", "graph_weights"}


def test_surface_errors(search, moons):
    with pytest.raises(ValueError, match="does not vary by itself"):
        SearchSurfaceDisplay.from_search(search, x="n_neighbors")
    with pytest.raises(ValueError, match="both 'kernel_width'"):
        SearchSurfaceDisplay.from_search(search, x="kernel_width", y="kernel_width")
    with pytest.raises(ValueError, match="was not tried"):
        SearchSurfaceDisplay.from_search(search, params={"kernel_width": 7.0})
    with pytest.raises(ValueError, match="which is drawn"):
        SearchSurfaceDisplay.from_search(search, params={"ambient_penalty": 1e-4})
    line = ManifoldSearchCV(LapRLSClassifier(), {"ambient_penalty": [0.1, 1.0]}, cv=3).fit(*moons)
    with pytest.raises(ValueError, match="at least 2"):
        SearchSurfaceDisplay.from_search(line)


def test_decisions_of_two_classes(moons):
    X, y = moons
    model = LapRLSClassifier(kernel_width=0.1).fit(X, y)
    display = DecisionDisplay.from_estimator(model, X, y, grid_resolution=30)
    at = np.array([[display.xx[3, 7], display.yy[3, 7]]])
    assert display.response[3, 7] == pytest.approx(model.decision_function(at)[0])
    sizes = sorted(len(part.get_offsets()) for part in display.ax_.collections[-3:])
    assert sum(sizes) == len(X)  # every row is drawn once


def test_decisions_of_a_search_over_a_data_frame_with_three_classes():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    X = pandas.DataFrame(rng.randn(90, 3), columns=["a", "b", "c"])
    names = np.array(["x", "y", "z"], dtype=object)[np.arange(90) % 3]
    X["a"] += 3.0 * (np.arange(90) % 3)
    y = np.where(np.arange(90) < 30, names, None)
    pipeline = make_pipeline(StandardScaler(), LapRLSClassifier())
    search = ManifoldSearchCV(
        pipeline, {"laprlsclassifier__ambient_penalty": [1e-3, 1e-1]}, cv=3
    ).fit(X, y)
    display = DecisionDisplay.from_estimator(search, X, y, features=(0, 2), grid_resolution=20)
    assert set(np.unique(display.response)) <= {0, 1, 2}
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("a", "c")


def test_decisions_of_a_regressor():
    rng = np.random.RandomState(0)
    X = rng.rand(60, 2)
    y = np.where(np.arange(60) < 30, X[:, 0], np.nan)
    model = LapRLSRegressor().fit(X, y)
    display = DecisionDisplay.from_estimator(model, X, y, grid_resolution=10)
    at = np.array([[display.xx[2, 5], display.yy[2, 5]]])
    assert display.response[2, 5] == pytest.approx(model.predict(at)[0])
    with pytest.raises(ValueError, match="two columns"):
        DecisionDisplay.from_estimator(LapRLSRegressor().fit(X[:, :1], y), X[:, :1], y)


def test_agreement_is_that_of_cross_val_decisions(moons):
    X, y = moons
    model = LapLogisticRegression()
    display = CriterionAgreementDisplay.from_estimator(model, X, y, cv=4)
    known = y != -1
    for name, values in {"exact": display.exact, **display.approximate}.items():
        alone = cross_val_decisions(model, X, y, cv=4, criterion=name).predictions[known]
        np.testing.assert_allclose(values, alone, rtol=1e-12)
    expected = np.corrcoef(display.exact, display.approximate["bif"])[0, 1]
    assert display.correlations_["bif"] == pytest.approx(expected)
    assert "0." in display.ax_.get_legend().get_texts()[0].get_text()


def test_agreement_of_a_pipeline_with_points_held_out(moons):
    X, y = moons
    pipeline = make_pipeline(StandardScaler(), LapRLSClassifier())
    display = CriterionAgreementDisplay.from_estimator(
        pipeline, X, y, cv=3, criteria=("newton",), holdout="points"
    )
    assert list(display.approximate) == ["newton"]
    np.testing.assert_allclose(display.approximate["newton"], display.exact, atol=1e-8)


def test_without_matplotlib_the_error_says_what_to_install(search, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    with pytest.raises(ImportError, match=r"onefit\[plot\]"):
        SearchSurfaceDisplay.from_search(search)
