"""Figures for the documentation from the results: python -m experiments.plot."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from benchmarks.common import IMAGES

from experiments.analyse import TITLES, criteria, order, selections, with_default

#: Okabe and Ito's colours, which the colour-blind can tell apart.
STYLES = {
    "exact": ("#000000", "o"),
    "newton": ("#009e73", "s"),
    "labels": ("#0072b2", "^"),
    "bif_nystrom": ("#d55e00", "v"),
    "bif_leverage": ("#cc79a7", "X"),
    "default": ("#e69f00", "D"),
}


def leverage_figure(choices: pd.DataFrame) -> None:
    """How far the criteria are from exact cross-validation, by the ambient penalty; t = 10."""
    levels = choices[(choices.t == 10) & choices.candidates.str.match(r"^1e[+-]\d+$")]
    levels = levels.assign(ambient=levels.candidates.astype(float))
    # Each set counts once, whatever its repeats; and single test errors can be 0.
    means = levels.groupby(["criterion", "set", "ambient"]).test.mean()
    fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
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
    titles = (
        "distance from exact t-CV,\nrelative (median)",
        "rank correlation with exact t-CV\n(mean)",
        "test error of the choice,\nrelative to that of exact t-CV",
    )
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=10)
        ax.set_xscale("log")
        ax.set_xlabel(r"ambient penalty $\gamma_A$")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yscale("log")
    axes[2].axhline(1.0, color="0.6", lw=0.8, zorder=0)
    axes[1].legend(frameon=False, fontsize=9)
    fig.savefig(IMAGES / "reproduction_leverage.png", dpi=150)
    plt.close(fig)


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
        ax.plot(
            ratio,
            range(len(names)),
            marker,
            color=colour,
            ms=7,
            alpha=0.85,
            label=TITLES[criterion],
        )
    ax.axvline(1.0, color="0.4", lw=1.0, zorder=0)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    ax.minorticks_off()
    ax.grid(axis="y", color="0.92")
    ax.set_xlabel("test error relative to the choice of exact 10-fold cross-validation")
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=5, frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(IMAGES / "reproduction_sets.png", dpi=150)
    plt.close(fig)


def main() -> None:
    choices, results = criteria(), selections()
    leverage_figure(choices)
    sets_figure(choices, results)


if __name__ == "__main__":
    main()
