"""Searches on ray, through joblib."""

import os
import secrets
import signal

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose

from onefit import LapRLSRegressor, ManifoldSearchCV

ray = pytest.importorskip("ray", reason="ray is not installed: onefit[ray]")

# Warnings of ray about itself and what it leaves to the garbage collector are not our affair.
pytestmark = pytest.mark.filterwarnings("ignore")

N = 300
X = np.random.default_rng(0).normal(size=(N, 3))
Y = np.where(np.arange(N) % 6 == 0, np.sin(X[:, 0]), np.nan)
GRID = {
    "kernel_params": [{"gamma": gamma} for gamma in np.geomspace(0.05, 2.0, 10)],
    "manifold_penalty": [0.0, 1.0, 1e3],
}


@pytest.fixture(scope="module", autouse=True)
def two_processes():
    from ray.util.joblib import register_ray

    with pytest.MonkeyPatch.context() as patch:
        # Otherwise ray writes a token into the home directory.
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        # Its workers give way to all other processes: on a busy machine they would wait for long.
        patch.setenv("RAY_worker_niceness", "0")
        ray.init(
            num_cpus=2,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
        )
        register_ray()
        yield
        ray.shutdown()


def kernel_that_kills(path):
    """A Gaussian kernel that once, for one width, kills the process it runs in."""
    here, fatal = os.getpid(), GRID["kernel_params"][3]["gamma"]

    def kernel(A, B, gamma):
        if gamma == fatal and path is not None and os.getpid() != here and not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        from sklearn.metrics.pairwise import rbf_kernel

        return rbf_kernel(A, B, gamma=gamma)

    return kernel


def search(path=None, **params):
    model = LapRLSRegressor(kernel=kernel_that_kills(path), n_components=40, random_state=0)
    return ManifoldSearchCV(model, GRID, cv=4, **params).fit(X, Y)


def assert_same(found, expected):
    for column in ("mean_test_score", "std_test_score", "mean_test_loss"):
        assert_allclose(found.cv_results_[column], expected.cv_results_[column], atol=1e-8)
    assert found.best_params_ == expected.best_params_


def test_the_numbers_of_one_process():
    with parallel_config(backend="ray", n_jobs=-1):
        found = search()
    assert_same(found, search(n_jobs=1))


def test_a_killed_worker(tmp_path):
    persistent = {"max_restarts": -1, "max_task_retries": -1}
    with parallel_config(backend="ray", n_jobs=-1, ray_remote_args=persistent):
        found = search(tmp_path / "killed")
    assert (tmp_path / "killed").exists()
    assert_same(found, search(n_jobs=1))
