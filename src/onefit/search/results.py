"""From scores of candidates on folds to ``cv_results_`` and a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_classifier

from onefit._typing import BoolArray, FloatArray
from onefit.search.task import CandidateResult

__all__ = ["choose", "cv_results", "is_tied", "rule_of"]

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
    rule : {"best", "one_standard_error"}
        The best mean score, ties going to the smaller held-out loss; or, of the candidates within
        one standard error of it, the one with the largest ambient penalty, then the smaller loss.
    """
    mean, loss = columns[f"mean_test_{name}"], columns["mean_test_loss"]
    if np.isnan(mean).all():
        raise ValueError(
            f"no candidate has a finite mean_test_{name}, so that there is nothing to choose by: "
            "the score is not defined on at least one fold. Use another scoring, or fewer folds."
        )
    best = np.nanmax(mean)
    near = is_tied(mean, best)
    if rule == "one_standard_error":
        leader = _least(loss, near)
        splits = [
            columns[key][leader]
            for key in columns
            if key.startswith("split") and key.endswith(f"_test_{name}")
        ]
        near = mean >= best - np.std(splits, ddof=1) / np.sqrt(len(splits))
        penalties = _ambient_penalties(columns["params"])
        near &= penalties == penalties[near].max()
    return _least(loss, near)


def rule_of(search: Any) -> str:
    """The rule of choice of a search: the one asked for, or what "auto" stands for.

    Of real targets, outlying rows that no label stands for can have most of the error, and
    candidates that are more regularised are the safer ones there.
    """
    if search.selection != "auto":
        return str(search.selection)
    return "best" if is_classifier(search.estimator) else "one_standard_error"


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
