"""From scores of candidates on folds to ``cv_results_`` and a choice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count, takewhile
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_classifier

from onefit._typing import BoolArray, FloatArray
from onefit.search.scoring import named_scoring
from onefit.search.task import CandidateResult

__all__ = [
    "MOST_COMPARED",
    "RULES",
    "check_score_name",
    "choose",
    "chosen_by",
    "cv_results",
    "evaluated_params",
    "is_tied",
    "near_best",
    "rule_of",
    "score_names",
    "score_to_choose_by",
    "split_scores",
    "within_one_standard_error",
]

#: Candidates of which "consensus" takes the one in the middle.
MOST_COMPARED = 30
#: Rules of choice that can be asked for.
RULES = ("auto", "best", "one_standard_error", "consensus", "margin")

#: Scores and losses closer than this are equal: their last digits depend on how BLAS works.
_TIE = 1e-9


def cv_results(
    candidates: Sequence[Mapping[str, Any]], results: Sequence[CandidateResult]
) -> dict[str, Any]:
    """The columns of GridSearchCV, with ``error_bound`` and the held-out loss that breaks ties."""
    columns: dict[str, Any] = {}
    for kind in ("fit", "score"):
        seconds = np.array([getattr(result, f"{kind}_seconds") for result in results])
        # A search fits no fold by itself: the share of every fold is the same.
        columns[f"mean_{kind}_time"] = seconds / len(results[0].losses)
        columns[f"std_{kind}_time"] = np.zeros(len(results))
    for name in sorted({name for params in candidates for name in params}):
        columns[f"param_{name}"] = _parameter_column(candidates, name)
    columns["params"] = [dict(params) for params in candidates]
    for name in results[0].scores:
        columns |= _score_columns(name, np.array([result.scores[name] for result in results]))
    columns["mean_test_loss"] = np.array([np.mean(result.losses) for result in results])
    margins = np.array([result.margin for result in results])
    if not np.isnan(margins).all():  # of classes
        columns["margin"] = margins
    columns["n_components"] = np.ma.masked_equal(
        [result.n_components or 0 for result in results], 0
    )
    columns["error_bound"] = np.array([result.error_bound for result in results])
    return columns


def _score_columns(name: str, scores: FloatArray) -> dict[str, FloatArray]:
    columns = {f"split{i}_test_{name}": column for i, column in enumerate(scores.T)}
    mean = scores.mean(axis=1)
    columns[f"mean_test_{name}"] = mean
    columns[f"std_test_{name}"] = scores.std(axis=1)
    # A mean that is not defined ranks last.
    ranked = np.nan_to_num(np.round(mean, 10), nan=-np.inf)
    columns[f"rank_test_{name}"] = rankdata(-ranked, method="min").astype(np.int32)
    return columns


def _parameter_column(candidates: Sequence[Mapping[str, Any]], name: str) -> Any:
    values = [params.get(name) for params in candidates]
    absent = [name not in params for params in candidates]
    data = np.empty(len(values), dtype=object)
    data[:] = values
    kinds = {type(value) for value, missing in zip(values, absent, strict=True) if not missing}
    if kinds <= {int, float, np.float64, np.int64} and not any(absent):
        data = np.array(values)
    return np.ma.MaskedArray(data, mask=absent, fill_value=None if data.dtype == object else 0)


def choose(columns: Mapping[str, Any], name: str, rule: str) -> int:
    """Index of the chosen candidate.

    Parameters
    ----------
    columns : mapping
        ``cv_results_``.
    name : str
        Score to choose by.
    rule : {"best", "one_standard_error", "margin"}
        The best mean score, ties going to the smaller held-out loss; or, of the candidates within
        one standard error of it, the one with the largest ambient penalty, then the smaller loss;
        or, of these, the one with the largest margin.
    """
    loss = columns["mean_test_loss"]
    if rule == "best":
        mean = _mean_scores(columns, name)
        return _least(loss, is_tied(mean, np.nanmax(mean)))
    near = within_one_standard_error(columns, name)
    if rule == "margin":
        return _least(-columns["margin"], near)
    penalties = _ambient_penalties(columns["params"])
    return _least(loss, near & (penalties == penalties[near].max()))


def within_one_standard_error(columns: Mapping[str, Any], name: str) -> BoolArray:
    """Which candidates have a mean score within one standard error of the best."""
    mean, best = _mean_scores(columns, name), choose(columns, name, "best")
    splits = split_scores(columns, name)[best]
    error = np.std(splits, ddof=1) / np.sqrt(splits.size) if splits.size > 1 else 0.0
    return is_tied(mean, np.nanmax(mean)) | (mean >= np.nanmax(mean) - error)


def split_scores(columns: Mapping[str, Any], name: str) -> FloatArray:
    """Scores of shape (candidates, folds)."""
    keys = takewhile(columns.__contains__, (f"split{i}_test_{name}" for i in count()))
    return np.column_stack([columns[key] for key in keys])


def near_best(columns: Mapping[str, Any], name: str) -> list[int]:
    """The first candidates within one standard error of the best, by score and then loss."""
    near = np.flatnonzero(within_one_standard_error(columns, name))
    mean, loss = columns[f"mean_test_{name}"][near], columns["mean_test_loss"][near]
    # Rounded, so that the last digits do not decide.
    order = np.lexsort((np.round(loss, 9), -np.round(mean, 9)))
    return [int(index) for index in near[order[:MOST_COMPARED]]]


def _mean_scores(columns: Mapping[str, Any], name: str) -> FloatArray:
    mean: FloatArray = columns[f"mean_test_{name}"]
    if np.isnan(mean).all():
        raise ValueError(
            f"no candidate has a finite mean_test_{name}, so that there is nothing to choose by: "
            "the score is not defined on at least one fold. Use another scoring, or fewer folds."
        )
    return mean


def score_names(columns: Mapping[str, Any]) -> list[str]:
    """What the candidates were scored by; the held-out loss ranks nothing."""
    return [key.removeprefix("rank_test_") for key in columns if key.startswith("rank_test_")]


def score_to_choose_by(columns: Mapping[str, Any], refit: Any) -> str:
    """Name of the score: the only one, or the one that ``refit`` names."""
    names = score_names(columns)
    return "score" if names == ["score"] else check_score_name(refit, names)


def check_score_name(refit: Any, names: Collection[str]) -> str:
    """``refit``, if it names one of several scores."""
    if not isinstance(refit, str) or refit not in names:
        raise ValueError(
            f"refit={refit!r} with several scores; expected the name of the one to choose by "
            f"({', '.join(sorted(map(repr, names)))}), a callable, or False."
        )
    return refit


def chosen_by(rule: Callable[..., Any], columns: Mapping[str, Any]) -> int:
    """The candidate that a function of the user's chooses."""
    index, n = rule(columns), len(columns["params"])
    if not isinstance(index, Integral) or int(index) not in range(n):
        raise ValueError(
            f"refit returned {index!r}; expected the index of a candidate, from 0 to {n - 1}."
        )
    return int(index)


