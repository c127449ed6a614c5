"""The public door to the criteria: held-out decisions of one estimator."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from onefit._threads import blas_threads
from onefit._typing import FloatArray, IntArray
from onefit.criteria import CRITERIA, FoldDecisions
from onefit.criteria.common import Holdout
from onefit.estimators import Assembled, ManifoldEstimator
from onefit.folds import Fold, RepeatedSemiSupervisedKFold, SemiSupervisedKFold, check_folds
from onefit.problem import Fit, said_if_singular
from onefit.targets import UNLABELED, Targets
from onefit.validation import check_choice

__all__ = ["HeldOutDecisions", "compare_criteria", "cross_val_decisions", "split_rows"]

#: Below this many labels the small dense algebra of the folds is faster on one thread.
_SMALL = 600


@dataclass(frozen=True)
class HeldOutDecisions:
    """Held-out decision values, from which any score can be computed.

    Attributes
    ----------
    predictions : array of shape (N,), or (N, q) with several outputs or classes
        Decision value (for a regressor: prediction) of every row when it was held out, aligned
        with the rows of X; NaN where nothing was held out. A row held out more than once, as in
        repeated cross-validation, has the mean here; ``fold_predictions`` has them one by one.
    error_bounds : array like ``predictions``, or None
        Largest distance to the decision of the exact fold optimum, equation (8); None unless
        asked for. With repeats, the mean of the bounds, which bounds the mean.
    n_solves : int
        Linear systems solved beyond the fit on all rows.
    fold_rows : list of arrays
        Rows held out in each fold.
    fold_predictions : list of arrays
        Their decision values.

    Examples
    --------
    >>> import numpy as np
    >>> from onefit import LapRLSRegressor, cross_val_decisions
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> y = np.where(np.arange(20) % 2, X[:, 0], np.nan)          # ten labels
    >>> held_out = cross_val_decisions(LapRLSRegressor(), X, y, cv=5)
    >>> held_out.predictions.shape, len(held_out.fold_rows)
    ((20,), 5)
    """

    predictions: FloatArray
    error_bounds: FloatArray | None
    n_solves: int
    fold_rows: list[IntArray]
    fold_predictions: list[FloatArray]


def cross_val_decisions(
    estimator: ManifoldEstimator,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    criterion: str = "exact",
    holdout: Holdout = "labels",
    sample_weight: Any = None,
    error_bounds: bool = False,
    rebuild_graph: bool = False,
    criterion_params: Mapping[str, Any] | None = None,
) -> HeldOutDecisions:
    r"""Decision values of every labelled row, from a model that did not see its label.

    The model is fitted once, on all rows. Each fold's model follows from that fit,

    .. math:: f_{-i} = \arg\min_f J_i(f),

    exactly or approximately, as ``criterion`` says.

    Parameters
    ----------
    estimator : estimator of this package
        Its parameters define the model; it is not changed.
    X : array-like or sparse matrix of shape (N, n_features)
        All rows.
    y : array-like of shape (N,) or (N, q)
        Targets, with unlabelled rows marked as in ``fit``.
    cv : int, splitter or iterable of (train, test), default=5
        An integer is the number of folds of :class:`SemiSupervisedKFold`; as many as there are
        labels is leave-one-out. Pairs of row numbers are taken as they are: the fold trains on
        ``train`` and predicts ``test``.
    criterion : {"exact", "bif", "newton"}, default="exact"
        ``"exact"``: the optimum of every fold. ``"bif"``: the paper's influence function.
        ``"newton"``: one Newton step on every fold's own objective.
    holdout : {"labels", "points"}, default="labels"
        ``"labels"``: the fold's labels are hidden, its points stay in the graph.
        ``"points"``: its points are removed from graph and objective too, as in the paper.
    sample_weight : array-like of shape (N,), optional
        As in ``fit``.
    error_bounds : bool, default=False
        Whether to compute the bounds (8).
    rebuild_graph : bool, default=False
        For reference: clone and refit the estimator on every fold's training rows, which rebuilds
        graph and automatic widths. Needs ``criterion="exact", holdout="points"``; slow.
    criterion_params : dict, optional
        Options of the criterion: ``n_steps`` of "newton"; ``hessian``, ``hessian_components``,
        ``variant`` and ``random_state`` of "bif" (see :mod:`onefit.criteria`).

    Returns
    -------
    HeldOutDecisions
        With ``predictions``, ``error_bounds`` and ``n_solves``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from onefit import LapRLSClassifier, cross_val_decisions
    >>> X, truth = make_moons(200, noise=0.1, random_state=0)
    >>> y = np.where(np.arange(200) < 20, truth, -1)              # 20 labels
    >>> held_out = cross_val_decisions(LapRLSClassifier(kernel_width=0.1), X, y, cv=20)
    >>> known = y != -1
    >>> float(np.mean((held_out.predictions[known] > 0) == y[known]))
    1.0
    >>> bool(np.isnan(held_out.predictions[~known]).all())
    True
    """
    _check_arguments(estimator, criterion, holdout)
    if rebuild_graph:
        _check_rebuild(estimator, criterion, holdout, error_bounds, criterion_params)
    options = check_criterion_params(criterion, criterion_params)
    model = clone(estimator)
    assembled = model._assemble(X, y, sample_weight)
    folds = check_folds(split_rows(cv, X, y, assembled.targets), assembled.targets.labelled)
    if rebuild_graph:
        return _gather(_refit_literally(model, assembled, folds), assembled)
    results = _by_criterion(
        criterion, assembled.solve(), folds, holdout, bounds=error_bounds, **options
    )
    return _gather(results, assembled)


def compare_criteria(
    estimator: ManifoldEstimator,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    criteria: Sequence[str] = ("exact", "newton", "bif"),
    holdout: Holdout = "labels",
) -> dict[str, HeldOutDecisions]:
    """Held-out decisions by several criteria, from one fit and on the same folds.

    Parameters
    ----------
    estimator, X, y, cv, holdout
        As in :func:`cross_val_decisions`.
    criteria : sequence of str
        Names of criteria.

    Returns
    -------
    dict of str to HeldOutDecisions
    """
    for criterion in criteria:
        _check_arguments(estimator, criterion, holdout)
    assembled = clone(estimator)._assemble(X, y)
    folds = check_folds(split_rows(cv, X, y, assembled.targets), assembled.targets.labelled)
    fit = assembled.solve()
    return {
        criterion: _gather(_by_criterion(criterion, fit, folds, holdout), assembled)
        for criterion in criteria
    }


def _by_criterion(
    criterion: str, fit: Fit, folds: Sequence[Fold], holdout: Holdout, **options: Any
) -> list[FoldDecisions]:
    with said_if_singular(fit.problem), _threads_for(fit.problem.n_labelled, holdout):
        results = CRITERIA[criterion](fit, folds, holdout, **options)
        if not all(np.isfinite(result.decisions).all() for result in results):
            raise np.linalg.LinAlgError
        return results


def _check_arguments(estimator: Any, criterion: str, holdout: str) -> None:
    if not isinstance(estimator, ManifoldEstimator):
        raise TypeError(
            f"estimator is a {type(estimator).__name__}; expected LapRLSRegressor, "
            "LapRLSClassifier, LapSVC or LapLogisticRegression. For a Pipeline, transform X first "
            "and pass the last step, or use ManifoldSearchCV."
        )
    check_choice("criterion", criterion, CRITERIA)
    check_choice("holdout", holdout, ("labels", "points"))


def check_criterion_params(criterion: str, params: Any) -> dict[str, Any]:
    """Options of a criterion as a dict; raises on those that it does not have."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise TypeError(f"criterion_params={params!r}; expected a dict of options.")
    signature = inspect.signature(CRITERIA[criterion]).parameters.values()
    options = [p.name for p in signature if p.kind is p.KEYWORD_ONLY and p.name != "bounds"]
    unknown = [name for name in params if name not in options]
    if unknown:
        raise ValueError(
            f"criterion_params has {unknown[0]!r}, which criterion={criterion!r} does not know; "
            f"its options are {options}."
        )
    return dict(params)


