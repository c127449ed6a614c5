"""Tables for the documentation from the results: python -m experiments.analyse."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd
from benchmarks.common import DOCS
from scipy.stats import t as student_t

from experiments import peers, protocol, store, unit
from experiments.timing import CRITERIA as TIMED_CRITERIA

#: Sets with fewer repeats than this are not counted.
ENOUGH = 5
#: Former versions of our default were compared with exact t-CV on the splits before this one, on
#: some sets on all of them: only the others had no say in what it is.
LOOKED_AT, ALL_LOOKED_AT = 16, ["bodyfat", "cpusmall", "splice"]
#: Candidates of one ambient penalty.
LEVELS = r"^1e[+-]\d+$"
TITLES = {
    "exact": "exact t-CV",
    "newton": "Newton step",
    "labels": "exact, labels",
    "bif": "t-BIF, exact H",
    "bif_nystrom": "t-BIF",
    "bif_product": "t-BIF, (10)",
    "bif_leverage": "t-BIF, leverage",
    "default": "our default",
}
RULES = {
    "single": "single t-CV",
    "first": "repeated",
    "best": "ties by the loss",
    "standard": "one standard error",
    "default": "our default",
}
METHODS = {
    "majority": "majority / mean",
    "svc": "SVC",
    "kernel_ridge": "KernelRidge",
    "self_training": "SelfTraining",
    "label_spreading": "LabelSpreading",
    "label_propagation": "LabelPropagation",
    "graph_laplace": "graphlearning, Laplace",
    "graph_poisson": "graphlearning, Poisson",
    "onefit_labels": "onefit, labels only",
    "onefit_laprls": "onefit, LapRLS",
    "onefit_lapsvc": "onefit, LapSVC",
}


def criteria(kind: str = "criteria") -> pd.DataFrame:
    """Choices of all criteria, one row for each set, repeat, t, criterion and set of candidates."""
    frame = _read(kind)
    if frame.empty:
        return frame
    numbers = [
        "test",
        "test_by_loss",
        "best_test",
        "cv",
        "exact_cv",
        "rank_correlation",
        "distance",
    ]
    return frame.astype(dict.fromkeys(numbers, float) | {"t": int, "repeat": int})


def methods() -> pd.DataFrame:
    """Test errors and seconds of methods, one row for each set, repeat and method.

    Ours with the model of the protocol has its errors from the searches with default settings, and
    seconds on the splits on which it was run beside the others.
    """
    rivals = _read("methods")
    if rivals.empty:
        return rivals
    ours = _read("selection").query("rule == 'default'").drop(columns=["rule", "seconds"])
    ours["method"] = ours.set.map(peers.ours)
    frame = pd.concat([rivals, ours]).drop_duplicates(["set", "repeat", "method"])
    return frame.astype({"test": float, "seconds": float, "repeat": int})


def selections() -> pd.DataFrame:
    """Test errors of our default search and of plain rules, for each set and repeat."""
    frame = _read("selection").astype({"test": float, "seconds": float, "repeat": int})
    return frame.pivot(index=["set", "repeat"], columns="rule", values="test")[list(RULES)]


def _read(kind: str) -> pd.DataFrame:
    rows = [
        row for path in sorted((store.RESULTS / kind).glob("*.csv")) for row in store.read(path)
    ]
    return pd.DataFrame(rows)


def paper() -> pd.DataFrame:
    return pd.read_csv(store.RESULTS.parent / "paper.csv").set_index(["set", "t", "method"])


def t_statistic(differences: np.ndarray) -> float:
    """Paired t-statistic; 0 where nothing differs."""
    n = differences.size
    spread = differences.std(ddof=1) if n > 1 else 0.0
    return float(differences.mean() / spread * np.sqrt(n)) if spread > 0 else 0.0


def significance(differences: np.ndarray) -> int:
    """1 or -1 where the paper's paired t-test sees a difference (95 %; 1.699 for 30 repeats)."""
    statistic = t_statistic(differences)
    limit = student_t.ppf(0.95, differences.size - 1)
    return int(statistic > limit) - int(statistic < -limit)


def with_default(choices: pd.DataFrame, results: pd.DataFrame, t: int) -> pd.DataFrame:
    """Test errors (set, repeat) x criterion for one t, with those of our default search."""
    part = choices[(choices.t == t) & (choices.candidates == "all")]
    table = part.pivot(index=["set", "repeat"], columns="criterion", values="test")
    return table.assign(default=results["default"])


