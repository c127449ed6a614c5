"""What a search costs against refitting every candidate on every fold.

    python benchmarks/search.py plane     # 81 penalties on a3a, LapRLS and LapSVC
    python benchmarks/search.py grid      # the paper's 13,365 candidates on abalone, t = 10
    python benchmarks/search.py jobs      # one job and two, on 9 kernels of that grid
    python benchmarks/search.py points    # points held out, by the number of folds
    python benchmarks/search.py profile   # where the time of `plane` goes, and its peak memory
    python benchmarks/search.py report    # the table for the docs

The rival is GridSearchCV-style refitting with our own single fit, the fastest there is here: with
labels held out, a fit on all rows for every candidate and fold with the fold's labels hidden. Its
time is taken from a stated random sample of these fits, interleaved with runs of the search.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import subprocess
import sys
import time
import tracemalloc
from functools import partial

import numpy as np
from common import IMAGES, Split, interleaved, load, paper_split, save, write_table
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from onefit import (
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    SemiSupervisedKFold,
)
from onefit.basis import plane_basis
from onefit.factors import factor_kernel
from onefit.folds import check_folds
from onefit.graphs import Graph
from onefit.kernels import Kernel
from onefit.search import fold_planes
from onefit.search.candidates import list_candidates, paper_grid
from onefit.search.plane import square_plane

PLANE = {
    "ambient_penalty": [10.0**i for i in range(-6, 3)],
    "manifold_penalty": [10.0**i for i in range(-6, 3)],
}
MODEL = {"kernel_width": 128.0, "n_neighbors": 4, "graph_width": 64.0}
#: Functions whose time is reported, without overlap, and what they do.
PARTS = {
    "plane_basis": "reduction of B'LB to tridiagonal form",
    "labelled_gram": "deformed kernels of 17 ratios",
    "factor_kernel": "Cholesky factor of the kernel",
    "square_plane": "small eigenproblems, all folds",
    "geometry_of": "distances and neighbours",
}
REPEATS = 5
SAMPLE = 60
N_COMPONENTS = 300


def classes_of_a3a() -> tuple[np.ndarray, np.ndarray, Split]:
    """Rows, and class labels with -1 where unlabelled."""
    data = paper_split("a3a")
    return data.X, np.where(data.labelled, (data.y > 0).astype(int), -1), data


def hide(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Targets with these rows unlabelled."""
    hidden = y.copy()
    hidden[rows] = -1 if y.dtype.kind == "i" else np.nan
    return hidden


def race(model, grid, X, y, t, repeats, sample, seed=0) -> dict:
    """Interleave searches with single fits of the rival, on random candidates and folds."""
    cv = SemiSupervisedKFold(t, shuffle=True, random_state=0)
    splits = list(cv.split(X, y))
    candidates = list_candidates(grid, None, None)
    rng = np.random.default_rng(seed)
    pairs = [(rng.integers(len(candidates)), rng.integers(t)) for _ in range(sample)]
    searches, fits = [], []
    ManifoldSearchCV(model, {k: v[:1] for k, v in grid.items()}, cv=cv).fit(X, y)  # warm up
    for chunk in np.array_split(np.array(pairs), repeats):
        start = time.perf_counter()
        search = ManifoldSearchCV(model, grid, cv=cv).fit(X, y)
        searches.append(time.perf_counter() - start)
        for i, fold in chunk:
            params = candidates[i]
            test = splits[fold][1]
            start = time.perf_counter()
            rival = clone(model).set_params(**params).fit(X, hide(y, test))
            rival._decisions(X[test])
            fits.append(time.perf_counter() - start)
    return {
        "t": t,
        "candidates": len(candidates),
        "search_seconds": searches,
        "fit_seconds": fits,
        "certified": search.certified_,
        "best": {k: float(v) for k, v in search.best_params_.items()},
        "best_score": float(search.best_score_),
    }


