"""Subnormal results are zero while a search computes held-out decisions, and only then."""

import platform
import sys
import threading

import numpy as np
import pytest
from sklearn.metrics import make_scorer

from onefit import ManifoldSearchCV
from onefit._subnormals import subnormals_as_zero
from onefit.search import held_out
from test_held_out import LapSVC, moons

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="elsewhere than on Linux with an x86-64 processor they are left as they are",
)


def small():
    """A subnormal number as a product, and one as it is, doubled."""
    return np.array([1e-200]) * 1e-120, np.array([1e-310]) * 2.0


def test_within_and_after():
    assert all(small())
    with subnormals_as_zero():
        assert not any(small())
        with subnormals_as_zero():
            assert not any(small())
        assert not any(small())
        assert np.array([2.3e-308]) * 1.0 == 2.3e-308
        assert np.array([1e-310]) > 0.0  # what is not computed is what it was
    assert all(small())


def test_after_an_error():
    with pytest.raises(KeyError), subnormals_as_zero():
        raise KeyError
    assert all(small())


def test_threads_that_are_started_within():
    seen = []
    with subnormals_as_zero():
        thread = threading.Thread(target=lambda: seen.append(small()))
        thread.start()
        thread.join()
    assert not any(seen[0])


def test_a_search_computes_decisions_without_them_and_scores_with_them(monkeypatch):
    seen, scored = [], []
    fits_of_plane = held_out.fits_of_plane
    monkeypatch.setattr(
        held_out, "fits_of_plane", lambda *a: seen.append(small()) or fits_of_plane(*a)
    )

    def scoring(y, predicted):
        scored.append(small())
        return np.mean(y == predicted)

    X, y = moons()
    grid = {"kernel_width": [0.5, 1.0]}
    ManifoldSearchCV(LapSVC(), grid, cv=3, scoring=make_scorer(scoring)).fit(X, y)
    assert len(seen) == 2
    assert not any(any(one) for one in seen)
    assert scored
    assert all(all(one) for one in scored)
    assert all(small())