def table_1(choices: pd.DataFrame, results: pd.DataFrame, t: int) -> None:
    """Mean and deviation of test errors next to the paper's; worse than exact t-CV is marked."""
    errors = with_default(choices, results, t)
    published = paper()
    rows = []
    for name in order(errors):
        mine = errors.loc[name]
        scale = 1.0 if protocol.is_regression(name) else 100.0
        cells = [name]
        for method in ("cv", "bif"):
            row = published.loc[(name, t, method)]
            cells.append(f"{row.test:.3g} ± {row['std']:.2g}")
        cells += [_cell(mine[c] * scale, mine["exact"] * scale) for c in TITLES]
        n_default = int(mine["default"].notna().sum())
        n_repeats = (
            str(len(mine)) if n_default == len(mine) else f"{len(mine)} (default {n_default})"
        )
        rows.append([*cells, n_repeats])
    header = ["set", "paper: t-CV", "paper: t-BIF", *TITLES.values(), "repeats"]
    _write(f"reproduction_{t}", header, rows, "criteria")


def _cell(errors: pd.Series, exact: pd.Series) -> str:
    both = errors.notna() & exact.notna()
    if not both.any():
        return "–"
    if both.sum() == 1:
        return f"{errors[both].mean():.3g}"
    differences = (errors - exact)[both].to_numpy()
    text = f"{errors[both].mean():.3g} ± {errors[both].std(ddof=1):.2g}"
    if not differences.any():
        return text
    mark = {1: " ▲", -1: " ▽", 0: ""}[significance(differences)]
    return f"{text} ({t_statistic(differences):+.1f}){mark}"


def table_counts(choices: pd.DataFrame, results: pd.DataFrame) -> None:
    """On how many sets a criterion is significantly worse or better than exact t-CV."""
    tables = [with_default(choices, results, t) for t in protocol.FOLDS]
    rows = [
        [title, *(_counts(errors, criterion) for errors in tables)]
        for criterion, title in TITLES.items()
        if criterion != "exact"
    ]
    fresh = [
        errors[errors.index.get_level_values("repeat") >= LOOKED_AT].drop(
            ALL_LOOKED_AT, level="set", errors="ignore"
        )
        for errors in tables
    ]
    title = f"our default, splits from number {LOOKED_AT} on"
    rows.append([title, *(_counts(errors, "default") for errors in fresh)])
    header = ["criterion", *(f"t = {t}" for t in protocol.FOLDS)]
    _write("reproduction_counts", header, rows, "criteria")


def _counts(errors: pd.DataFrame, criterion: str, base: str = "exact") -> str:
    differences = [
        (part[criterion] - part[base]).dropna().to_numpy() for _, part in errors.groupby("set")
    ]
    # Of fewer repeats the test says nothing.
    signs = [significance(d) for d in differences if d.size >= ENOUGH]
    return f"{signs.count(1)} worse, {signs.count(-1)} better of {len(signs)}"


def table_ranks(choices: pd.DataFrame) -> None:
    """Rank correlation with exact t-CV over the candidates, and regret of the choice; t = 10."""
    part = choices[(choices.t == 10) & (choices.candidates == "all")]
    part = part.assign(regret=part.test - part.best_test)
    rows = []
    for name in order(part.set_index("set")):
        mine = part[part.set == name].groupby("criterion")
        scale = 1.0 if protocol.is_regression(name) else 100.0
        ranks, regret = mine.rank_correlation.mean(), mine.regret.mean() * scale
        rows.append([name, *(f"{ranks[c]:.2f} / {regret[c]:.3g}" for c in unit.CRITERIA)])
    header = ["set", *(TITLES[c] for c in unit.CRITERIA)]
    _write("reproduction_ranks", header, rows, "criteria")


def table_reading(choices: pd.DataFrame, candidates: str, name: str, kind: str) -> None:
    """Test errors of the choices among other candidates, t = 10; and counts for every t."""
    part = choices[choices.candidates == candidates]
    errors = {
        t: part[part.t == t].pivot(index=["set", "repeat"], columns="criterion", values="test")
        for t in protocol.FOLDS
    }
    rows = _rows(errors[10], list(unit.CRITERIA), "exact")
    for t in protocol.FOLDS:
        counts = ["" if c == "exact" else _counts(errors[t], c) for c in unit.CRITERIA]
        rows.append([f"t = {t}", *counts, ""])
    header = ["set", *(TITLES[c] for c in unit.CRITERIA), "repeats"]
    _write(name, header, rows, kind)


def _rows(errors: pd.DataFrame, columns: Sequence[str], base: str) -> list[list[str]]:
    """For each set the errors of every column against those of one, and how many repeats."""
    rows = []
    for name in order(errors):
        mine = errors.loc[name] * (1.0 if protocol.is_regression(name) else 100.0)
        rows.append([name, *(_cell(mine[c], mine[base]) for c in columns), str(len(mine))])
    return rows


