"""What one fit and its cross-validation cost, and what the Nystrom approximations give.

    python benchmarks/core.py speed      # fit and criteria against a bare solve, on a3a
    python benchmarks/core.py woodbury   # time of the paper's Nystrom Hessian against N and c
    python benchmarks/core.py nystrom    # error of the Nystrom basis against c, two landmark rules
    python benchmarks/core.py newton     # Newton steps of every loss over the penalty plane
    python benchmarks/core.py report     # the figures as a table, and the plots for the docs

Every measuring step writes raw results to benchmarks/results; the last one reads them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from common import IMAGES, interleaved, load, paper_split, save, write_table
from scipy.sparse import csgraph

from onefit import (
    LapRLSClassifier,
    LapRLSRegressor,
    SemiSupervisedKFold,
    cross_val_decisions,
)
from onefit._threads import blas_threads
from onefit.basis import KernelBasis
from onefit.graphs import Graph, heat_affinity
from onefit.kernels import Kernel
from onefit.losses import HuberizedHinge, Logistic, Loss, SquaredHinge
from onefit.neighbors import find_neighbors
from onefit.solvers.hessian import nystrom_hessian
from onefit.solvers.labels import LabelFit, evaluate, newton_direction, solve_labels

REPEATS = 15
T = 20
MODEL = {
    "kernel_width": 128.0,
    "ambient_penalty": 1e-2,
    "manifold_penalty": 1.0,
    "n_neighbors": 4,
    "graph_width": 64.0,
}
LOSSES: dict[str, Loss] = {
    "huberised hinge, h = 0.01": HuberizedHinge(0.01),
    "squared hinge": SquaredHinge(),
    "logistic": Logistic(),
}
#: name -> (criterion, holdout, options, most fits it may cost)
CRITERIA = {
    "exact, labels": ("exact", "labels", {}, 1.5),
    "newton, labels": ("newton", "labels", {}, 1.5),
    "bif, points": ("bif", "points", {}, 2.0),
    "bif, points, Nystrom H": ("bif", "points", {"hessian": "nystrom"}, 1.5),
    "newton, points": ("newton", "points", {}, T / 2),
    "exact, points": ("exact", "points", {}, T / 2),
}


def partly_labelled_a3a() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, class labels with -1 where unlabelled, and targets +-1 with 0 where unlabelled."""
    data = paper_split("a3a")
    classes = np.where(data.labelled, (data.y > 0).astype(int), -1)
    return data.X, classes, np.where(data.labelled, data.y, 0.0)


def speed() -> None:
    X, y, targets = partly_labelled_a3a()
    n, l = len(y), int((y != -1).sum())
    model = LapRLSClassifier(**MODEL).fit(X, y)
    # The linear system of the paper: (J K + gA l I + gI l / N^2 L K) alpha = y.
    K = Kernel(width=MODEL["kernel_width"])(X)
    L = csgraph.laplacian(model.graph_)
    A = (y != -1)[:, None] * K + MODEL["manifold_penalty"] * l / n**2 * (L @ K)
    A += MODEL["ambient_penalty"] * l * np.eye(n)
    cv = SemiSupervisedKFold(T, shuffle=True, random_state=0)

    def criterion(name: str) -> Callable[[], object]:
        rule, holdout, options, _ = CRITERIA[name]
        return lambda: cross_val_decisions(
            model, X, y, cv=cv, criterion=rule, holdout=holdout, criterion_params=options
        )

    jobs: dict[str, Callable[[], object]] = {
        "bare solve": lambda: np.linalg.solve(A, targets),
        "fit": lambda: LapRLSClassifier(**MODEL).fit(X, y),
        **{name: criterion(name) for name in CRITERIA},
    }
    seconds = interleaved(jobs, REPEATS)
    # Naive t-CV: one fit on the kept rows of every fold.
    splits = list(cv.split(X, y))
    naive = interleaved(
        {
            "naive": lambda: [
                LapRLSClassifier(**MODEL).fit(X[train], y[train]) for train, _ in splits
            ]
        },
        3,
    )["naive"]
    save("core_speed", {"rows": n, "labels": l, "t": T, "seconds": {**seconds, "naive": naive}})


