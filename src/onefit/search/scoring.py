"""Scores of held-out decisions by any scikit-learn scorer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import check_scoring
from sklearn.utils.metaestimators import available_if

from onefit._typing import FloatArray, IntArray
from onefit.estimators import ManifoldEstimator
from onefit.targets import Targets, class_codes

__all__ = ["FoldScorer", "fold_scorer", "named_scorers", "named_scoring"]

#: Scores of many candidates at once: (truth, decisions of shape (a, m, q)) -> (a,).
Quick = Callable[[Targets, IntArray, FloatArray], FloatArray]


def _accuracy(targets: Targets, labels: IntArray, decisions: FloatArray) -> FloatArray:
    truth = class_codes(targets.values[labels])
    return (class_codes(decisions) == truth).mean(axis=1)


def _negative_squared_error(
    targets: Targets, labels: IntArray, decisions: FloatArray
) -> FloatArray:
    return -np.square(decisions - targets.values[labels]).mean(axis=(1, 2))


def _balanced_accuracy(targets: Targets, labels: IntArray, decisions: FloatArray) -> FloatArray:
    truth = class_codes(targets.values[labels])
    hits = class_codes(decisions) == truth
    recalls = [hits[:, truth == code].mean(axis=1) for code in np.unique(truth)]
    return np.mean(recalls, axis=0)


def _area_under_roc(targets: Targets, labels: IntArray, decisions: FloatArray) -> FloatArray:
    """Of two classes: the share of pairs in the right order, ties counting half."""
    positive = class_codes(targets.values[labels]) == 1
    n_positive = int(positive.sum())
    n_pairs = n_positive * (positive.size - n_positive)
    if n_pairs == 0:
        warnings.warn(
            "roc_auc is not defined on a fold whose held-out labels are all of one class; use "
            "fewer folds or another score.",
            UndefinedMetricWarning,
            stacklevel=2,
        )
        return np.full(decisions.shape[0], np.nan)
    ranks = rankdata(decisions[..., 0], axis=1)[:, positive].sum(axis=1)
    return (ranks - n_positive * (n_positive + 1) / 2) / n_pairs


def _negative_absolute_error(
    targets: Targets, labels: IntArray, decisions: FloatArray
) -> FloatArray:
    return -np.abs(decisions - targets.values[labels]).mean(axis=(1, 2))


def _negative_root_error(targets: Targets, labels: IntArray, decisions: FloatArray) -> FloatArray:
    squares = np.square(decisions - targets.values[labels]).mean(axis=1)
    return -np.sqrt(squares).mean(axis=1)


def _explained(targets: Targets, labels: IntArray, decisions: FloatArray) -> FloatArray:
    """R^2 with the variance of all labels: a fold of few labels has no variance of its own."""
    error = np.square(decisions - targets.values[labels]).mean(axis=1)
    return (1.0 - error / _label_variance(targets)).mean(axis=1)


def _label_variance(targets: Targets) -> FloatArray:
    variance = targets.values.var(axis=0)
    return np.where(variance > 0.0, variance, 1.0)


def _accuracy_uncertainty(
    targets: Targets, labels: IntArray, decisions: FloatArray, bounds: FloatArray
) -> FloatArray:
    """Share of decisions whose class the bounds leave open."""
    if decisions.shape[-1] == 1:
        return (np.abs(decisions) <= bounds)[..., 0].mean(axis=1)
    top = np.take_along_axis(decisions, decisions.argmax(-1)[..., None], -1)
    top_bound = np.take_along_axis(bounds, decisions.argmax(-1)[..., None], -1)
    rivals = (decisions + bounds >= top - top_bound).sum(axis=-1)
    return (rivals > 1).mean(axis=1)


def _squared_error_uncertainty(
    targets: Targets, labels: IntArray, decisions: FloatArray, bounds: FloatArray
) -> FloatArray:
    """Largest change of the mean squared error within the bounds."""
    error = np.abs(decisions - targets.values[labels])
    return (bounds * (2.0 * error + bounds)).mean(axis=(1, 2))


def _explained_uncertainty(
    targets: Targets, labels: IntArray, decisions: FloatArray, bounds: FloatArray
) -> FloatArray:
    error = np.abs(decisions - targets.values[labels])
    change = (bounds * (2.0 * error + bounds)).mean(axis=1)
    return (change / _label_variance(targets)).mean(axis=1)


def _margins(targets: Targets, labels: IntArray, decisions: FloatArray) -> FloatArray:
    """Decisions for the true class less the largest for another, (a, m); y f of two classes."""
    truth = targets.values[labels]
    if decisions.shape[-1] == 1:
        return (truth * decisions)[..., 0]
    own, others = (
        decisions.max(axis=-1, where=of, initial=-np.inf) for of in (truth > 0.0, truth < 0.0)
    )
    margins: FloatArray = own - others
    return margins


_UNCERTAINTY: Mapping[Any, Callable[..., FloatArray]] = {
    _accuracy: _accuracy_uncertainty,
    _negative_squared_error: _squared_error_uncertainty,
    _explained: _explained_uncertainty,
}

#: Scores that need no scikit-learn call for each fold and candidate: of classes, of targets.
_QUICK_CLASSES: Mapping[str | None, Quick] = {
    None: _accuracy,
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
}
_QUICK_TARGETS: Mapping[str | None, Quick] = {
    None: _explained,
    "neg_mean_squared_error": _negative_squared_error,
    "neg_mean_absolute_error": _negative_absolute_error,
    "neg_root_mean_squared_error": _negative_root_error,
}


class _Answered(BaseEstimator):
    """Answers with decisions that are known already, whatever rows it is asked about."""

    def __init__(self, model: Any = None, decisions: Any = None) -> None:
        self.model = model
        self.decisions = decisions

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:
        return self.model._predict_from_decisions(self._answer(X))

    def _answer(self, X: Any) -> Any:
        """The decisions, if it is the fold that is asked about."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows != len(self.decisions):
            raise ValueError(
                f"the scorer asked for {n_rows} rows of a fold of {len(self.decisions)}; in a "
                "search a scorer can have predictions of the held-out rows only, all at once."
            )
        return self.decisions