def _check_rebuild(
    estimator: Any, criterion: str, holdout: str, error_bounds: bool, criterion_params: Any
) -> None:
    if criterion != "exact" or holdout != "points":
        raise ValueError(
            f"rebuild_graph=True with criterion={criterion!r} and holdout={holdout!r}; refitting "
            "is criterion='exact' with holdout='points'."
        )
    if error_bounds or criterion_params:
        raise ValueError(
            "rebuild_graph=True with error_bounds or criterion_params; a refit has neither. Leave "
            "them out."
        )
    if not isinstance(estimator.graph, str) and not callable(estimator.graph):
        raise ValueError(
            "rebuild_graph=True with a precomputed graph, which cannot be rebuilt; use graph='knn' "
            "or a callable, or rebuild_graph=False."
        )


def split_rows(
    cv: Any, X: Any, y: Any, targets: Targets, **split_params: Any
) -> Iterable[tuple[Any, Any]]:
    """(train, test) pairs in the user's row numbers."""
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        cv = SemiSupervisedKFold(int(cv))
    if isinstance(cv, SemiSupervisedKFold | RepeatedSemiSupervisedKFold):
        # The estimator has read y already: no need to guess whether it holds classes.
        strata = np.full(targets.labelled.shape[0], UNLABELED, dtype=np.intp)
        strata[targets.labelled] = 0 if targets.codes is None else targets.codes
        return cv._split_strata(strata)
    if not isinstance(cv, str):
        if hasattr(cv, "split"):
            return cv.split(X, y, **split_params)
        if isinstance(cv, Iterable):
            return cv
    raise ValueError(
        f"cv={cv!r}; expected a number of folds, a splitter such as SemiSupervisedKFold, or an "
        "iterable of (train, test) row numbers."
    )