def woodbury() -> None:
    rng = np.random.default_rng(0)
    points = []
    for n, c in [(n, 256) for n in (1000, 2000, 4000, 8000)] + [
        (8000, c) for c in (64, 128, 512, 1024, 2048)
    ]:
        basis = _random_basis(n, rng)
        landmarks = np.sort(rng.permutation(n)[:c])
        curvature = np.full(100, 2.0 / 100)
        factor = partial(nystrom_hessian, basis, landmarks, curvature, 1e-2, 1.0 / n**2)
        with blas_threads(1):
            seconds = interleaved({"factor": factor}, 9)["factor"]
        points.append({"n": n, "c": c, "seconds": seconds})
        print(points[-1]["n"], c, np.median(seconds))
    save("core_woodbury", {"labels": 100, "points": points})


def _random_basis(n: int, rng: np.random.Generator) -> KernelBasis:
    X = rng.standard_normal((n, 8))
    W, _ = heat_affinity(find_neighbors(X, 4), "median")
    return KernelBasis(Kernel(width=8.0)(X), Graph(W).laplacian, np.arange(100))


def nystrom() -> None:
    data = paper_split("space_ga")
    X, y = data.X, data.y
    targets = np.where(data.labelled, (y - y.mean()) / y.std(), np.nan)
    common = {"kernel_width": 1.0, "ambient_penalty": 1e-4, "n_neighbors": 4, "graph_width": 1.0}
    exact = LapRLSRegressor(**common).fit(X, targets).transduction_
    size = np.linalg.norm(exact)
    points = []
    for rule in ("uniform", "rpcholesky"):
        for c in (16, 32, 64, 128, 256, 512, 1024):
            errors = []
            for seed in range(5):
                model = LapRLSRegressor(
                    **common, n_components=c, landmarks=rule, random_state=seed
                ).fit(X, targets)
                errors.append(float(np.linalg.norm(model.transduction_ - exact) / size))
            points.append({"rule": rule, "c": c, "errors": errors})
            print(rule, c, np.median(errors))
    save("core_nystrom", {"rows": len(y), "points": points})


def newton() -> None:
    """Steps over kernel widths and penalties, with a tenth and with all of 600 rows labelled."""
    data = paper_split("a3a")
    X, y = data.X[:600], np.where(data.y[:600] > 0, 1.0, -1.0)
    W, _ = heat_affinity(find_neighbors(X, 8), "median")
    steps: dict[str, list[int]] = {}
    for n_labelled in (60, 600):
        for name in LOSSES:
            for start in ("square loss", "zero, step halving"):
                steps[f"{name}; {n_labelled} labels; from {start}"] = []
        for width in 2.0 ** np.arange(-10, 11, 4):
            basis = KernelBasis(Kernel(width=width)(X), Graph(W).laplacian, np.arange(n_labelled))
            for ratio in 10.0 ** np.arange(-8, 9, 4):
                gram = basis.deform(ratio / 600**2).labelled_gram
                for ambient in 10.0 ** np.arange(-6, 3, 2):
                    for name, loss in LOSSES.items():
                        G, v = gram / ambient, np.full(n_labelled, 1.0 / n_labelled)
                        ours = solve_labels(G, y[:n_labelled, None], v, loss)
                        prefix = f"{name}; {n_labelled} labels; from "
                        steps[prefix + "square loss"].append(ours.n_steps)
                        steps[prefix + "zero, step halving"].append(
                            _halving_steps(G, y[:n_labelled], v, loss)
                        )
    for name, counts in steps.items():
        print(name, np.median(counts), np.quantile(counts, 0.9), max(counts))
    save("core_newton", {"rows": 600, "steps": steps})