class _AnsweredRegressor(RegressorMixin, _Answered):
    """A regressor that has answered."""


class _AnsweredClassifier(ClassifierMixin, _Answered):
    """A classifier that has answered."""

    @property
    def classes_(self) -> Any:
        return self.model.classes_

    def decision_function(self, X: Any) -> FloatArray:
        decisions: FloatArray = self._answer(X)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    @available_if(lambda self: hasattr(self.model, "_log_proba_from_decisions"))
    def predict_proba(self, X: Any) -> FloatArray:
        return np.exp(self.model._log_proba_from_decisions(self._answer(X)))


def named_scoring(scoring: Any) -> dict[str, Any]:
    """What ``scoring`` asks for by column name; a single one is called "score"."""
    if isinstance(scoring, Mapping):
        return dict(scoring)
    if isinstance(scoring, list | tuple | set | frozenset):
        return {name: name for name in scoring}
    return {"score": scoring}


def named_scorers(estimator: Any, scoring: Any) -> dict[str, Any]:
    """Scorers by column name; a callable that returns a dictionary names its columns itself."""
    named = named_scoring(scoring)
    _check_names(named)
    return {name: check_scoring(estimator, scoring=one) for name, one in named.items()}


def _check_names(names: Collection[str]) -> None:
    if "loss" in names:
        raise ValueError(
            "a score is called 'loss', as the column mean_test_loss of the held-out loss is; "
            "give it another name."
        )


