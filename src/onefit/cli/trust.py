"""How far a score of cross-validation can be trusted: baselines, spread, and optimism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from onefit import ManifoldSearchCV
from onefit._typing import FloatArray, IntArray
from onefit.preparation import Prepared

__all__ = ["Baseline", "Trust", "assess", "dummy_baseline", "supervised_baseline"]

#: Name, mean score and its standard deviation over folds.
Baseline = tuple[str, float, float]
Splits = Sequence[tuple[IntArray, IntArray]]


@dataclass(frozen=True)
class Trust:
    """What a score is worth.

    Parameters
    ----------
    n_labels : int
        Labels it rests on.
    standard_error : float
        About how far it is from the score on endless data of this kind.
    corrected_score : float
        Score without the optimism of having chosen the best of many.
    n_candidates : int
        How many the best was chosen from.
    certified : bool
        Whether the choice is that of exact cross-validation.
    """

    n_labels: int
    standard_error: float
    corrected_score: float
    n_candidates: int
    certified: bool

    @property
    def labels_to_halve(self) -> int:
        """More labels that would halve the standard error, which falls as their square root."""
        return 3 * self.n_labels


def dummy_baseline(prepared: Prepared, splits: Splits, scorer: Any) -> Baseline:
    """Scores of a model that looks at no feature, on the same folds."""
    classes = prepared.task == "classification"
    dummy = DummyClassifier() if classes else DummyRegressor()
    name = "most frequent class" if classes else "mean of the labels"
    scores = []
    for train, test in splits:
        known = train[prepared.labelled[train]]
        dummy.fit(prepared.X.iloc[known], _labels(prepared, known))
        scores.append(scorer(dummy, prepared.X.iloc[test], _labels(prepared, test)))
    return name, float(np.mean(scores)), float(np.std(scores))


def _labels(prepared: Prepared, rows: IntArray) -> np.ndarray[Any, Any]:
    """Labels as an array of one type."""
    return np.array(prepared.y[rows].tolist())


def supervised_baseline(search: ManifoldSearchCV) -> Baseline | None:
    """Scores of the best candidate that ignores unlabelled rows; None if there was none."""
    columns = search.cv_results_
    penalties = columns.get("param_model__manifold_penalty")
    if penalties is None:
        return None
    ignoring = np.flatnonzero(np.asarray(penalties, dtype=np.float64) == 0.0)
    if not ignoring.size:
        return None
    mean, loss = columns["mean_test_score"][ignoring], columns["mean_test_loss"][ignoring]
    best = ignoring[np.lexsort((loss, -mean))[0]]
    return (
        "labels only",
        float(columns["mean_test_score"][best]),
        float(columns["std_test_score"][best]),
    )


def assess(search: ManifoldSearchCV, n_labels: int, n_repeats: int, scoring: str) -> Trust:
    """What the best score of a search is worth.

    Parameters
    ----------
    search : ManifoldSearchCV
        Fitted.
    n_labels, n_repeats : int
        Labelled rows, and how often they were divided into folds.
    scoring : str
        Name of the score.
    """
    scores = _fold_scores(search.cv_results_, n_repeats)
    best = scores[search.best_index_]
    return Trust(
        n_labels,
        _standard_error(best, n_labels, scoring),
        _corrected_score(scores, search.cv_results_["mean_test_loss"]),
        scores.shape[0],
        bool(search.certified_),
    )


def _fold_scores(columns: dict[str, Any], n_repeats: int) -> FloatArray:
    """Scores of shape (candidates, repeats, folds)."""
    n_splits = sum(key.startswith("split") and key.endswith("_test_score") for key in columns)
    scores = np.stack([columns[f"split{i}_test_score"] for i in range(n_splits)], axis=1)
    return scores.reshape(scores.shape[0], n_repeats, -1)


def _standard_error(scores: FloatArray, n_labels: int, scoring: str) -> float:
    """Standard error of the mean of scores of shape (repeats, folds).

    For the accuracy that of a share of ``n_labels`` answers, with one right and one wrong answer
    added, so that it is not 0 when all are right. Repeats use the same labels: they do not count.
    """
    if scoring == "accuracy":
        share = (scores.mean() * n_labels + 1.0) / (n_labels + 2.0)
        return float(np.sqrt(share * (1.0 - share) / n_labels))
    return float(np.mean(scores.std(axis=1, ddof=1)) / np.sqrt(scores.shape[1]))


def _corrected_score(scores: FloatArray, losses: FloatArray) -> float:
    """Mean score on each fold of the candidate that is the best on the other folds of its repeat.

    The fold that scores has no say in the choice, which removes most of the optimism of the best
    of many. Ties go to the smaller held-out loss.
    """
    scores = np.nan_to_num(scores[np.argsort(losses, kind="stable")], nan=-np.inf)
    elsewhere = scores.sum(axis=2, keepdims=True) - scores
    # Sums of the same numbers in another order differ in the last digits.
    chosen = np.round(elsewhere, 9).argmax(axis=0)
    return float(np.take_along_axis(scores, chosen[None], axis=0).mean())
