"""The report says what the search found, escapes what it is given, and needs nothing else."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, make_moons
from sklearn.impute import SimpleImputer
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    SemiSupervisedKFold,
)
from onefit.datasets import load_penguins, make_partially_labeled
from onefit.report import render_report, svg
from onefit.report.markup import json_block
from onefit.report.reproduce import snippet
from onefit.report.words import _what_unlabelled_rows_bring
from onefit.search.surface import Axis, Surface, describe_value, search_surface

HOSTILE = '</script><img src=x onerror="alert(1)">\'&\u2028'
PENALTIES = {"ambient_penalty": [1e-4, 1e-2], "manifold_penalty": [0.0, 1.0, 100.0]}
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """A page as a browser would read it; fails where elements do not nest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.scripts, self._open = [], [], {}, []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open[-1] == tag, (tag, self._open)
        self._open.pop()

    def handle_data(self, data):
        if self._open and self._open[-1] in ("script", "style"):
            self.scripts.setdefault(self._open[-1], []).append(data)
        else:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self):
        return json.loads(self.scripts["script"][0])

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def report_of(search, X, y, **options):
    options = {"title": "A title", "target_name": "the target", **options}
    return render_report(search, X, y, **options)


@pytest.fixture(scope="module")
def penguins():
    X, truth = load_penguins(return_X_y=True)
    names = np.array(["Adelie", "Chinstrap", "Gentoo"], dtype=object)[truth]
    hidden = make_partially_labeled(truth, n_labeled=24, random_state=0) == -1
    return X, np.where(hidden, None, names)


@pytest.fixture(scope="module")
def search(penguins):
    pipeline = make_pipeline(StandardScaler(), LapRLSClassifier())
    grid = {**PENALTIES, "kernel_width": [1.0, 10.0], "laplacian": ["unnormalized", "normalized"]}
    grid = {f"laprlsclassifier__{name}": values for name, values in grid.items()}
    return ManifoldSearchCV(pipeline, grid, random_state=0).fit(*penguins)


@pytest.fixture(scope="module")
def text(search, penguins):
    return report_of(
        search,
        *penguins,
        baselines=[("majority", 0.44, 0.05)],
        notes=["Column 3 is constant."],
        command="onefit select penguins.csv --target species",
    )


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


class TestContent:
    def test_every_section_is_there_in_heading_order(self, page):
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in pairwise(levels))
        anchors = {a["href"][1:] for a in page.all("a")}
        assert anchors <= {s.get("id") for s in page.all("section")}
        assert len(page.all("section")) == 9

    def test_choice_and_reasons(self, search, page):
        mean = search.best_score_
        assert f"{mean:.3f}" in page.text
        assert "24 candidates were compared on the same 50 folds" in page.text
        assert "the choice is certified" in page.text
        assert "LapRLSClassifier" in page.text
        assert "24 of 342" in page.text

    def test_data_of_the_heat_map_are_those_of_the_search(self, search, page):
        data = page.data
        assert [axis["label"] for axis in data["axes"][:2]] == list(PENALTIES)
        assert data["best"] == search.best_index_
        np.testing.assert_allclose(data["mean"], search.cv_results_["mean_test_score"], rtol=1e-5)
        np.testing.assert_allclose(data["std"], search.cv_results_["std_test_score"], rtol=1e-5)
        for axis in data["axes"]:
            for i, params in enumerate(search.cv_results_["params"]):
                value = params[f"laprlsclassifier__{axis['label']}"]
                assert axis["levels"][axis["codes"][i]] == describe_value(value)

    def test_predictions_are_counted(self, search, penguins, page):
        X, y = penguins
        hidden = np.array([label is None for label in y])
        counts = np.unique(search.predict(X)[hidden].astype(str), return_counts=True)
        for name, count in zip(*counts, strict=True):
            assert re.search(rf"{name} {np.sum(y == name)} {count} \(", page.text)

    def test_baselines_notes_command_versions(self, page):
        for part in ("majority", "0.440 ± 0.050", "Column 3 is constant.", "scikit-learn"):
            assert part in page.text
        assert "onefit select penguins.csv --target species" in page.text

    def test_drawings_have_names(self, page):
        for drawing in page.all("svg"):
            assert drawing.get("aria-label") or drawing.get("aria-hidden") == "true"
        assert page.all("html")[0]["lang"] == "en"

    def test_labelled_rows_are_marked(self, page):
        marks = [a["class"].split() for a in page.all("use")]
        assert len(marks) == 342
        assert sum("known" in one for one in marks) == 24

    def test_snippet_runs_the_search_again(self, search, penguins):
        X, y = penguins
        scope = {"X": X, "y": y}
        exec(snippet(search), scope)
        again = scope["search"]
        assert again.best_params_ == search.best_params_
        assert again.best_score_ == search.best_score_