def _halving_steps(G: np.ndarray, y: np.ndarray, v: np.ndarray, loss: Loss) -> int:
    """Steps of Newton's method from zero, halved until the objective falls (200 at the most)."""

    arguments = G, y[:, None], v[:, None], loss
    no_intercept = np.zeros(1)

    def objective(state: LabelFit) -> float:
        f, beta = state.values[:, 0], state.beta[:, 0]
        return float(v @ loss.value(y, f) + beta @ (G @ beta))

    state = evaluate(*arguments, np.zeros((len(y), 1)), no_intercept)
    for step in range(1, 201):
        delta, _ = newton_direction(G, state, False)
        length, before = 1.0, objective(state)
        moved = evaluate(*arguments, state.beta + delta, no_intercept)
        while objective(moved) > before and length > 1e-12:
            length /= 2.0
            moved = evaluate(*arguments, state.beta + length * delta, no_intercept)
        state = moved
        if np.abs(G @ delta).max() <= 1e-8 * max(1.0, np.abs(state.values).max()):
            return step
    return 200


def report() -> None:
    IMAGES.mkdir(exist_ok=True)
    _report_speed()
    _report_newton()
    _plot_woodbury()
    _plot_nystrom()


def _report_speed() -> None:
    result = load("core_speed")
    median = {name: float(np.median(s)) for name, s in result["seconds"].items()}
    rows = [
        [
            name,
            f"{1e3 * seconds:.0f}",
            f"{seconds / median['bare solve']:.2f}",
            f"{seconds / median['fit']:.2f}",
        ]
        for name, seconds in median.items()
    ]
    write_table("core_speed", ["", "milliseconds", "bare solves", "fits"], rows, result)


def _report_newton() -> None:
    result = load("core_newton")
    rows = [
        [*name.split("; "), f"{np.median(s):.0f}", f"{np.quantile(s, 0.9):.0f}", f"{max(s)}"]
        for name, s in result["steps"].items()
    ]
    header = ["loss", "labels", "start", "median", "90 %", "most"]
    write_table("core_newton", header, rows, result)


def _plot_woodbury() -> None:
    points = load("core_woodbury")["points"]
    fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    panels = (
        ("n", "c", 256, "rows N (c = 256)", 1),
        ("c", "n", 8000, "columns c (N = 8,000)", 2),
    )
    for axis, (x, fixed, value, label, power) in zip(axes, panels, strict=True):
        chosen = sorted((p for p in points if p[fixed] == value), key=lambda p: p[x])
        sizes = np.array([p[x] for p in chosen], dtype=float)
        seconds = np.array([np.median(p["seconds"]) for p in chosen])
        slope = np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0]
        axis.loglog(sizes, 1e3 * seconds, "o-", label=f"measured, slope {slope:.2f} at the end")
        line = 1e3 * seconds[-1] * (sizes / sizes[-1]) ** power
        axis.loglog(sizes, line, "k--", lw=1, label=f"leading term, slope {power}")
        axis.set_xlabel(label)
        axis.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
        axis.minorticks_off()
        axis.set_ylabel("milliseconds")
        axis.legend()
        print(f"Woodbury: time grows like {x}^{slope:.2f} at {fixed} = {value}")
    fig.suptitle("Factoring the Nyström Hessian (9)")
    fig.savefig(IMAGES / "woodbury_time.png", dpi=150)


def _plot_nystrom() -> None:
    result = load("core_nystrom")
    fig, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
    for rule, label in (("uniform", "uniform"), ("rpcholesky", "randomly pivoted Cholesky")):
        chosen = [p for p in result["points"] if p["rule"] == rule]
        c = [p["c"] for p in chosen]
        errors = np.array([p["errors"] for p in chosen])
        axis.loglog(c, np.median(errors, axis=1), "o-", label=label)
        axis.fill_between(c, errors.min(axis=1), errors.max(axis=1), alpha=0.2)
    axis.set_xlabel("landmarks c")
    axis.set_ylabel("relative error of f")
    axis.set_title(f"Nyström basis, space_ga ({result['rows']:,} rows)")
    axis.legend()
    fig.savefig(IMAGES / "nystrom_error.png", dpi=150)


STEPS = {f.__name__: f for f in (speed, woodbury, nystrom, newton, report)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in STEPS:
        sys.exit(__doc__)
    STEPS[sys.argv[1]]()