@dataclass(frozen=True)
class FoldScorer:
    """Scores candidates on one fold at a time.

    Parameters
    ----------
    scorers : mapping of str to callable
        scikit-learn scorers by column name.
    quick : mapping of str to callable
        Columns that have a direct formula.
    stand_in : class
        Estimator that the scorers see.
    model : ManifoldEstimator
        Fitted as far as turning decisions to predictions needs.
    targets : Targets
        What was held out.
    X : array-like of l rows
        The user's labelled rows, for scorers that look at them.
    params : mapping
        Metadata that the scorers have requested, with an entry for every row.
    """

    scorers: Mapping[str, Any]
    quick: Mapping[str, Quick]
    stand_in: type[_Answered]
    model: ManifoldEstimator
    targets: Targets
    X: Any
    params: Mapping[str, Any] = field(default_factory=dict)

    def of(self, model: ManifoldEstimator) -> Self:
        """The scorer of another estimator's decisions, which it may turn to other predictions."""
        if type(model) is type(self.model):
            return self
        other = clone(model)
        other._read_shape(self.targets)
        return replace(self, model=other)

    def __call__(self, labels: IntArray, decisions: FloatArray) -> dict[str, FloatArray]:
        """Scores of shape (a,) from decisions of shape (a, m, q) on some labels."""
        results: dict[str, FloatArray] = {}
        for name, scorer in self.scorers.items():
            if name in self.quick:
                results[name] = self.quick[name](self.targets, labels, decisions)
            else:
                results |= self._by_scorer(name, scorer, labels, decisions)
        return results

    def uncertainty(
        self, labels: IntArray, decisions: FloatArray, bounds: FloatArray
    ) -> FloatArray:
        """Largest error of the scores, shape (a,), from bounds on those of the decisions."""
        bound = _UNCERTAINTY.get(self.quick.get("score"))
        if bound is None:
            return np.full(decisions.shape[0], np.inf)
        return bound(self.targets, labels, decisions, bounds)

    def margins(self, labels: Sequence[IntArray], decisions: Sequence[FloatArray]) -> FloatArray:
        r"""Mean margin over all folds in units of its root mean square, shape (a,).

        .. math:: \sum_i m_i \Big/ \sqrt{n \textstyle\sum_i m_i^2}

        with :math:`m_i = y_i f_i` for two classes and
        :math:`m_i = f_{iy_i} - \max_{c \ne y_i} f_{ic}` for several. 0 where all decisions vanish,
        NaN for real targets, which have no margin.
        """
        total, squares = np.zeros((2, decisions[0].shape[0]))
        if not is_classifier(self.model):
            return total + np.nan
        for some, values in zip(labels, decisions, strict=True):
            margins = _margins(self.targets, some, values)
            total += margins.sum(axis=1)
            squares += np.square(margins).sum(axis=1)
        n = sum(some.size for some in labels)
        return np.divide(total, np.sqrt(n * squares), out=total, where=squares > 0.0)

    def _by_scorer(
        self, name: str, scorer: Any, labels: IntArray, decisions: FloatArray
    ) -> dict[str, FloatArray]:
        rows = np.flatnonzero(self.targets.labelled)[labels]
        truth = self.model._predict_from_decisions(self.targets.values[labels])
        X = _rows_of(self.X, labels)
        params = {key: np.asarray(value)[rows] for key, value in self.params.items()}
        try:
            scores = [
                scorer(self.stand_in(self.model, one), X, truth, **params) for one in decisions
            ]
        except AttributeError as error:
            if "predict_proba" not in str(error):
                raise
            raise ValueError(
                f"the scoring wants probabilities, which {type(self.model).__name__} does not "
                "have; use LapLogisticRegression or another scoring."
            ) from error
        if isinstance(scores[0], Mapping):
            _check_names(scores[0])
            columns = {key: [one[key] for one in scores] for key in scores[0]}
        else:
            columns = {name: scores}
        return {
            key: np.array([_checked_score(key, scorer, one) for one in column])
            for key, column in columns.items()
        }


def _checked_score(name: str, scorer: Any, value: Any) -> float:
    """A score as a number, which may be NaN where it is not defined."""
    try:
        score = np.inf if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        score = np.inf
    if np.isinf(score):
        own = getattr(scorer, "__name__", None) or repr(scorer)
        raise ValueError(
            f"the scorer {own} returned {value!r:.100} as {name!r}; expected a finite number, or "
            "NaN where there is no score."
        )
    return score


def fold_scorer(
    estimator: Any,
    scoring: Any,
    model: ManifoldEstimator,
    targets: Targets,
    X: Any,
    params: Mapping[str, Any] | None = None,
) -> FoldScorer:
    """Scorer of held-out decisions for ``scoring`` as :class:`GridSearchCV` understands it."""
    scorers = named_scorers(estimator, scoring)
    quick = {} if params else _quick_scores(scoring, model, targets)
    looks_at_rows = any(name not in quick for name in scorers)
    labelled = _rows_of(X, np.flatnonzero(targets.labelled)) if looks_at_rows else None
    stand_in = _AnsweredClassifier if is_classifier(model) else _AnsweredRegressor
    return FoldScorer(scorers, quick, stand_in, model, targets, labelled, params or {})


def _rows_of(X: Any, rows: IntArray) -> Any:
    """Some of the user's rows."""
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _quick_scores(scoring: Any, model: ManifoldEstimator, targets: Targets) -> dict[str, Quick]:
    """Columns of ``scoring`` that have a direct formula."""
    known = dict(_QUICK_CLASSES if is_classifier(model) else _QUICK_TARGETS)
    if is_classifier(model) and targets.values.shape[1] == 1:
        known["roc_auc"] = _area_under_roc
    return {
        name: known[one]
        for name, one in named_scoring(scoring).items()
        if isinstance(one, str | None) and one in known
    }