class TestSafety:
    def test_no_request_and_no_other_script(self, text, page):
        for tag, attributes in page.elements:
            assert not {"src", "srcset", "action", "data"} & set(attributes), tag
            assert not any(name.startswith("on") or name == "style" for name in attributes)
            href = attributes.get("href", "#")
            assert href.startswith("#") or href == "data:,"
        assert "@import" not in text
        assert "url(" not in text
        assert "http://" not in text
        assert "https://" not in text
        policy = page.all("meta")[1]["content"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert len(page.all("script")) == 2

    def test_script_only_writes_text(self, page):
        script = page.scripts["script"][1]
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in script

    @pytest.mark.parametrize("value", [HOSTILE, "<!--", "]]>", "a & b", "\u2029"])
    def test_json_in_a_script_cannot_end_it(self, value):
        block = json_block({"a": value})
        assert not set("<>&\u2028\u2029") & set(block)
        assert json.loads(block) == {"a": value}

    def test_hostile_names_everywhere(self):
        pandas = pytest.importorskip("pandas")
        X, truth = make_moons(60, noise=0.1, random_state=0)
        X = pandas.DataFrame(X, columns=[HOSTILE, "b"])
        names = np.array([HOSTILE, "plain"], dtype=object)[truth]
        y = np.where(np.arange(60) < 20, names, None)
        grid = {"class_weight": [{HOSTILE: 2.0, "plain": 1.0}, None], **PENALTIES}
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=4).fit(X, y)
        text = report_of(
            search,
            X,
            y,
            title=HOSTILE,
            target_name=HOSTILE,
            baselines=[(HOSTILE, 0.5, 0.1)],
            notes=[HOSTILE],
            command=HOSTILE,
        )
        page = Page(text)
        assert not page.all("img")
        assert len(page.all("script")) == 2
        assert "alert(1)" in page.text
        for _, attributes in page.elements:
            assert "onerror" not in attributes


CASES = {
    "LapSVC": (LapSVC(), "classes"),
    "logistic": (LapLogisticRegression(), "classes"),
    "regression": (LapRLSRegressor(fit_intercept=True), "values"),
    "two outputs": (LapRLSRegressor(), "two"),
}


def moons_with(kind, n=70, n_labels=24):
    X, truth = make_moons(n, noise=0.1, random_state=0)
    hidden = np.arange(n) >= n_labels
    if kind == "classes":
        return X, np.where(hidden, -1, truth)
    values = np.column_stack([X[:, 0], X[:, 1] ** 2])
    values[hidden] = np.nan
    return X, values if kind == "two" else values[:, 0]


