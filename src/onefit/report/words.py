"""What a search found, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onefit._typing import BoolArray
from onefit.search.results import (
    MOST_COMPARED,
    is_tied,
    rule_of,
    score_to_choose_by,
    within_one_standard_error,
)
from onefit.search.surface import Axis, Surface, describe_value

__all__ = ["PARAMETER_WORDS", "advice", "chosen_parameters", "reasons", "score_text"]

#: What the parameters mean to somebody who has not read the mathematics.
PARAMETER_WORDS: Mapping[str, str] = {
    "ambient_penalty": "γ_A: how smooth the prediction must be everywhere",
    "manifold_penalty": "γ_I: how smooth it must be along the data; 0 ignores unlabelled rows",
    "kernel_width": "reach of one row's influence, in squared distance",
    "n_neighbors": "neighbours that each row is joined to in the graph",
    "graph_width": "squared distance at which an edge of the graph loses weight",
    "graph_weights": "whether long edges of the graph count for less",
    "laplacian": "whether rows with many neighbours count for more",
    "class_weight": "whether rare classes count for more",
    "n_components": "landmark rows of the Nyström approximation",
}

_CRITERION_WORDS: Mapping[str, str] = {
    "exact": "The score of every candidate is its exact cross-validation",
    "certified": (
        "Every candidate was tried by one Newton step with an error bound; those that could "
        "still win were solved exactly"
    ),
    "newton": "Scores are approximate: one Newton step for each fold",
    "bif": "Scores are approximate: the first-order influence function of the paper",
}

#: Which of the near-best candidates a rule of choice has taken.
_TAKEN: Mapping[str, str] = {
    "one_standard_error": "the most regularised one was taken",
    "consensus": (
        f"at most {MOST_COMPARED}, the one was taken whose predictions for the unlabelled rows are "
        "nearest to the median of theirs"
    ),
    "margin": (
        "the one was taken that is most sure of the classes of held-out labels where it is right, "
        "and least sure where it is wrong (the largest mean margin for its scale)"
    ),
}


def score_text(mean: float, std: float | None = None) -> str:
    """A score with three decimals, or three digits where it is large; with its spread."""
    text = f"{mean:.3f}" if abs(mean) < 100 else describe_value(mean)
    if std is None:
        return text
    return f"{text} ± {f'{std:.3f}' if std < 100 else describe_value(std)}"


def chosen_parameters(params: Mapping[str, Any], prefix: str) -> list[tuple[str, str, str]]:
    """Name, value and meaning of every chosen parameter."""
    rows = []
    for name, value in params.items():
        label = name.removeprefix(prefix)
        rows.append((label, describe_value(value), PARAMETER_WORDS.get(label, "")))
    return rows


def reasons(search: Any, surface: Surface) -> list[str]:
    """Why this candidate: sentences, most important first."""
    return [_how_compared(search), *_rule(search, surface), _certainty(search)]


def _how_compared(search: Any) -> str:
    n, folds = len(search.cv_results_["params"]), search.n_splits_
    candidates = f"{n:,} candidates were" if n > 1 else "One candidate was"
    held = "labels" if search.holdout == "labels" else "rows, with their labels,"
    return (
        f"{candidates} compared on the same {folds} folds; the {held} of a fold were hidden from "
        "the model that predicted them."
    )


def _rule(search: Any, surface: Surface) -> list[str]:
    if callable(search.refit):
        return ["The choice was made by a rule of yours (refit is a function)."]
    mean, best = surface.mean, surface.best
    if len(mean) == 1 or np.isnan(mean[best]):
        return []
    if rule_of(search) in _TAKEN:
        columns = search.cv_results_
        near = within_one_standard_error(columns, score_to_choose_by(columns, search.refit)).sum()
        if near == 1:
            return ["No other candidate lies within one standard error of the best mean score."]
        return [
            f"Of the {near:,} candidates within one standard error of the best mean score "
            f"({score_text(float(np.nanmax(mean)))}), {_TAKEN[rule_of(search)]}.",
        ]
    tied = is_tied(mean, mean[best])
    return [*_ties(search, tied), *_runner_up(surface, tied)]


def _ties(search: Any, tied: BoolArray) -> list[str]:
    n = int(tied.sum())
    if n == 1:
        return ["No other candidate has the same mean score."]
    loss = search.cv_results_["mean_test_loss"]
    others = loss[tied & (np.arange(loss.size) != search.best_index_)]
    return [
        f"{n:,} candidates share the best mean score. The choice among them went to the smallest "
        f"held-out loss: {loss[search.best_index_]:.6g}, against {others.min():.6g} for the next."
    ]


def _runner_up(surface: Surface, tied: BoolArray) -> list[str]:
    """The best candidate that is worse, and how much the difference means."""
    rest = np.where(tied | np.isnan(surface.mean), -np.inf, surface.mean)
    if np.isneginf(rest).all():
        return ["No candidate is worse: these scores do not tell the candidates apart."]
    second = int(np.argmax(rest))
    difference = surface.splits[surface.best] - surface.splits[second]
    lead = float(surface.mean[surface.best] - surface.mean[second])
    spread = float(difference.std(ddof=1)) if difference.size > 1 else float("nan")
    error = spread / np.sqrt(difference.size)
    verdict = (
        "less than two standard errors, so take the two for equally good"
        if not lead > 2 * error
        else "more than two standard errors, so the difference is probably real"
    )
    near = _near(surface)
    flat = f"{near:,} of {surface.mean.size:,} candidates lie within one standard error of it."
    return [
        f"The next score is {score_text(float(surface.mean[second]))} ({_where(surface, second)}). "
        f"The lead is {describe_value(lead)}; over the folds the difference has a standard "
        f"deviation of {describe_value(spread)}. That is {verdict} (a "
        "rough guide, because folds share training rows).",
        *([f"The chosen score is not alone: {flat}"] if near > tied.sum() else []),
    ]


def _where(surface: Surface, index: int) -> str:
    """In what a candidate differs from the choice."""
    parts = [
        f"{axis.label} {axis.levels[axis.codes[index]]}"
        for axis in surface.axes
        if axis.codes[index] != axis.codes[surface.best]
    ]
    return ", ".join(parts) or "close to the choice"


def _near(surface: Surface) -> int:
    splits = surface.splits[surface.best]
    error = splits.std(ddof=1) / np.sqrt(splits.size) if splits.size > 1 else 0.0
    return int((surface.mean >= surface.mean[surface.best] - error).sum())


def _certainty(search: Any) -> str:
    # One Newton step is exact for the square loss: what counts is the bound, not the name.
    is_exact = bool(np.all(search.cv_results_["error_bound"] == 0.0))
    how = _CRITERION_WORDS["exact" if is_exact else search.criterion]
    if search.certified_:
        return f"{how}, so that the choice is certified: it is the one of exact cross-validation."
    return f"{how}. It is not certified that exact cross-validation would choose the same."


def advice(surface: Surface) -> list[str]:
    """What the choice suggests to do next."""
    found = [_at_the_edge(axis, surface) for axis in surface.axes]
    return [text for text in (*found, *_what_unlabelled_rows_bring(surface)) if text]


def _at_the_edge(axis: Axis, surface: Surface) -> str:
    """A word of caution where the score still rises at the end of the values tried."""
    at, last = int(axis.codes[surface.best]), len(axis.levels) - 1
    if not axis.is_numeric or last < 2 or axis.levels[at] == "0" or at not in (0, last):
        return ""
    inner = surface.best_by_level(axis)[1 if at == 0 else last - 1]
    if is_tied(surface.mean[[inner]], surface.mean[surface.best])[0]:
        return ""
    end = "smallest" if at == 0 else "largest"
    return (
        f"{axis.label} = {axis.levels[at]} is the {end} value tried, and the score still rises "
        "towards it. A wider grid may do better."
    )


def _what_unlabelled_rows_bring(surface: Surface) -> Sequence[str]:
    axis = next((a for a in surface.axes if a.label == "manifold_penalty"), None)
    if axis is None or axis.levels[0] != "0":
        return []
    without = int(surface.best_by_level(axis)[0])
    # The best with the best: the rule of choice may have taken another candidate.
    gain = float(np.nanmax(surface.mean) - surface.mean[without])
    if axis.codes[surface.best] == 0:
        found = (
            "cross-validation found no use for the unlabelled rows"
            if gain <= 1e-9
            else f"with the unlabelled rows the best score is higher by {describe_value(gain)}"
        )
        return [f"The chosen manifold_penalty is 0: {found}. The model is the supervised one."]
    effect = f"brings {describe_value(gain)}" if gain > 1e-9 else "does not raise the score"
    return [
        "Without the unlabelled rows (manifold_penalty 0) the best score is "
        f"{score_text(float(surface.mean[without]), float(surface.std[without]))}; using them "
        f"{effect}."
    ]
