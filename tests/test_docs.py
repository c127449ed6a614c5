"""What the documentation promises: equivalences with other packages, and a complete reference."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import kneighbors_graph
from sklearn.svm import SVC, LinearSVC

import onefit
import onefit.datasets
import onefit.report
from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, LapSVC

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page for page in (*DOCS.glob("*.md"), *DOCS.glob("guide/*.md")) if page.name != "api.md"
)

WIDTH, PENALTY, LABELS = 3.0, 0.02, 30
SUPERVISED = {"ambient_penalty": PENALTY, "manifold_penalty": 0.0}


@pytest.fixture(scope="module")
def rows():
    """90 rows, the first 30 labelled: features, both targets, marks of unlabelled rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    value = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=90)
    code = (value + 0.5 * rng.normal(size=90) > 0).astype(int)
    hidden = np.arange(90) >= LABELS
    return X, np.where(hidden, np.nan, value), np.where(hidden, -1, code)


class TestScikitLearn:
    """The table on "Coming from scikit-learn"."""

    def test_regressor_is_kernel_ridge(self, rows):
        X, value, _ = rows
        ours = LapRLSRegressor(kernel_width=WIDTH, **SUPERVISED).fit(X, value)
        peer = KernelRidge(kernel="rbf", alpha=LABELS * PENALTY, gamma=1 / (2 * WIDTH))
        peer.fit(X[:LABELS], value[:LABELS])
        np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-9, atol=1e-11)

    def test_classifier_is_the_sign_of_kernel_ridge(self, rows):
        X, _, code = rows
        ours = LapRLSClassifier(kernel_width=WIDTH, **SUPERVISED).fit(X, code)
        peer = KernelRidge(kernel="rbf", alpha=LABELS * PENALTY, gamma=1 / (2 * WIDTH))
        peer.fit(X[:LABELS], 2.0 * code[:LABELS] - 1.0)
        np.testing.assert_allclose(
            ours.decision_function(X), peer.predict(X), rtol=1e-9, atol=1e-11
        )

    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_logistic_regression(self, rows, fit_intercept):
        X, _, code = rows
        ours = LapLogisticRegression(
            kernel="linear", fit_intercept=fit_intercept, **SUPERVISED
        ).fit(X, code)
        peer = LogisticRegression(
            C=1 / (2 * LABELS * PENALTY), fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000
        ).fit(X[:LABELS], code[:LABELS])
        np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-5)

    def test_squared_hinge_is_linear_svc(self, rows):
        X, _, code = rows
        ours = LapSVC(kernel="linear", loss="squared_hinge", **SUPERVISED).fit(X, code)
        peer = LinearSVC(
            C=1 / (2 * LABELS * PENALTY), fit_intercept=False, dual=False, tol=1e-10
        ).fit(X[:LABELS], code[:LABELS])
        np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-5)

    def test_narrow_hinge_tends_to_svc(self, rows):
        X, _, code = rows
        peer = SVC(C=1 / (2 * LABELS * PENALTY), gamma=1 / (2 * WIDTH), tol=1e-10)
        expected = peer.fit(X[:LABELS], code[:LABELS]).decision_function(X)
        errors = [
            np.abs(
                LapSVC(kernel_width=WIDTH, fit_intercept=True, hinge_width=h, **SUPERVISED)
                .fit(X, code)
                .decision_function(X)
                - expected
            ).max()
            for h in (0.1, 0.01, 0.001)
        ]
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 2e-3


def binary_laplacian(X, k):
    """The Laplacian of the symmetric 0/1 graph, by scikit-learn's neighbours."""
    W = kneighbors_graph(X, k, mode="connectivity", include_self=False).toarray()
    W = np.maximum(W, W.T)
    return np.diag(W.sum(axis=1)) - W


class TestLapsvmp:
    """Its optimality conditions, (gamma_A I + I_sv K + gamma_I L K) alpha = I_sv y."""

    gamma_A, gamma_I, NN, s = 0.02, 1e-3, 6, 1.5

    @pytest.mark.parametrize("hinge", [0, 1])
    def test_same_function(self, rows, hinge):
        X, _, code = rows
        n = len(X)
        parameters = {
            "kernel_width": self.s**2,
            "ambient_penalty": self.gamma_A / LABELS,
            "manifold_penalty": self.gamma_I * n**2 / LABELS,
            "n_neighbors": self.NN,
            "graph_weights": "binary",
        }
        model = LapSVC(loss="squared_hinge", **parameters) if hinge else None
        ours = (model or LapRLSClassifier(**parameters)).fit(X, code).decision_function(X)
        y = np.where(np.arange(n) < LABELS, 2.0 * code - 1.0, 0.0)
        K, L = rbf_kernel(X, gamma=1 / (2 * self.s**2)), binary_laplacian(X, self.NN)
        active = (y != 0.0) & ((y * ours < 1.0) | (hinge == 0))
        assert hinge == 0 or 0 < active.sum() < LABELS
        system = self.gamma_A * np.eye(n) + active[:, None] * K + self.gamma_I * L @ K
        np.testing.assert_allclose(ours, K @ np.linalg.solve(system, active * y), atol=1e-7)


class TestRSSL:
    """Its linear system, (J K + lambda l I + gamma l / N^2 L K) theta = y, with y centred."""

    lambda_, gamma, sigma, k = 0.05, 4.0, 0.2, 6

    def test_least_squares(self, rows):
        X, _, code = rows
        n = len(X)
        y = np.where(np.arange(n) < LABELS, code - code[:LABELS].mean(), np.nan)
        ours = LapRLSRegressor(
            kernel_width=1 / (2 * self.sigma),
            ambient_penalty=self.lambda_,
            manifold_penalty=self.gamma,
            n_neighbors=self.k,
            graph_weights="binary",
        ).fit(X, y)
        K, L = rbf_kernel(X, gamma=self.sigma), binary_laplacian(X, self.k)
        J = np.diag((np.arange(n) < LABELS).astype(float))
        system = J @ K + self.lambda_ * LABELS * np.eye(n) + self.gamma * LABELS / n**2 * L @ K
        theta = np.linalg.solve(system, np.nan_to_num(y))
        np.testing.assert_allclose(ours.predict(X), K @ theta, atol=1e-9)


class TestPages:
    def test_every_public_name_is_in_the_reference(self):
        listed = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
        public = {name for name in onefit.__all__ if not name.startswith("__")}
        public |= {f"datasets.{name}" for name in onefit.datasets.__all__}
        public |= {f"report.{name}" for name in onefit.report.__all__}
        assert listed == public

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_code_without_prompts_is_python(self, page):
        """Code that doctest does not run is at least free of typing errors."""
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.M):
            if ">>>" not in block:
                ast.parse(block)

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_links_to_pages_exist(self, page):
        """Also without Sphinx: the pages are read on code hosting sites as well."""
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        missing = [link for link in links if not (page.parent / link).exists()]
        assert [link for link in missing if not link.startswith("auto_examples/")] == []

    def test_readme_links_exist(self):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / "README.md").read_text())
        assert [link for link in links if not (ROOT / link).exists()] == []

    def test_examples_download_nothing(self):
        for example in (ROOT / "examples").glob("*.py"):
            text = example.read_text()
            assert not re.search(r"fetch_|load_libsvm_data|urlopen|https?://", text), example.name
