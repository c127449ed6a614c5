"""Long searches: progress, interrupts, checkpoints."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from copy import deepcopy
from functools import partial
from threading import Lock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    make_scorer,
)

from forked import group_is_alive
from onefit import (
    LapRLSClassifier,
    ManifoldSearchCV,
    SemiSupervisedKFold,
)
from onefit.search.checkpoint import fingerprint
from onefit.search.progress import progress_bar
from searches import CV, GRID, Quiet


class TestRunning:
    def test_progress_on_a_terminal_only(self, monkeypatch, capsys):
        with progress_bar("candidates", 3, enabled=True) as bar:
            bar.advance(3)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with progress_bar("candidates", 3, enabled=True) as bar:
            bar.advance(3)
        assert "candidates" in capsys.readouterr().err

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_interrupt_ends_it_cleanly(self, n_jobs):
        """Ctrl-C: a KeyboardInterrupt soon, and no worker left behind."""
        script = textwrap.dedent(
            f"""
            import numpy as np
            from onefit import LapSVC, ManifoldSearchCV

            X = np.random.default_rng(0).normal(size=(600, 5))
            y = np.where(np.arange(600) % 4 == 0, X[:, 0] > 0, -1).astype(int)
            print("ready", flush=True)
            ManifoldSearchCV(LapSVC(), "paper", n_jobs={n_jobs}).fit(X, y)
            """
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A job in the background of a shell ignores interrupts, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(3.0)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert process.returncode != 0
        assert "KeyboardInterrupt" in errors
        deadline = time.monotonic() + 10.0
        while group_is_alive(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not group_is_alive(process.pid)


def constant(_, estimator, X, y):
    return 1.0


class Plain(Quiet):
    __repr__ = object.__repr__


def calling(value):
    """A metric of the same name whose body is another."""
    scope = {}
    exec(f"def metric(a, b):\n    return {value}", scope)
    return scope["metric"]


#: Pairs of scorers that differ, each made anew when asked for.
SCORERS = {
    "metric": (
        lambda: make_scorer(lambda a, b: 1.0),
        lambda: make_scorer(lambda a, b: 2.0),
    ),
    "edited": (lambda: make_scorer(calling(1.0)), lambda: make_scorer(calling(2.0))),
    "options": (
        lambda: make_scorer(f1_score, average="micro"),
        lambda: make_scorer(f1_score, average="macro"),
    ),
    "nested": (lambda: lambda e, X, y: (lambda: 1.0)(), lambda: lambda e, X, y: (lambda: 2.0)()),
    "method": (lambda: Quiet(1.0).score, lambda: Quiet(2.0).score),
    "object": (lambda: Quiet(1.0), lambda: Quiet(2.0)),
    "address": (lambda: Plain(1.0), lambda: Plain(2.0)),
    "class": (lambda: Plain(1.0), lambda: Quiet(1.0)),
}


class TestCheckpoint:
    def test_second_run_computes_nothing(self, moons, tmp_path, monkeypatch):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, checkpoint=tmp_path / "c")
        first = search.fit(X, y).cv_results_
        monkeypatch.setattr(
            "onefit.search.search.evaluate_group", lambda *a: pytest.fail("computed again")
        )
        again = clone(search).fit(X, y).cv_results_
        for key in first:
            np.testing.assert_array_equal(first[key], again[key])

    def test_other_number_of_jobs(self, moons, tmp_path):
        """A checkpoint of one process serves two, whole or in part."""
        X, y, _ = moons
        path = tmp_path / "c"
        one = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, checkpoint=path, refine=1)
        first = one.fit(X, y).cv_results_
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:2]))
        again = clone(one).set_params(n_jobs=2).fit(X, y).cv_results_
        assert np.array_equal(first["mean_test_score"], again["mean_test_score"])

    def test_other_graph_or_score_is_refused(self, moons, tmp_path):
        """Arrays too long to print, and functions, are told apart."""
        X, y, _ = moons
        graph = LapRLSClassifier().fit(X, y).graph_
        search = ManifoldSearchCV(
            LapRLSClassifier(graph=graph),
            {"ambient_penalty": [1e-3, 1e-2]},
            cv=CV,
            scoring=make_scorer(accuracy_score),
            checkpoint=tmp_path / "c",
        ).fit(X, y)
        clone(search).fit(X, y)
        other = graph.copy()
        other.data = other.data * 1.001
        for params in ({"estimator__graph": other}, {"scoring": make_scorer(f1_score)}):
            with pytest.raises(ValueError, match="holds another search"):
                clone(search).set_params(**params).fit(X, y)

    @pytest.mark.parametrize("pair", SCORERS, ids=str)
    def test_other_scorers_are_refused(self, moons, tmp_path, pair):
        """What a scorer does counts; where it is in memory does not."""
        X, y, _ = moons
        first, other = SCORERS[pair]
        grid = {"ambient_penalty": [1e-3, 1e-2]}
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=CV, checkpoint=tmp_path / "c")
        search.set_params(scoring=first()).fit(X, y)
        search.set_params(scoring=first()).fit(X, y)
        with pytest.raises(ValueError, match="holds another search"):
            search.set_params(scoring=other()).fit(X, y)

    def test_what_fingerprints_tell_apart(self):
        long = np.array(["a"] * 2000, dtype=object)
        other = long.copy()
        other[1000] = "b"
        loop, twice = [1], [[1]]
        loop.append(loop)
        twice[0].append(twice)
        values = [long, other, loop, twice, [1, 23], [12, 3], {"a": {}}, {"a": []}, object]
        values += [Quiet(1.0), Quiet(2.0), RBF(1.0), RBF(2.0), PCA(1), PCA(2), {"a", "b"}, {"ab"}]
        prints = [fingerprint([value]) for value in values]
        assert len(set(prints)) == len(values)
        assert prints == [fingerprint([deepcopy(value)]) for value in values]

    def test_what_hides_its_state_is_refused(self, moons, tmp_path):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, checkpoint=tmp_path / "c")
        with pytest.raises(TypeError, match="checkpoint with a lock"):
            search.set_params(scoring=partial(constant, Lock())).fit(X, y)

    def test_other_data_are_refused(self, moons, tmp_path):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, checkpoint=tmp_path / "c")
        search.fit(X, y)
        with pytest.raises(ValueError, match="holds another search"):
            search.fit(X + 1e-9, y)

    @pytest.mark.parametrize("cut", [1, 7, 40])
    def test_damage_costs_only_what_it_hit(self, moons, tmp_path, cut):
        X, y, _ = moons
        path = tmp_path / "c"
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, checkpoint=path)
        first = search.fit(X, y).cv_results_["mean_test_score"]
        path.write_bytes(path.read_bytes()[:-cut])
        assert np.array_equal(search.fit(X, y).cv_results_["mean_test_score"], first)

    def test_killed_and_resumed(self, tmp_path):
        script = textwrap.dedent(
            """
            import os, signal, sys
            import numpy as np
            from sklearn.datasets import make_moons
            import onefit.search.search as module
            from onefit import LapRLSClassifier, ManifoldSearchCV, SemiSupervisedKFold

            X, truth = make_moons(120, noise=0.2, random_state=0)
            y = np.where(np.arange(120) % 4 == 0, truth, -1)
            grid = {"kernel_width": [0.1, 1.0, 10.0], "ambient_penalty": [1e-4, 1e-2]}
            left = int(sys.argv[2])
            evaluate = module.evaluate_group

            def dying(*arguments):
                global left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return evaluate(*arguments)

            module.evaluate_group = dying
            cv = SemiSupervisedKFold(4, shuffle=True, random_state=0)
            search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=cv, checkpoint=sys.argv[1])
            search.fit(X, y)
            print(search.cv_results_["mean_test_score"].tolist(), left)
            """
        )

        def run(path, groups):
            return subprocess.run(
                [sys.executable, "-c", script, str(path), str(groups)],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )

        whole = run(tmp_path / "whole", 99)
        assert run(tmp_path / "c", 2).returncode == -signal.SIGKILL
        resumed = run(tmp_path / "c", 99)
        assert resumed.stdout.split("]")[0] == whole.stdout.split("]")[0]
        assert resumed.stdout.split()[-1] == "98"  # one group was left to do

    def test_a_checkpoint_knows_what_a_scorer_does(self, moons, tmp_path):
        X, y, _ = moons
        path = tmp_path / "c"
        options = {"cv": CV, "checkpoint": path}
        first = {"scoring": lambda e, X, y: accuracy_score(y, e.predict(X))}
        other = {"scoring": lambda e, X, y: -accuracy_score(y, e.predict(X))}
        ManifoldSearchCV(LapRLSClassifier(), GRID, **options, **first).fit(X, y)
        with pytest.raises(ValueError, match="another search"):
            ManifoldSearchCV(LapRLSClassifier(), GRID, **options, **other).fit(X, y)

    def test_a_checkpoint_wants_a_seed(self, moons, tmp_path):
        X, y, _ = moons
        shuffled = SemiSupervisedKFold(3, shuffle=True)
        for options in ({}, {"cv": shuffled}, {"cv": CV, "n_iter": 2}):
            search = ManifoldSearchCV(
                LapRLSClassifier(), GRID, checkpoint=tmp_path / "c", **options
            )
            with pytest.raises(ValueError, match="random_state"):
                search.fit(X, y)