def plane() -> None:
    X, y, _ = classes_of_a3a()
    runs = {}
    for name, model, t in (
        ("LapRLS, t = 10", LapRLSClassifier(**MODEL), 10),
        ("LapRLS, t = 20", LapRLSClassifier(**MODEL), 20),
        ("LapSVC, t = 10", LapSVC(**MODEL), 10),
    ):
        runs[name] = race(model, PLANE, X, y, t, REPEATS, SAMPLE)
        ours = np.median(runs[name]["search_seconds"])
        rival = runs[name]["candidates"] * t * np.median(runs[name]["fit_seconds"])
        print(f"{name}: {ours:.2f} s, rival {rival:.0f} s, {rival / ours:.0f} times")
    runs["agreement"] = agreement(X, y)
    save("search_plane", {"rows": len(y), "labels": int((y != -1).sum()), "runs": runs})


def agreement(X: np.ndarray, y: np.ndarray, t: int = 10, sample: int = 30) -> float:
    """Largest relative difference between our held-out decisions and refits, over a sample."""
    model = LapRLSClassifier(**MODEL)
    targets, sample_weight = model._read_labels(X, y, None)
    graph = Graph(model.fit(X, y).graph_)
    labelled = np.flatnonzero(targets.labelled)
    factor = factor_kernel(Kernel(width=MODEL["kernel_width"])(X))
    basis = plane_basis(factor, graph.laplacian, labelled)
    splits = list(SemiSupervisedKFold(t, shuffle=True, random_state=0).split(X, y))
    folds = check_folds(splits, targets.labelled)
    candidates = list_candidates(PLANE, None, None)
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(sample):
        params, fold = candidates[rng.integers(len(candidates))], int(rng.integers(t))
        model.set_params(**params)
        problem = model._pose_problem(basis, graph, targets, sample_weight)
        ours = square_plane(
            problem.deformed.labelled_gram,
            np.array([problem.ambient_penalty]),
            problem.targets,
            problem.weights,
            [folds[fold]],
            fit_intercept=False,
        )[0][0]
        test = splits[fold][1]
        refit = clone(model).fit(X, hide(y, test))._decisions(X[test])
        worst = max(worst, float(np.abs(ours - refit).max() / np.abs(refit).max()))
    print(f"held-out decisions agree to {worst:.1e}")
    return worst


def profile() -> None:
    X, y, _ = classes_of_a3a()
    cv = SemiSupervisedKFold(10, shuffle=True, random_state=0)
    search = ManifoldSearchCV(LapRLSClassifier(**MODEL), PLANE, cv=cv, refit=False)
    search.fit(X, y)
    profiler = cProfile.Profile()
    profiler.enable()
    search.fit(X, y)
    profiler.disable()
    stats = pstats.Stats(profiler).stats
    total = max(entry[3] for entry in stats.values())
    parts = {name: entry[3] for (_, _, name), entry in stats.items() if name in PARTS}
    tracemalloc.start()
    search.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    for name, seconds in parts.items():
        print(f"{name:32s}{seconds:8.3f} s {100 * seconds / total:5.1f} %")
    print(f"total {total:.2f} s; peak memory {peak / 8 / len(y) ** 2:.2f} N^2 doubles")
    save(
        "search_profile",
        {"rows": len(y), "total": total, "parts": parts, "peak_n2": peak / 8 / len(y) ** 2},
    )


def points() -> None:
    """81 penalties with points held out: with folds by the edges they take away, and without."""
    data = paper_split("a1a")
    y = np.where(data.labelled, (data.y > 0).astype(int), -1)
    by_edges, runs = fold_planes.edge_features, {}
    for t in (5, 10, 20, 50, 100):
        cv = SemiSupervisedKFold(t, shuffle=True, random_state=0)
        model = LapRLSClassifier(**MODEL)
        search = ManifoldSearchCV(model, PLANE, cv=cv, holdout="points", refit=False)
        scores: list[np.ndarray] = []

        def run(edges, search=search, scores=scores):
            fold_planes.edge_features = edges
            scores.append(search.fit(data.X, y).cv_results_["mean_test_score"])

        with threadpool_limits(1):
            ways = {"edges": partial(run, by_edges), "without": partial(run, lambda *_: None)}
            seconds = interleaved(ways, 3)
        difference = float(max(np.abs(one - scores[0]).max() for one in scores))
        runs[t] = {"seconds": seconds, "largest_difference": difference}
        print(t, {way: round(float(np.median(s)), 2) for way, s in seconds.items()}, difference)
    save("search_points", {"rows": len(y), "labels": int(data.labelled.sum()), "runs": runs})