class TestKinds:
    @pytest.mark.parametrize("name", CASES)
    def test_every_estimator_without_a_pipeline(self, name):
        model, kind = CASES[name]
        X, y = moons_with(kind)
        search = ManifoldSearchCV(model, PENALTIES, cv=4).fit(X, y)
        page = Page(report_of(search, X, y))
        assert type(model).__name__ in page.text
        is_square = isinstance(model, LapRLSRegressor)
        assert ("For the square loss this step is exact" in page.text) == is_square

    def test_data_frame_with_preprocessing(self):
        pytest.importorskip("pandas")
        data = load_diabetes(as_frame=True)
        y = data.target.to_numpy().copy()
        y[60:] = np.nan
        pipeline = make_pipeline(StandardScaler(), LapRLSRegressor())
        grid = {f"laprlsregressor__{name}": values for name, values in PENALTIES.items()}
        search = ManifoldSearchCV(pipeline, grid, cv=5).fit(data.data, y)
        page = Page(report_of(search, data.data, y, target_name="progression"))
        assert "cross-validated R²" in page.text
        assert "Predicted progression of the 382 rows" in page.text

    def test_mixed_columns(self):
        pandas = pytest.importorskip("pandas")
        X, y = moons_with("classes")
        X = pandas.DataFrame({HOSTILE: X[:, 0], "b": X[:, 1], "c": np.array(["u", "v"])[y % 2]})
        numbers = make_pipeline(SimpleImputer(), StandardScaler())
        columns = make_column_transformer(
            (numbers, [HOSTILE, "b"]), (OneHotEncoder(handle_unknown="ignore"), ["c"])
        )
        pipeline = make_pipeline(columns, LapRLSClassifier())
        grid = {f"laprlsclassifier__{name}": values for name, values in PENALTIES.items()}
        search = ManifoldSearchCV(pipeline, grid, cv=4).fit(X, y)
        page = Page(report_of(search, X, y))
        assert "3 columns before preprocessing and 4 after" in page.text
        scope = {"X": X, "y": y}
        exec(snippet(search), scope)
        assert scope["search"].best_params_ == search.best_params_

    @pytest.mark.parametrize("n_columns", [2, 30])
    def test_sparse_rows(self, n_columns):
        rng = np.random.RandomState(0)
        X = sp.random(60, n_columns, density=0.5, format="csr", random_state=rng)
        y = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
        search = ManifoldSearchCV(LapRLSClassifier(), PENALTIES, cv=4).fit(X, y)
        assert len(Page(report_of(search, X, y)).all("use")) == 60

    def test_precomputed_kernel_and_graph(self):
        X, y = moons_with("classes")
        K = rbf_kernel(X)
        search = ManifoldSearchCV(LapRLSClassifier(kernel="precomputed"), PENALTIES, cv=4)
        Page(report_of(search.fit(K, y), K, y))
        search = ManifoldSearchCV(LapRLSClassifier(graph=K), PENALTIES, cv=4)
        Page(report_of(search.fit(X, y), X, y))

    def test_one_column(self):
        X, y = moons_with("values")
        search = ManifoldSearchCV(LapRLSRegressor(), PENALTIES, cv=4).fit(X[:, :1], y)
        assert len(Page(report_of(search, X[:, :1], y)).all("use")) == 70

    def test_no_unlabelled_row(self):
        X, y = moons_with("classes", n_labels=70)
        search = ManifoldSearchCV(LapRLSClassifier(), PENALTIES, cv=4).fit(X, y)
        assert "Every row has a label." in Page(report_of(search, X, y)).text

    def test_many_classes_are_gathered(self):
        rng = np.random.RandomState(0)
        truth = np.arange(200) % 20
        X = rng.randn(20, 3)[truth] * 4 + rng.randn(200, 3)
        y = np.where(np.arange(200) < 80, truth, -1)
        search = ManifoldSearchCV(LapRLSClassifier(), PENALTIES, cv=4).fit(X, y)
        assert "5 other classes" in Page(report_of(search, X, y)).text

    @pytest.mark.parametrize(
        "grid",
        [
            {"ambient_penalty": [1e-3, 1e-1]},
            {"manifold_penalty": [0.0, 1.0], "kernel_width": [0.1, 1.0, 10.0]},
            {"n_neighbors": [5]},
            [{"ambient_penalty": [0.1, 1.0]}, {"kernel": ["linear"], "manifold_penalty": [1.0]}],
        ],
        ids=["one penalty", "no ambient", "one candidate", "two grids"],
    )
    def test_grids_without_both_penalties(self, grid):
        X, y = moons_with("classes")
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=4).fit(X, y)
        page = Page(report_of(search, X, y))
        assert len(page.data["mean"]) == len(search.cv_results_["params"])

    def test_random_candidates_are_binned(self):
        from scipy.stats import loguniform

        X, y = moons_with("classes")
        grid = {"ambient_penalty": loguniform(1e-6, 1.0), "manifold_penalty": [0.0, 1.0]}
        search = ManifoldSearchCV(LapRLSClassifier(), grid, n_iter=60, cv=4, random_state=0)
        surface = search_surface(search.fit(X, y))
        assert len(surface.axis("ambient_penalty").levels) <= 12
        Page(report_of(search, X, y))

    def test_refined_search(self):
        X, y = moons_with("classes")
        search = ManifoldSearchCV(LapRLSClassifier(), PENALTIES, cv=4, refine=2).fit(X, y)
        Page(report_of(search, X, y))

    @pytest.mark.parametrize("criterion", ["bif", "newton", "certified"])
    def test_criteria_say_how_sure_the_choice_is(self, criterion):
        X, y = moons_with("classes")
        search = ManifoldSearchCV(LapSVC(), PENALTIES, cv=4, criterion=criterion).fit(X, y)
        page = Page(report_of(search, X, y))
        assert ("the choice is certified" in page.text) == search.certified_

    def test_newton_is_exact_for_the_square_loss(self):
        X, y = moons_with("classes")
        search = ManifoldSearchCV(LapRLSClassifier(), PENALTIES, cv=4, criterion="newton")
        assert "Scores are approximate" not in Page(report_of(search.fit(X, y), X, y)).text

    def test_points_held_out(self):
        X, y = moons_with("classes")
        cv = SemiSupervisedKFold(4)
        search = ManifoldSearchCV(LapRLSClassifier(), PENALTIES, cv=cv, holdout="points")
        assert "with their labels, of a fold" in Page(report_of(search.fit(X, y), X, y)).text

    def test_several_scores_and_rules(self):
        X, y = moons_with("values")
        scoring = {"r2": "r2", "mae": make_scorer(mean_absolute_error, greater_is_better=False)}
        search = ManifoldSearchCV(LapRLSRegressor(), PENALTIES, cv=4, scoring=scoring, refit="mae")
        assert "cross-validated mae" in Page(report_of(search.fit(X, y), X, y)).text
        rules = {"one_standard_error": "most regularised", "consensus": "nearest to the median"}
        for rule, words in rules.items():
            search = ManifoldSearchCV(LapRLSRegressor(), PENALTIES, cv=4, selection=rule)
            assert words in Page(report_of(search.fit(X, y), X, y)).text
        search = ManifoldSearchCV(LapRLSRegressor(), PENALTIES, cv=4, refit=lambda columns: 1)
        assert "a rule of yours" in Page(report_of(search.fit(X, y), X, y)).text

    def test_how_many_are_nearly_as_good(self):
        X, y = moons_with("classes")
        search = ManifoldSearchCV(LapSVC(), PENALTIES, cv=4).fit(X, y)
        mean, splits = search.cv_results_["mean_test_score"], range(search.n_splits_)
        best = [search.cv_results_[f"split{i}_test_score"][mean.argmax()] for i in splits]
        near = int((mean >= mean.max() - np.std(best, ddof=1) / 2 - 1e-9).sum())
        text = Page(report_of(search, X, y)).text
        assert near > 1
        assert f"Of the {near} candidates within one standard error" in text
        assert "the largest mean margin for its scale" in text
        X, y = moons_with("values")
        search = ManifoldSearchCV(LapRLSRegressor(), {"ambient_penalty": [1e-3, 1e9]}, cv=4)
        text = Page(report_of(search.fit(X, y), X, y)).text
        assert "No other candidate lies within one standard error" in text