def from_levels(choices: pd.DataFrame, least: float) -> pd.DataFrame:
    """Test errors of the choices with gamma_A >= ``least``, from those of each gamma_A; t = 10."""
    levels = choices[(choices.t == 10) & choices.candidates.str.match(LEVELS)]
    levels = levels[levels.candidates.astype(float) > 0.9 * least].astype({"ties": int})
    keys = ["set", "repeat", "criterion"]
    tied = levels[levels.cv <= levels.groupby(keys).cv.transform("min") + 1e-9]
    sums = tied.assign(test=tied.test * tied.ties).groupby(keys)[["test", "ties"]].sum()
    return (sums.test / sums.ties).unstack()


def table_large(choices: pd.DataFrame) -> None:
    """Choices among large ambient penalties only, and what so small a grid costs exact t-CV."""
    errors = from_levels(choices, 0.1)
    everything = choices[(choices.t == 10) & (choices.candidates == "all")]
    exact = everything[everything.criterion == "exact"].set_index(["set", "repeat"]).test
    errors = errors.assign(all=exact)
    columns = ["all", *unit.CRITERIA]
    counts = ["" if c == "exact" else _counts(errors, c) for c in columns]
    rows = [*_rows(errors, columns, "exact"), ["counts", *counts, ""]]
    header = ["set", "exact t-CV, all candidates", *(TITLES[c] for c in unit.CRITERIA), "repeats"]
    _write("reproduction_large", header, rows, "criteria")


def table_selection(results: pd.DataFrame) -> None:
    """Our default against plain single ten-fold cross-validation on the same candidates."""
    rows = _rows(results, list(RULES), "single")
    ratio = results.groupby("set").mean()
    ratio = np.exp(np.log(ratio.div(ratio["single"], axis=0)).mean())
    cells = [f"{ratio[rule]:.3f}" for rule in RULES]
    rows.append(["geometric mean", *cells, ""])
    header = ["set", *RULES.values(), "repeats"]
    _write("selection", header, rows, "selection")


def table_grids(kind: str, base: str) -> None:
    """Test errors with other default grids or rules relative to one, on splits of their own."""
    frame = _read(kind)
    if frame.empty:
        return
    frame = frame.astype({"test": float, "repeat": int})
    errors = frame.pivot(index=["set", "repeat"], columns="grid", values="test")
    means = errors.groupby("set").mean()
    ratios = means[list(dict.fromkeys(frame.grid))].div(means[base], axis=0)
    rows = []
    for name in order(ratios):
        cells = [f"{value:.3f}" for value in ratios.loc[name]]
        rows.append([name, *cells, str(len(errors.loc[name]))])
    overall = np.exp(np.log(ratios).mean())
    rows.append(["geometric mean", *(f"{value:.3f}" for value in overall), ""])
    _write(kind, ["set", *ratios.columns, "repeats"], rows, kind)


def table_peers(results: pd.DataFrame) -> None:
    """Errors of what one would take instead, next to supervised kernels; and seconds."""
    is_target = results.set.map(protocol.is_regression)
    for kind, part, base in (
        ("classes", results[~is_target], "svc"),
        ("targets", results[is_target], "kernel_ridge"),
    ):
        columns = [method for method in METHODS if method in set(part.method)]
        errors = part.pivot(index=["set", "repeat"], columns="method", values="test")
        errors = errors[columns].dropna()
        timed = part[part.repeat.isin(peers.TIMED)]
        seconds = timed.groupby(["set", "method"]).seconds.median().unstack()
        rows, times = [], []
        for name in order(errors):
            mine = errors.loc[name] * (100.0 if kind == "classes" else 1.0)
            best = mine.mean().idxmin()
            cells = [_cell(mine[m], mine[base]) for m in columns]
            cells = [f"**{c}**" if m == best else c for m, c in zip(columns, cells, strict=True)]
            rows.append([name, *cells, str(len(mine))])
            times.append([name, *(f"{seconds.loc[name, m]:.2g}" for m in columns)])
        counts = ["" if m == base else _counts(errors, m, base) for m in columns]
        rows.append([f"than {METHODS[base]}", *counts, ""])
        header = ["set", *(METHODS[m] for m in columns)]
        _write(f"peers_{kind}", [*header, "repeats"], rows, "methods")
        _write(f"peers_{kind}_seconds", header, times, "methods")