def grid() -> None:
    data = paper_split("abalone")
    mean, std = data.y[data.labelled].mean(), data.y[data.labelled].std()
    y = np.where(data.labelled, (data.y - mean) / std, np.nan)
    truth = (data.y_test - mean) / std
    cv = SemiSupervisedKFold(10, shuffle=True, random_state=0)
    fits = _sample_of_fits(data.X, y, list(cv.split(data.X, y)))
    runs = {}
    for name, components in (("exact", None), ("Nystrom", N_COMPONENTS)):
        model = LapRLSRegressor(n_components=components, landmarks="rpcholesky", random_state=0)
        start = time.perf_counter()
        search = ManifoldSearchCV(
            model, "paper", cv=cv, scoring="neg_mean_squared_error", verbose=1
        ).fit(data.X, y)
        seconds = time.perf_counter() - start
        error = float(np.mean(np.square(search.predict(data.X_test) - truth)))
        runs[name] = {
            "n_components": components,
            "seconds": seconds,
            "test_error": error,
            "best": search.best_params_,
        }
        refits = 10 * len(search.cv_results_["params"])
        print(
            f"{name}: {seconds:.0f} s, {refits * np.median(fits) / seconds:.0f} times, {error:.5f}"
        )
    save("search_grid", {"rows": len(y), "fit_seconds": fits, "refits": refits, "runs": runs})


def _sample_of_fits(X, y, splits, sample=SAMPLE) -> list[float]:
    """Seconds of single fits on random candidates of the paper's grid and random folds."""
    candidates = list_candidates(paper_grid(), None, None)
    rng = np.random.default_rng(0)
    seconds = []
    for _ in range(sample):
        params = candidates[rng.integers(len(candidates))]
        test = splits[rng.integers(len(splits))][1]
        start = time.perf_counter()
        LapRLSRegressor(**params).fit(X, hide(y, test))._decisions(X[test])
        seconds.append(time.perf_counter() - start)
    return seconds


def jobs() -> None:
    """Each setting in its own process, so that the number of BLAS threads can be set."""
    seconds: dict[str, list[float]] = {}
    settings = {
        "one job, one BLAS thread": ("1", "1"),
        "one job, all BLAS threads": ("1", str(os.cpu_count())),
        "two jobs": ("2", str(os.cpu_count())),
    }
    for _ in range(2):
        for name, (n_jobs, threads) in settings.items():
            command = [sys.executable, __file__, "one-search", n_jobs]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
            output = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            ).stdout
            seconds.setdefault(name, []).append(float(output.split()[-1]))
    for name, runs in seconds.items():
        print(f"{name}: {np.median(runs):.1f} s")
    save("search_jobs", {"seconds": seconds})


def one_search(n_jobs: int) -> None:
    data = paper_split("abalone")
    y = np.where(data.labelled, (data.y - data.y.mean()) / data.y.std(), np.nan)
    part = {**paper_grid(), "n_neighbors": [4], "graph_width": [1.0]}
    search = ManifoldSearchCV(
        LapRLSRegressor(), part, cv=10, scoring="neg_mean_squared_error", n_jobs=n_jobs, refit=False
    )
    small = {name: values[:1] for name, values in part.items()}
    clone(search).set_params(param_grid=small).fit(data.X, y)  # start workers
    start = time.perf_counter()
    search.fit(data.X, y)
    print(time.perf_counter() - start)


