"""What tests share: one BLAS thread, and three small data sets."""

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_moons
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits


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