def table_unlabelled(results: pd.DataFrame) -> None:
    """Our default search with all rows and with the labelled ones only."""
    errors = results.pivot(index=["set", "repeat"], columns="method", values="test")
    is_ours = results.method == results.set.map(peers.ours)
    errors = errors.assign(ours=results[is_ours].set_index(["set", "repeat"]).test)
    errors = errors[["onefit_labels", "ours"]].dropna()
    rows = []
    for name in order(errors):
        scale = 1.0 if protocol.is_regression(name) else 100.0
        mine = errors.loc[name] * scale
        labels = mine.onefit_labels
        cells = [f"{labels.mean():.3g} ± {labels.std(ddof=1):.2g}", _cell(mine.ours, labels)]
        change = f"{100 * (mine.ours.mean() / labels.mean() - 1):+.0f} %"
        rows.append([name, *cells, change, str(len(mine))])
    rows.append(["counts", "", _counts(errors, "ours", "onefit_labels"), "", ""])
    header = ["set", "labels only", "all rows", "difference", "repeats"]
    _write("peers_unlabelled", header, rows, "methods")


def table_nystrom() -> None:
    """Differences between Nystrom and exact basis: all candidates, and those worth choosing."""
    frame = pd.DataFrame(store.read(store.RESULTS / "nystrom.csv"))
    if frame.empty:
        return
    frame = frame.astype({"difference": float, "error": float})
    rows = []
    for name in order(frame.set_index("set")):
        mine = frame[frame.set == name]
        good = mine[mine.error <= 1.1 * mine.error.min() + 1e-12]
        cells = [
            f"{100 * part.difference.median():.2g} / {100 * part.difference.quantile(0.9):.2g}"
            for part in (mine, good)
        ]
        flips = pd.to_numeric(good.flips)
        other = "" if flips.isna().all() else f"{100 * flips.mean():.2g} / {100 * flips.max():.2g}"
        rows.append([name, mine.components.iloc[0], *cells, other])
    header = ["set", "columns", "all candidates", "those within 10 % of the best", "other class"]
    _write("reproduction_nystrom", header, rows, "nystrom")


def table_2() -> None:
    """How many times faster than naive t-CV, per candidate; next to the paper's ratios."""
    path = store.RESULTS / "times.csv"
    frame = pd.DataFrame(store.read(path))
    if frame.empty:
        return
    frame = frame.astype({"t": int, "seconds": float})
    published = paper().seconds
    rows = []
    for name in order(frame.set_index("set")):
        cells = [name]
        for t in protocol.FOLDS:
            times = frame[(frame.set == name) & (frame.t == t)].pivot(
                index="candidate", columns="method", values="seconds"
            )
            ratio = times.rdiv(times["naive"], axis=0).median()
            ratios = " / ".join(f"{ratio[m]:.2g}" for m in TIMED_CRITERIA)
            claimed = published[name, t, "cv"] / published[name, t, "bif"]
            cells.append(f"{claimed:.1f}; {ratios}")
        rows.append(cells)
    header = ["set", *(f"t = {t}" for t in protocol.FOLDS)]
    _write("reproduction_times", header, rows, "times")


def order(frame: pd.DataFrame) -> list[str]:
    """Data sets of a table: classes first, then real targets."""
    present = set(frame.index.get_level_values("set"))
    by_kind = sorted(protocol.names(), key=lambda name: (protocol.is_regression(name), name))
    return [name for name in by_kind if name in present]


def _write(name: str, header: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> None:
    machines = json.loads((store.RESULTS / "machines.json").read_text(encoding="utf-8"))[kind]
    where = machines[-1]
    processors = " and ".join(dict.fromkeys(one["processor"] for one in machines))
    versions = ", ".join(f"{k} {where[k]}" for k in ("python", "numpy", "scipy", "scikit-learn"))
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", f"Measured on {processors}, {where['cores']} cores; {versions}."]
    path = DOCS / "tables" / f"{name}.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(name, *lines[:-2], sep="\n", end="\n\n")


def main() -> None:
    choices, results = criteria(), selections()
    for t in protocol.FOLDS:
        table_1(choices, results, t)
    table_counts(choices, results)
    table_ranks(choices)
    table_large(choices)
    table_reading(choices, "from 1e-3", "reproduction_from", "criteria")
    if not (script := criteria("script")).empty:
        table_reading(script, "all", "reproduction_script", "script")
    table_selection(results)
    table_grids("grids", "former")
    table_grids("rules", "median")
    table_grids("classes", "all")
    rivals = methods()
    if not rivals.empty:
        table_peers(rivals)
        table_unlabelled(rivals)
    table_2()
    table_nystrom()


if __name__ == "__main__":
    main()