def report() -> None:
    result = load("search_plane")
    rows = []
    for name, run in result["runs"].items():
        if name == "agreement":
            continue
        ours, fit = np.median(run["search_seconds"]), np.median(run["fit_seconds"])
        refits = run["candidates"] * run["t"]
        rows.append(
            [
                name,
                f"{ours:.2f}",
                f"{1e3 * fit:.0f}",
                f"{refits:,}",
                f"{refits * fit:.0f}",
                f"{refits * fit / ours:.0f}",
            ]
        )
    header = ["", "search, s", "one fit, ms", "fits of the rival", "rival, s", "times faster"]
    write_table("search_plane", header, rows, result)
    _report_points()
    _report_grid()
    _report_jobs()
    _plot_speed()
    found = load("search_profile")
    shares = [
        [
            what,
            f"{1e3 * found['parts'][name]:.0f}",
            f"{100 * found['parts'][name] / found['total']:.0f}",
        ]
        for name, what in PARTS.items()
    ]
    write_table("search_profile", ["part", "milliseconds", "per cent"], shares, found)


def _report_points() -> None:
    result = load("search_points")
    rows = []
    for t, run in result["runs"].items():
        ours, without = (np.median(run["seconds"][way]) for way in ("edges", "without"))
        rows.append([t, f"{without:.1f}", f"{ours:.1f}", f"{without / ours:.1f}"])
    header = ["folds", "without, s", "search, s", "times faster"]
    write_table("search_points", header, rows, result)


def _report_grid() -> None:
    result = load("search_grid")
    fit = float(np.median(result["fit_seconds"]))
    rows = [
        [
            "exact" if run["n_components"] is None else f"Nyström, c = {run['n_components']}",
            f"{run['seconds']:.0f}",
            f"{result['refits'] * fit / 3600:.1f}",
            f"{result['refits'] * fit / run['seconds']:,.0f}",
            f"{run['test_error']:.4f}",
        ]
        for run in result["runs"].values()
    ]
    header = ["basis", "search, s", "rival, hours", "times faster", "test error of the choice"]
    write_table("search_grid", header, rows, result)


def _report_jobs() -> None:
    result = load("search_jobs")
    rows = [[name, f"{np.median(seconds):.1f}"] for name, seconds in result["seconds"].items()]
    write_table("search_jobs", ["", "search, s"], rows, result)


def _speeds() -> dict[str, tuple[float, float]]:
    """Times faster than refitting, and what was asked for."""
    plane, grid = load("search_plane")["runs"], load("search_grid")
    asked = {"LapRLS, t = 10": 80, "LapRLS, t = 20": 180, "LapSVC, t = 10": 40}
    speeds = {}
    for name, goal in asked.items():
        run = plane[name]
        rival = run["candidates"] * run["t"] * np.median(run["fit_seconds"])
        speeds[f"a3a, 81 candidates, {name}"] = rival / np.median(run["search_seconds"]), goal
    for run in grid["runs"].values():
        c = run["n_components"]
        label = "exact" if c is None else f"Nyström c = {c}"
        rival = grid["refits"] * np.median(grid["fit_seconds"])
        speeds[f"abalone, 13,365 candidates, {label}"] = (
            rival / run["seconds"],
            120 if c is None else 1000,
        )
    return speeds


def _plot_speed() -> None:
    import matplotlib.pyplot as plt

    speeds = _speeds()
    fig, ax = plt.subplots(figsize=(7.5, 2.6), layout="constrained")
    names = list(speeds)[::-1]
    values = [speeds[name][0] for name in names]
    ax.barh(names, values, color="#3b6ea5", height=0.6)
    for y, name in enumerate(names):
        ax.text(values[y] * 1.06, y, f"{values[y]:,.0f}", va="center", fontsize=9)
        goal = speeds[name][1]
        ax.plot([goal, goal], [y - 0.38, y + 0.38], color="#d1495b", lw=2)
    ax.set_xscale("log")
    ax.set_xlim(10, 3000)
    ax.set_xlabel("times faster than refitting (red: goal)")
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    fig.savefig(IMAGES / "search_speed.png", dpi=150)
    plt.close(fig)


STEPS = {f.__name__: f for f in (plane, points, grid, jobs, profile, report)}

if __name__ == "__main__":
    if sys.argv[1:2] == ["one-search"]:
        sys.exit(one_search(int(sys.argv[2])))
    if len(sys.argv) != 2 or sys.argv[1] not in STEPS:
        sys.exit(__doc__)
    STEPS[sys.argv[1]]()