def rule_of(search: Any) -> str:
    """The rule of choice of a search: the one asked for, or what "auto" stands for.

    Of real targets, outlying rows that no label stands for can have most of the error, and what
    most of the best candidates agree on is the safer prediction there. The accuracy on a few labels
    is a coarse count, and margins tell candidates apart that it cannot. Other scores of classes ask
    for something else, a race certifies the best score alone, and "bif" is there for comparison.
    """
    if search.selection != "auto":
        return str(search.selection)
    if not is_classifier(search.estimator):
        return "consensus"
    named = named_scoring(search.scoring)
    name = search.refit if isinstance(search.refit, str) and search.refit in named else "score"
    is_accuracy = named.get(name, "") in (None, "accuracy")
    return "margin" if is_accuracy and search.criterion in ("exact", "newton") else "best"


def evaluated_params(columns: Mapping[str, Any], index: int, prefix: str) -> dict[str, Any]:
    """Parameters of a candidate with the number of landmarks that it was evaluated with.

    "auto" has grown already, and what the memory did not allow has been replaced.
    """
    params, used = dict(columns["params"][index]), columns["n_components"][index]
    if not np.ma.is_masked(used):
        params[prefix + "n_components"] = int(used)
    return params


def is_tied(mean: FloatArray, best: float) -> BoolArray:
    """Which mean scores are as good as ``best``, up to rounding."""
    return mean >= best - _TIE * max(1.0, abs(best))


def _least(loss: FloatArray, among: BoolArray) -> int:
    """First of these candidates whose loss is the least, up to rounding."""
    least = loss[among].min()
    return int(np.flatnonzero(among & (loss <= least + _TIE * max(1.0, abs(least))))[0])


def _ambient_penalties(params: Sequence[Mapping[str, Any]]) -> FloatArray:
    """Ambient penalty of every candidate; 0 where it is not among the parameters."""
    return np.array(
        [
            next((float(v) for k, v in one.items() if k.endswith("ambient_penalty")), 0.0)
            for one in params
        ]
    )