@pytest.mark.parametrize(
    "chosen, mean, words",
    [
        (1, [0.52, 0.51, 0.60], "the best score is 0.520 ± 0.100; using them brings 0.08"),
        (1, [0.52, 0.51, 0.52], "using them does not raise the score"),
        (0, [0.52, 0.51, 0.60], "with the unlabelled rows the best score is higher by 0.08"),
        (0, [0.52, 0.51, 0.50], "no use for the unlabelled rows"),
    ],
)
def test_unlabelled_rows_are_judged_by_the_best_scores(chosen, mean, words):
    """Not by that of the choice, which may be one of several nearly as good."""
    axis = Axis("manifold_penalty", "manifold_penalty", ("0", "1", "2"), np.arange(3), True)
    splits = np.column_stack([mean, mean])
    surface = Surface("r2", np.array(mean), np.full(3, 0.1), splits, (axis,), chosen)
    (said,) = _what_unlabelled_rows_bring(surface)
    assert words in said


class TestErrorsAndSize:
    def test_refit_false(self):
        X, y = moons_with("classes")
        search = ManifoldSearchCV(LapRLSClassifier(), PENALTIES, cv=4, refit=False).fit(X, y)
        with pytest.raises(ValueError, match=r"no best_estimator_; expected .* refit=True"):
            report_of(search, X, y)

    def test_other_rows(self, search, penguins):
        X, y = penguins
        with pytest.raises(ValueError, match="X has 100 rows and the search was fitted to 342"):
            report_of(search, X[:100], y[:100])

    def test_size_of_a_small_report(self, text):
        assert len(text.encode()) < 150_000

    def test_many_rows_stay_small(self):
        rng = np.random.RandomState(0)
        n = 20_000
        truth = rng.randint(0, 6, n)
        X = rng.randn(6, 3)[truth] * 3 + rng.randn(n, 3)
        y = np.where(np.arange(n) < 300, truth, -1)
        model = LapRLSClassifier(n_components=60, random_state=0)
        search = ManifoldSearchCV(model, PENALTIES, cv=SemiSupervisedKFold(5)).fit(X, y)
        text = report_of(search, X, y)
        assert len(text.encode()) < 500_000
        page = Page(text)
        assert "a sample of 800 rows with 300 labels" in page.text
        assert "2,000 of 20,000 rows" in page.text
        assert len(page.all("use")) == 2000
        assert sum("known" in one["class"].split() for one in page.all("use")) == 300

    def test_sample_keeps_a_rare_class(self):
        rng = np.random.RandomState(0)
        X = rng.randn(1500, 2)
        y = np.zeros(1500, dtype=int)
        y[rng.permutation(1500)[:5]] = 1
        model = LapRLSClassifier(n_components=30, random_state=0)
        search = ManifoldSearchCV(model, {"ambient_penalty": [0.1]}, cv=SemiSupervisedKFold(3))
        page = Page(report_of(search.fit(X, y), X, y))
        assert "a sample of 300 rows with 300 labels" in page.text

    def test_given_graph_of_many_rows_is_not_compared(self):
        X, y = moons_with("classes", n=900)
        graph = sp.diags([1.0, 1.0], [-1, 1], shape=(900, 900), format="csr")
        model = LapRLSClassifier(graph=graph, n_components=40, random_state=0)
        search = ManifoldSearchCV(model, PENALTIES, cv=4).fit(X, y)
        assert "The graph is a given matrix" in Page(report_of(search, X, y)).text

    def test_many_candidates_stay_small(self):
        X, y = moons_with("classes")
        grid = {
            "ambient_penalty": np.geomspace(1e-6, 1.0, 63).tolist(),
            "manifold_penalty": [0.0, *np.geomspace(0.01, 1e5, 23).tolist()],
        }
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=5).fit(X, y)
        assert len(search.cv_results_["params"]) == 1512
        assert len(report_of(search, X, y).encode()) < 200_000


@pytest.mark.parametrize(
    "value, expected",
    [
        (0.0, "0"),
        (1e-6, "10⁻⁶"),
        (0.424, "0.424"),
        (1234.5, "1234"),
        (3.3e-5, "3.3×10⁻⁵"),
        (-1e4, "-10⁴"),
        (float("nan"), "NaN"),
        (float("inf"), "∞"),
        (None, "None"),
        (True, "True"),
        (np.zeros((3, 2)), "ndarray of shape (3, 2)"),
        (make_moons, "make_moons"),
    ],
)
def test_values_as_text(value, expected):
    assert describe_value(value) == expected


@pytest.mark.parametrize("value", [0.0, 1.0, -3e8, 1e200])
def test_histogram_of_a_constant(value):
    values = np.full(50, value)
    values[::2] = np.nextafter(value, np.inf)
    drawing = svg.histogram(values, values[:5], "t")
    assert "nan" not in drawing
    heights = [float(h) for h in re.findall(r'class="bar"[^>]* height="([^"]*)"', drawing)]
    assert sum(h > 0 for h in heights) == 1
