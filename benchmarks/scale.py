"""Many rows: a million on two cores, and how the cost grows.

    python benchmarks/scale.py million    # 10^6 x 20 on a known manifold, 243 candidates, 5 folds
    python benchmarks/scale.py growth     # cost against N, c, t and the number of candidates
    python benchmarks/scale.py real       # 20,640 diamonds, next to methods of scikit-learn
    python benchmarks/scale.py landmarks  # labelled rows among the landmarks, or not
    python benchmarks/scale.py neighbors  # scikit-learn and the indices of faiss
    python benchmarks/scale.py dask       # rows on two workers with less memory than the data
    python benchmarks/scale.py report     # tables and plot for the docs

Set OPENBLAS_NUM_THREADS and OMP_NUM_THREADS to the number of cores.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import IMAGES, load, paper_split, save, write_table
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from onefit import LapRLSClassifier, LapRLSRegressor, ManifoldSearchCV, SemiSupervisedKFold
from onefit.basis import plane_basis
from onefit.datasets import make_noisy_manifold
from onefit.factors import factor_kernel, factor_nystrom
from onefit.folds import check_folds
from onefit.graphs import Graph, heat_affinity
from onefit.kernels import Kernel, median_squared_distance
from onefit.landmarks import LANDMARK_RULES
from onefit.neighbors import find_neighbors
from onefit.search.plane import square_plane
from onefit.targets import LabelWeights

ROWS, SMALL, LABELS, TEST = 1_000_000, 5_000, 1_000, 20_000
FEW_LABELS = 100
WIDTHS = [0.03, 0.1, 0.3]
AMBIENT = [10.0**i for i in range(-9, 0)]
MANIFOLD = [10.0 ** (0.5 * i) for i in range(-2, 7)]
COMPONENTS = 1000
LIMIT = 3e9
ANCHORS = {"graph": "anchor", "n_anchors": 2000, "n_neighbors": 8, "laplacian_power": 2}


#: Words of the table of diamonds, the best last.
QUALITIES = {
    "cut": "Fair Good Very_Good Premium Ideal",
    "color": "J I H G F E D",
    "clarity": "I1 SI2 SI1 VS2 VS1 VVS2 VVS1 IF",
}


def problem(n_rows: int, n_labels: int = LABELS, seed: int = 0) -> dict[str, Any]:
    """Rows, noisy targets of the first of them, and test rows."""
    X, truth = make_noisy_manifold(n_rows + TEST, 20, random_state=seed)
    y = np.full(n_rows, np.nan)
    noise = 0.5 * np.random.default_rng(seed).normal(size=n_labels)
    y[:n_labels] = truth[:n_labels] + noise
    return {"X": X[:n_rows], "y": y, "X_test": X[n_rows:], "y_test": truth[n_rows:]}


def penalties(n_rows: int, growth: float = 1.0) -> dict[str, list[float]]:
    """The manifold term of a given function grows as N on anchors, and hardly on neighbours."""
    scale = n_rows * (n_rows / 1000) ** (growth - 1.0)
    return {"ambient_penalty": AMBIENT, "manifold_penalty": [scale * m for m in MANIFOLD]}


def run(data: dict[str, Any], model: LapRLSRegressor, grid: dict, **params: Any) -> dict:
    """One search: seconds, choice, test error, peak memory so far."""
    cv = SemiSupervisedKFold(5, shuffle=True, random_state=0)
    params = {"scoring": "neg_mean_squared_error", "cv": cv, "verbose": 1, **params}
    start = time.perf_counter()
    search = ManifoldSearchCV(model, grid, **params).fit(data["X"], data["y"])
    seconds = time.perf_counter() - start
    residual = search.predict(data["X_test"]) - data["y_test"]
    result = {
        "seconds": seconds,
        "refit_seconds": search.refit_time_,
        "best": {name: float(value) for name, value in search.best_params_.items()},
        "cv_error": -float(search.best_score_),
        "test_error": float(np.mean(np.square(residual))),
        "neighbors": getattr(search.best_estimator_, "neighbors_method_", None),
        "peak_bytes": _peak_bytes(),
    }
    print({name: value for name, value in result.items() if name != "measured"}, flush=True)
    return result


def million() -> None:
    """A million rows on an anchor graph, and exact bases on the first 5,000 of them."""
    data = problem(ROWS)
    model = LapRLSRegressor(n_components=COMPONENTS, random_state=0, **ANCHORS)
    grid = {"kernel_width": WIDTHS, **penalties(ROWS)}
    runs = {f"{ROWS:,} rows, anchors": run(data, model, grid, memory_limit=LIMIT)}
    part = {**data, "X": data["X"][:SMALL], "y": data["y"][:SMALL]}
    del data
    exact = LapRLSRegressor(random_state=0, **ANCHORS)
    grid = {"kernel_width": WIDTHS, **penalties(SMALL)}
    runs[f"{SMALL:,} rows, exact, anchors"] = run(part, exact, grid)
    grid = {"kernel_width": WIDTHS, **penalties(SMALL, 2.0)}
    runs[f"{SMALL:,} rows, exact, 8 neighbours"] = run(part, LapRLSRegressor(), grid)
    labels = {**part, "X": part["X"][:LABELS], "y": part["y"][:LABELS]}
    supervised = {"kernel_width": WIDTHS, "ambient_penalty": AMBIENT, "manifold_penalty": [0.0]}
    runs["labels only"] = run(labels, LapRLSRegressor(), supervised)
    save("scale_million", {"components": COMPONENTS, "limit": LIMIT, "runs": runs})


def growth() -> None:
    """Seconds of a search with one kernel: on neighbours made beforehand or not, and on anchors.

    Labels are few, because what they cost does not depend on the rows and would hide the growth.
    """
    result: dict[str, Any] = {"rows": {}, "components": {}, "folds": {}, "candidates": {}}
    anchors = LapRLSRegressor(
        n_components=500, graph="anchor", n_anchors=1000, laplacian_power=2, kernel_width=0.1
    ).set_params(random_state=0)
    for n, repeats in ((10_000, 5), (100_000, 3), (1_000_000, 1)):
        data = problem(n, FEW_LABELS)
        runs = [_of_rows(data, anchors, n) for _ in range(repeats)]
        median = {what: float(np.median([one[what] for one in runs])) for what in runs[0]}
        result["rows"][n] = median
        print(n, median, flush=True)
        save("scale_growth", result)
    n = 100_000
    _vary(result, problem(n), anchors, penalties(n))
    save("scale_growth", result)


def _of_rows(data: dict[str, Any], anchors: LapRLSRegressor, n: int) -> dict[str, float]:
    start = time.perf_counter()
    W, _ = heat_affinity(find_neighbors(data["X"], 8), "median")
    graph_seconds = time.perf_counter() - start
    model = clone(anchors).set_params(graph=W, laplacian_power=1)
    return {
        "graph": graph_seconds,
        "search": _search_seconds(data, model, penalties(n, 2.0), 5),
        "anchors": _search_seconds(data, anchors, penalties(n), 5),
    }


def _vary(result: dict[str, Any], data: dict[str, Any], model: Any, base: dict) -> None:
    """Seconds against components, folds and candidates."""
    for c in (250, 500, 1000, 2000):
        other = clone(model).set_params(n_components=c)
        result["components"][c] = _search_seconds(data, other, base, 5)
    for t in (5, 10, 20, 50):
        result["folds"][t] = _search_seconds(data, model, base, t)
    for k in (1, 3, 9):
        few = {name: values[:k] for name, values in base.items()}
        result["candidates"][k * k] = _search_seconds(data, model, few, 5)
    many = {name: list(np.geomspace(values[0], values[-1], 27)) for name, values in base.items()}
    result["candidates"][27 * 27] = _search_seconds(data, model, many, 5)
    print({name: result[name] for name in ("components", "folds", "candidates")}, flush=True)


def _search_seconds(data: dict[str, Any], model: Any, grid: dict, t: int) -> float:
    start = time.perf_counter()
    ManifoldSearchCV(model, grid, cv=t, refit=False, memory_limit=5e8).fit(data["X"], data["y"])
    return time.perf_counter() - start


def diamonds() -> tuple[np.ndarray, np.ndarray]:
    """53,940 diamonds: nine standardised attributes, and whether the price is above the median."""
    found = importlib.util.find_spec("plotnine")
    if found is None or found.origin is None:
        sys.exit("diamonds come with plotnine; run pip install --no-deps plotnine")
    table = pd.read_csv(Path(found.origin).parent / "data" / "diamonds.csv")
    for name, best_last in QUALITIES.items():
        table[name] = table[name].str.replace(" ", "_").map(best_last.split().index)
    price = table.pop("price").to_numpy()
    return StandardScaler().fit_transform(table), (price > np.median(price)).astype(int)


def real(n_rows: int = 20_640, n_labels: int = 300) -> None:
    """Error and time next to other methods, as one call gives them, on three splits."""
    X, truth = diamonds()
    runs: dict[str, Any] = {}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(truth))
        train, test = order[:n_rows], order[n_rows:]
        y = np.where(np.arange(n_rows) < n_labels, truth[train], -1)
        for name, (model, known) in _rivals(X[train], seed).items():
            rows = slice(0, n_labels) if known else slice(None)
            start = time.perf_counter()
            model.fit(X[train][rows], y[rows])
            seconds = time.perf_counter() - start
            predicted = model.predict(X[test])
            if predicted.dtype.kind == "f":
                predicted = (predicted > 0.5).astype(int)
            error = float(np.mean(predicted != truth[test]))
            print(seed, name, f"{error:.4f} {seconds:.1f} s", flush=True)
            runs.setdefault(name, []).append({"seconds": seconds, "test_error": error})
    save("scale_real", {"rows": n_rows, "labels": n_labels, "runs": runs})


def _rivals(X: np.ndarray, seed: int) -> dict[str, tuple[Any, bool]]:
    """Methods, and whether they see labelled rows only."""
    gamma = 0.5 / median_squared_distance(X)
    ours = LapRLSClassifier(n_components=1000, random_state=seed)
    ridge = make_pipeline(
        Nystroem(gamma=gamma, n_components=300, random_state=seed),
        RidgeCV(np.logspace(-6, 2, 9)),
    )
    svc = CalibratedClassifierCV(SVC(gamma=gamma), ensemble=False)
    return {
        "ManifoldSearchCV, c = 1,000": (ManifoldSearchCV(ours, cv=5, random_state=seed), False),
        "LabelSpreading (knn)": (LabelSpreading(kernel="knn", n_neighbors=8), False),
        "SelfTraining (SVC)": (SelfTrainingClassifier(svc), False),
        "Nystroem + RidgeCV, labels only": (ridge, True),
    }


def landmarks(n: int = 1500, c: int = 150, l: int = 75) -> None:
    """Relative difference of held-out decisions to the exact basis, medians over 3 splits."""
    ratios, result = (1e2, 1e4, 1e6, 1e8), {}
    for data_set in ("cpusmall", "abalone", "a3a", "space_ga"):
        data = paper_split(data_set)
        X, y = data.X[:n], (data.y[:n] - data.y[:n].mean()) / data.y[:n].std()
        laplacian = Graph(heat_affinity(find_neighbors(X, 8), "median")[0]).laplacian
        for factor in (1 / 64, 1 / 8, 1.0):
            kernel = Kernel(width=factor * median_squared_distance(X))
            exact = factor_kernel(kernel(X))
            found: dict[str, list] = {}
            for seed in range(3):
                labelled = np.sort(np.random.default_rng(seed).permutation(n)[:l])
                truth = _held_out(exact, laplacian, labelled, y, ratios)
                for rule in LANDMARK_RULES:
                    rng = np.random.RandomState(seed)
                    rows = LANDMARK_RULES[rule](kernel, X, c, rng)
                    # As many landmarks, the labelled rows among them.
                    others = rng.permutation(np.setdiff1d(rows, labelled))[: c - l]
                    both = np.sort(np.concatenate([labelled, others]))
                    for name, chosen in ((rule, rows), (f"{rule} and labelled", both)):
                        basis = factor_nystrom(kernel.columns(X, chosen), chosen)
                        other = _held_out(basis, laplacian, labelled, y, ratios)
                        change = np.linalg.norm(other - truth, axis=1)
                        found.setdefault(name, []).append(change / np.linalg.norm(truth, axis=1))
            result[f"{data_set}, {factor:g}"] = {
                what: np.median(values, axis=0).tolist() for what, values in found.items()
            }
        print(data_set, flush=True)
    save("scale_landmarks", {"rows": n, "components": c, "labels": l, "ratios": ratios} | result)


def _held_out(factor: Any, laplacian: Any, labelled: np.ndarray, y: np.ndarray, ratios) -> Any:
    basis = plane_basis(factor, laplacian, labelled)
    known = np.isin(np.arange(y.size), labelled)
    folds = check_folds(SemiSupervisedKFold(5).split(y, np.where(known, y, np.nan)), known)
    weights = LabelWeights(np.ones(labelled.size), None, None)
    parts = [
        square_plane(
            basis.deform(ratio / y.size**2).labelled_gram,
            np.array([1e-3]),
            y[labelled][:, None],
            weights,
            folds,
            fit_intercept=False,
        )
        for ratio in ratios
    ]
    return np.array([np.concatenate(part, axis=1).ravel() for part in parts])


def neighbors() -> None:
    """Seconds of every method, and the share of the true neighbours that it finds."""
    result = {}
    for n, d in ((20_000, 5), (20_000, 20), (200_000, 5), (200_000, 20)):
        X = make_noisy_manifold(n, d, random_state=0)[0]
        for method in ("sklearn", "ivf", "hnsw"):
            start = time.perf_counter()
            found = find_neighbors(X, 8, method=method).indices
            seconds = time.perf_counter() - start
            if method == "sklearn":
                true = found
            hits = sum(np.isin(a, b).sum() for a, b in zip(found, true, strict=True))
            one = {"seconds": seconds, "recall": hits / true.size}
            result[f"{n:,} x {d}, {method}"] = one
            print(n, d, method, one, flush=True)
    save("scale_neighbors", {"runs": result})


def dask(n: int = 100_000, d: int = 500, limit: int = 350 * 10**6) -> None:
    """Rows near a closed curve, made by the workers; then the same numbers from one array."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    rng = da.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, size=(n, 1), chunks=(1000, 1))
    noise = 0.02 * rng.normal(size=(n, d), chunks=(1000, d))
    X = (da.cos(angle + np.linspace(0, np.pi, d)) + noise) / np.sqrt(d)
    model = LapRLSRegressor(n_components=200, graph="anchor", n_anchors=200, random_state=0)
    grid = {"kernel_width": [0.03, 0.3], **penalties(n)}

    def search(rows: Any, y: Any) -> tuple[float, ManifoldSearchCV]:
        start = time.perf_counter()
        found = ManifoldSearchCV(model, grid, cv=5, memory_limit=limit).fit(rows, y)
        return time.perf_counter() - start, found

    result: dict[str, Any] = {"rows": n, "columns": d, "data_bytes": X.nbytes, "limit": limit}
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        start = client.run(_peak_bytes)
        y = da.sin(2 * angle[:, 0]).compute()
        y[np.arange(n) % (n // 500) > 0] = np.nan
        seconds, found = search(X, y)
        result["runs"] = {"dask": {"seconds": seconds, "client_bytes": _peak_bytes()}}
        result["worker_start_bytes"] = list(start.values())
        result["worker_bytes"] = list(client.run(_peak_bytes).values())
        result["workers_lost"] = len(set(start) - set(client.run(_peak_bytes)))
    seconds, expected = search(X.compute(), y)
    result["runs"]["array"] = {"seconds": seconds, "client_bytes": _peak_bytes()}
    result["difference"] = max(
        float(np.abs(found.cv_results_[column] - expected.cv_results_[column]).max())
        for column in ("mean_test_score", "mean_test_loss")
    )
    print(result)
    save("scale_dask", result)


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def report() -> None:
    for name, writer in WRITERS.items():
        try:
            writer(load(name))
        except FileNotFoundError:
            print(f"no {name} yet")


def _write_million(result: dict) -> None:
    rows = [
        [
            name,
            f"{one['seconds'] / 60:.1f}",
            f"{one['peak_bytes'] / 2**30:.1f}",
            f"{one['test_error']:.4f}",
        ]
        for name, one in result["runs"].items()
    ]
    write_table("scale_million", ["", "minutes", "peak GiB", "test error"], rows, result)
    errors = {name: one["test_error"] for name, one in result["runs"].items()}
    _plot_errors("scale_million", errors, "mean squared error on new rows")


def _plot_errors(name: str, errors: dict[str, float], label: str) -> None:
    """One bar for each method, the first one ours."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 0.5 + 0.45 * len(errors)), layout="constrained")
    bars = ax.barh(list(errors), list(errors.values()), color=["C0"] + ["C7"] * (len(errors) - 1))
    ax.bar_label(bars, fmt="%.3g", padding=3)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / f"{name}.png", dpi=150)
    plt.close(figure)


def _write_growth(result: dict) -> None:
    import matplotlib.pyplot as plt

    sizes = np.array([float(n) for n in result["rows"]])
    graph, search, anchors = (
        np.array([one[k] for one in result["rows"].values()])
        for k in ("graph", "search", "anchors")
    )
    curves = {
        "neighbours and search": graph + search,
        "search, neighbours given": search,
        "anchors and search": anchors,
    }
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), sharey=True, layout="constrained")
    for (label, seconds), style in zip(curves.items(), ("o-", "s--", "^-"), strict=True):
        axes[0].loglog(sizes, seconds, style, label=label)
    axes[0].set(xlabel="rows", ylabel="seconds")
    axes[0].legend(fontsize=8)
    for ax, what in zip(axes[1:], ("components", "folds", "candidates"), strict=True):
        found = {int(k): s for k, s in result[what].items()}
        ax.loglog(list(found), list(found.values()), "^-", color="C2")
        ax.set_xticks(list(found), [f"{k:,}" for k in found])
        ax.set_xlabel(what.replace("components", "landmarks"))
        ax.minorticks_off()
    axes[0].set_yticks([1, 10, 100], ["1", "10", "100"])
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / "scale_growth.png", dpi=150)
    plt.close(figure)
    rows = [
        [
            what,
            *(f"{s:.1f}" for s in seconds),
            f"{_exponent(sizes, seconds):.2f}",
            f"{_exponent(sizes[-2:], seconds[-2:]):.2f}",
        ]
        for what, seconds in curves.items()
    ]
    header = ["seconds", *(f"{int(n):,} rows" for n in sizes), "exponent", "last two"]
    write_table("scale_growth", header, rows, result)
    rows = [
        [what, ", ".join(f"{int(k):,}: {s:.1f}" for k, s in result[what].items())]
        for what in ("components", "folds", "candidates")
    ]
    write_table("scale_costs", ["against", "seconds at 100,000 rows, anchors"], rows, result)


def _exponent(sizes: np.ndarray, seconds: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _write_real(result: dict) -> None:
    rows = []
    for name, splits in result["runs"].items():
        errors = [100 * one["test_error"] for one in splits]
        seconds = np.median([one["seconds"] for one in splits])
        shown = ", ".join(f"{error:.2f}" for error in errors)
        rows.append([name, f"{seconds:.1f}", f"{np.mean(errors):.2f}", shown])
    header = ["method", "seconds", "test error, per cent", "of the three splits"]
    write_table("scale_real", header, rows, result)
    means = {
        name: float(np.mean([100 * one["test_error"] for one in splits]))
        for name, splits in result["runs"].items()
    }
    _plot_errors("scale_real", means, "test error, per cent")


def _write_landmarks(result: dict) -> None:
    cases = {name: found for name, found in result.items() if ", " in name}
    rows = []
    for name, found in cases.items():
        cells = [
            f"{found['uniform'][i]:.3f} → {found['uniform and labelled'][i]:.3f}"
            for i in range(len(result["ratios"]))
        ]
        rows.append([name, *cells])
    header = ["data, width / median", *(f"ratio {ratio:.0e}" for ratio in result["ratios"])]
    write_table("scale_landmarks", header, rows, result)


def _write_dask(result: dict) -> None:
    gigabytes = [f"{one / 1e9:.2f}" for one in result["worker_bytes"]]
    rows = [
        ["data, GB", f"{result['data_bytes'] / 1e9:.2f}"],
        ["limit of a worker, GB", f"{result['limit'] / 1e9:.2f}"],
        ["peaks of the workers, GB", ", ".join(gigabytes)],
        ["peak of the client, GB", f"{result['runs']['dask']['client_bytes'] / 1e9:.2f}"],
        ["seconds", f"{result['runs']['dask']['seconds']:.0f}"],
        ["seconds of one process, data in memory", f"{result['runs']['array']['seconds']:.0f}"],
        ["largest difference of a score or loss", f"{result['difference']:.0e}"],
    ]
    write_table("scale_dask", ["", ""], rows, result)


def _write_neighbors(result: dict) -> None:
    rows = [
        [name, f"{one['seconds']:.1f}", f"{100 * one['recall']:.1f}"]
        for name, one in result["runs"].items()
    ]
    header = ["rows x columns, method", "seconds", "true neighbours found, per cent"]
    write_table("scale_neighbors", header, rows, result)


WRITERS = {
    "scale_million": _write_million,
    "scale_growth": _write_growth,
    "scale_real": _write_real,
    "scale_landmarks": _write_landmarks,
    "scale_neighbors": _write_neighbors,
    "scale_dask": _write_dask,
}
STEPS = {f.__name__: f for f in (million, growth, real, landmarks, neighbors, dask, report)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in STEPS:
        sys.exit(__doc__)
    STEPS[sys.argv[1]]()