def _threads_for(n_labelled: int, holdout: Holdout) -> Any:
    """One BLAS thread around loops of small solves; all of them where blocks are large."""
    is_small = holdout == "labels" and n_labelled < _SMALL
    return blas_threads(1 if is_small else None)


def _refit_literally(
    model: ManifoldEstimator, assembled: Assembled, folds: Sequence[Fold]
) -> list[FoldDecisions]:
    """Clone and fit on the training rows of every fold, then predict the test rows."""
    X, targets = assembled.X, assembled.targets
    is_precomputed = model.kernel == "precomputed"
    weights = np.zeros(X.shape[0])
    weights[targets.labelled] = assembled.problem.weights.sample
    results = []
    for fold in folds:
        kept, test = fold.kept_rows, fold.test_rows
        rows = X[np.ix_(kept, kept)] if is_precomputed else X[kept]
        refit = clone(model).fit(rows, targets.y[kept], weights[kept])
        if targets.classes is not None and len(refit.classes_) < len(targets.classes):
            raise ValueError(
                "rebuild_graph=True and a fold without a label of every class; use fewer folds."
            )
        new = X[np.ix_(test, kept)] if is_precomputed else X[test]
        results.append(FoldDecisions(test, refit._decisions(new), None, refit.n_iter_))
    return results


def _gather(results: Sequence[FoldDecisions], assembled: Assembled) -> HeldOutDecisions:
    """Align the folds' decisions with the user's rows."""
    n, q = assembled.problem.n_rows, assembled.problem.targets.shape[1]
    is_flat = assembled.is_flat
    rows = [result.rows for result in results]

    def aligned(parts: Sequence[FloatArray]) -> FloatArray:
        total, times = np.zeros((n, q)), np.zeros((n, 1))
        for where, part in zip(rows, parts, strict=True):
            total[where] += part
            times[where] += 1
        mean = np.divide(total, times, out=np.full((n, q), np.nan), where=times > 0)
        return mean[:, 0] if is_flat else mean

    bounds = [result.error_bounds for result in results if result.error_bounds is not None]
    return HeldOutDecisions(
        predictions=aligned([result.decisions for result in results]),
        error_bounds=aligned(bounds) if bounds else None,
        n_solves=sum(result.n_solves for result in results),
        fold_rows=rows,
        fold_predictions=[
            result.decisions[:, 0] if is_flat else result.decisions for result in results
        ],
    )
