"""Figures for the documentation from the results: python -m experiments.plot."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from benchmarks.common import IMAGES

from experiments import peers, protocol
from experiments.analyse import (
    LEVELS,
    METHODS,
    TITLES,
    criteria,
    methods,
    order,
    selections,
    with_default,
)

#: Okabe and Ito's colours, which the colour-blind can tell apart.
STYLES = {
    "exact": ("#000000", "o"),
    "newton": ("#009e73", "s"),
    "labels": ("#0072b2", "^"),
    "bif_nystrom": ("#d55e00", "v"),
    "bif_leverage": ("#cc79a7", "X"),
    "default": ("#e69f00", "D"),
}

PEER_STYLES = {
    "self_training": ("#cc79a7", "s"),
    "label_spreading": ("#d55e00", "v"),
    "label_propagation": ("#e69f00", "<"),
    "graph_laplace": ("#009e73", "P"),
    "graph_poisson": ("#56b4e9", "X"),
    "onefit_laprls": ("#888888", "D"),
}


def leverage_figure(choices: pd.DataFrame) -> None:
    """How far the criteria are from exact cross-validation, by the ambient penalty; t = 10."""
    levels = choices[(choices.t == 10) & choices.candidates.str.match(LEVELS)]
    levels = levels.assign(ambient=levels.candidates.astype(float))
    is_target = levels.set.map(protocol.is_regression)
    fig, axes = plt.subplots(2, 3, figsize=(11, 6.2), layout="constrained", sharex=True)
    for row, kind, part in (
        (axes[0], "real targets (LapRLS)", levels[is_target]),
        (axes[1], "classes (LapSVM)", levels[~is_target]),
    ):
        _leverage_row(row, part)
        row[0].set_ylabel(kind, fontsize=11)
    titles = (
        "distance from exact t-CV,\nrelative (median)",
        "rank correlation with exact t-CV\n(mean)",
        "test error of the choice,\nrelative to that of exact t-CV",
    )
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=10)
    for ax in axes[1]:
        ax.set_xlabel(r"ambient penalty $\gamma_A$")
    axes[0, 1].legend(frameon=False, fontsize=9)
    fig.savefig(IMAGES / "reproduction_leverage.png", dpi=150)
    plt.close(fig)


def _leverage_row(axes: Sequence[plt.Axes], levels: pd.DataFrame) -> None:
    # Each set counts once, whatever its repeats; and single test errors can be 0.
    means = levels.groupby(["criterion", "set", "ambient"]).test.mean()
    for criterion, (colour, marker) in STYLES.items():
        mine = levels[levels.criterion == criterion]
        if mine.empty or criterion == "exact":
            continue
        ratio = np.log(means[criterion] / means["exact"]).groupby("ambient").mean()
        by_set = mine.groupby(["set", "ambient"])
        curves = (
            by_set.distance.median().groupby("ambient").median().clip(lower=1e-3),
            by_set.rank_correlation.mean().groupby("ambient").mean(),
            np.exp(ratio),
        )
        for ax, curve in zip(axes, curves, strict=True):
            ax.plot(curve.index, curve, color=colour, marker=marker, ms=5, label=TITLES[criterion])
    for ax in axes:
        ax.set_xscale("log")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yscale("log")
    axes[2].axhline(1.0, color="0.6", lw=0.8, zorder=0)


def sets_figure(choices: pd.DataFrame, results: pd.DataFrame) -> None:
    """Test error of every criterion's choice relative to that of exact t-CV, set by set; t = 10."""
    errors = with_default(choices, results, 10)
    names = order(errors)
    fig, ax = plt.subplots(figsize=(8, 5.2), layout="constrained")
    for criterion, (colour, marker) in STYLES.items():
        if criterion == "exact":
            continue
        means = errors[[criterion, "exact"]].dropna().groupby("set").mean().reindex(names)
        ratio = means[criterion] / means["exact"]
        label = TITLES[criterion]
        ax.plot(ratio, range(len(names)), marker, color=colour, ms=7, alpha=0.85, label=label)
    ax.set_xlabel("test error relative to the choice of exact 10-fold cross-validation")
    _finish_by_set(ax, names, [0.5, 1, 2, 5], n_columns=5)
    fig.savefig(IMAGES / "reproduction_sets.png", dpi=150)
    plt.close(fig)


def peers_figure(results: pd.DataFrame) -> None:
    """Mean test errors relative to those of supervised kernels; ours with and without graph."""
    errors = results.pivot(index=["set", "repeat"], columns="method", values="test")
    names = order(errors)
    fig, ax = plt.subplots(figsize=(8, 5.4), layout="constrained")
    ratios = {}
    for name in names:
        base = "kernel_ridge" if protocol.is_regression(name) else "svc"
        mine = errors.loc[name].dropna(axis="columns", how="all").dropna().mean()
        ratios[name] = (mine / mine[base]).rename({peers.ours(name): "ours"})
    table = pd.DataFrame(ratios).T
    rows = range(len(names))
    ax.hlines(rows, table.onefit_labels, table.ours, color="0.3", lw=1.2, zorder=1)
    for method, (colour, marker) in PEER_STYLES.items():
        ax.plot(table[method], rows, marker, color=colour, ms=7, label=METHODS[method])
    # A ring, which shows around a point at the same place.
    label = METHODS["onefit_labels"]
    ax.plot(table.onefit_labels, rows, "o", color="#000000", mfc="none", ms=10, label=label)
    ax.plot(table.ours, rows, "o", color="#000000", ms=6, label="onefit, all rows")
    ax.set_xlabel("test error relative to SVC (classes) or KernelRidge (targets), labelled rows")
    _finish_by_set(ax, names, [0.1, 0.2, 0.5, 1, 2, 3], n_columns=4)
    fig.savefig(IMAGES / "reproduction_peers.png", dpi=150)
    plt.close(fig)


def _finish_by_set(ax: plt.Axes, names: list[str], ticks: list[float], n_columns: int) -> None:
    """Ratios on a logarithmic axis, one row for each data set."""
    ax.axvline(1.0, color="0.4", lw=1.0, zorder=0)
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.grid(axis="y", color="0.92")
    options = {"frameon": False, "fontsize": 9}
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=n_columns, **options)
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    choices, results = criteria(), selections()
    leverage_figure(choices)
    sets_figure(choices, results)
    peers_figure(methods())


if __name__ == "__main__":
    main()
