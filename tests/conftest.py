"""What tests share: one BLAS thread, three small data sets, what the command is given."""

import json
import sys
import types

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_moons
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from command import GRID


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Tests solve many small systems: one is faster, and leaves cores to other workers."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="module")
def moons():
    """Two classes, every fourth row labelled, and the truth."""
    X, truth = make_moons(120, noise=0.2, random_state=0)
    y = np.where(np.arange(120) % 4 == 0, truth, -1)
    return X, y, truth


@pytest.fixture(scope="module")
def waves():
    """A target with every fourth row labelled."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (100, 2))
    y = np.where(np.arange(100) % 4 == 0, np.sin(2 * X[:, 0]) + 0.1 * X[:, 1], np.nan)
    return X, y


@pytest.fixture(scope="module")
def wine():
    """Three classes, a quarter of the rows labelled, and the truth."""
    X, truth = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(truth)) < 0.25, truth, -1)
    return StandardScaler().fit_transform(X), y, truth


@pytest.fixture
def grid(tmp_path):
    """A file with a small grid for the command."""
    folder = tmp_path / "grids"
    folder.mkdir()
    path = folder / "grid.json"
    path.write_text(json.dumps(GRID))
    return str(path)


@pytest.fixture
def report(monkeypatch):
    """A stand-in for the report; returns what it was called with."""
    calls = []

    def render_report(search, X, y, **options):
        calls.append(types.SimpleNamespace(search=search, X=X, y=y, **options))
        return "<html>report</html>"

    module = types.ModuleType("onefit.report")
    module.render_report = render_report
    monkeypatch.setitem(sys.modules, "onefit.report", module)
    return calls
