"""ManifoldSearchCV: a drop-in for GridSearchCV that shares factorisations between candidates."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV

from onefit._typing import FloatArray, Rows
from onefit.assembly import shared_distances
from onefit.criteria import CRITERIA
from onefit.criteria.common import Holdout
from onefit.crossval import split_rows
from onefit.folds import Fold, RepeatedSemiSupervisedKFold, SemiSupervisedKFold, check_folds
from onefit.graphs import find_neighbors
from onefit.kernels import median_squared_distance
from onefit.search.candidates import (
    KernelGroup,
    default_grid,
    group_candidates,
    list_candidates,
    paper_grid,
    split_pipeline,
)
from onefit.search.checkpoint import Checkpoint, fingerprint
from onefit.search.evaluate import CandidateResult, Geometry, Task, evaluate_group
from onefit.search.progress import progress_bar
from onefit.search.results import cv_results, select
from onefit.search.scoring import fold_scorer, named_scorers
from onefit.validation import check_choice

__all__ = ["ManifoldSearchCV"]


class ManifoldSearchCV(GridSearchCV):
    r"""Choose widths, penalties and neighbours by cross-validation, sharing all that can be shared.

    Used like :class:`sklearn.model_selection.GridSearchCV`. Candidates are grouped by what they
    have in common: distances and neighbours once for all, a kernel factor for each kernel, one
    reduction

    .. math:: B'LB = Q T Q'

    for each kernel and graph, one small eigen-decomposition for each ratio
    :math:`\gamma_I/\gamma_A`, and vectors for each penalty.

    Parameters
    ----------
    estimator : estimator of this package, or a Pipeline that ends in one
        What to tune. Steps before it are fitted to all rows once, without labels.
    param_grid : dict, list of dicts, "paper" or None, default=None
        Candidates, as in GridSearchCV. None builds a grid from the data; "paper" is the grid of
        Liu et al. with 13,365 candidates. With ``n_iter`` values may be distributions.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds, as in :func:`cross_val_decisions`. None: ten folds (or as many as there are labels),
        repeated five times where the closed form makes repeats nearly free.
    criterion : {"exact", "bif", "newton"}, default="exact"
        How held-out decisions are computed; see :func:`cross_val_decisions`.
    holdout : {"labels", "points"}, default="labels"
        What is held out.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in GridSearchCV.
    refit : bool, str or callable, default=True
        As in GridSearchCV: refit the chosen candidate on all data.
    n_iter : int, optional
        Draw that many candidates at random instead of trying all.
    selection : {"best", "one_standard_error"}, default="best"
        "best" takes the best mean score; ties go to the smaller held-out loss.
        "one_standard_error" takes the most regularised candidate within one standard error of it.
    n_jobs : int or None, default=None
        Parallel jobs over kernels and graphs, through joblib.
    verbose : int, default=0
        1 shows a progress bar on terminals.
    checkpoint : path-like, optional
        File that keeps finished groups; a search started again with it goes on where it was.
    memory_limit : float, optional
        Bytes that bases may take; half of the machine's memory when None. An exact basis that
        does not fit is replaced by the largest Nystrom basis that does, with a warning.
    criterion_params : dict, optional
        Options of the criterion.
    random_state : int, RandomState instance or None, default=None
        Seed of random candidates and of the default folds.

    Attributes
    ----------
    cv_results_ : dict of arrays
        The columns of GridSearchCV, and ``error_bound``.
    best_estimator_, best_params_, best_score_, best_index_
        The choice.
    certified_ : bool
        Whether the choice is known to be the one of exact cross-validation.
    n_groups_ : int
        How many kernel and graph pairs were factored.

    See Also
    --------
    cross_val_decisions : Held-out decisions of a single candidate.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from onefit import LapRLSClassifier, ManifoldSearchCV
    >>> from onefit.datasets import load_penguins, make_partially_labeled
    >>> X, truth = load_penguins(return_X_y=True)
    >>> y = make_partially_labeled(truth, n_labeled=15, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), LapRLSClassifier())
    >>> search = ManifoldSearchCV(pipeline, random_state=0).fit(X, y)
    >>> bool((search.predict(X) == truth).mean() > 0.95)
    True
    """

    # What GridSearchCV's own methods look up.
    error_score: ClassVar[str] = "raise"
    return_train_score: ClassVar[bool] = False
    pre_dispatch: ClassVar[str] = "2*n_jobs"

    def __init__(
        self,
        estimator: Any,
        param_grid: Any = None,
        *,
        cv: Any = None,
        criterion: str = "exact",
        holdout: Holdout = "labels",
        scoring: Any = None,
        refit: bool | str | Callable[..., int] = True,
        n_iter: int | None = None,
        selection: str = "best",
        n_jobs: int | None = None,
        verbose: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        memory_limit: float | None = None,
        criterion_params: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.criterion = criterion
        self.holdout = holdout
        self.scoring = scoring
        self.refit = refit
        self.n_iter = n_iter
        self.selection = selection
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.memory_limit = memory_limit
        self.criterion_params = criterion_params
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Evaluate all candidates, choose, and refit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (N, n_features)
            All rows.
        y : array-like of shape (N,) or (N, q)
            Targets, with unlabelled rows marked as the estimator reads them.
        sample_weight : array-like of shape (N,), optional
            Weights of the losses.

        Returns
        -------
        self
        """
        self._check_parameters()
        upstream, final, _ = split_pipeline(self.estimator)
        start = time.perf_counter()
        rows = _preprocessed(upstream, {}, final, X)
        targets, sample = final.read_labels(rows, y, sample_weight)
        candidates = self._candidates(final, rows)
        groups = group_candidates(self.estimator, candidates)
        groups = fit_to_memory(groups, rows.shape[0], self.memory_limit)
        folds = check_folds(
            split_rows(self._splitter(final, groups, targets), X, y, targets), targets.labelled
        )
        self.n_splits_ = len(folds)
        self.n_groups_ = sum(len(group.graphs) for group in groups)
        scorer = fold_scorer(self.estimator, self.scoring, labelled_model(final, targets), targets, X)
        task = Task(
            targets,
            sample,
            folds,
            self.criterion,
            self.holdout,
            dict(self.criterion_params or {}),
            scorer,
        )
        identity = self._identity(rows, targets, sample, folds, candidates)
        geometries = Geometries(upstream, final, X, groups)
        results = self._run(task, geometries, groups, identity)
        self._conclude(candidates, results, scorer)
        self.search_time_ = time.perf_counter() - start
        if self.refit is not False:
            self._refit(X, y, sample_weight)
        return self

    # The steps of fit, in order.

    def _check_parameters(self) -> None:
        check_choice("criterion", self.criterion, CRITERIA)
        check_choice("holdout", self.holdout, ("labels", "points"))
        check_choice("selection", self.selection, ("best", "one_standard_error"))
        if self.n_iter is not None:
            check_integer("n_iter", self.n_iter, minimum=1)
        if self.memory_limit is not None:
            check_number("memory_limit", self.memory_limit)

    def _candidates(self, final: ManifoldEstimator, rows: Rows) -> list[dict[str, Any]]:
        prefix = split_pipeline(self.estimator)[2]
        grid = self.param_grid
        if grid is None:
            grid = default_grid(final, median_squared_distance(rows))
            grid = {prefix + name: values for name, values in grid.items()}
        elif isinstance(grid, str):
            check_choice("param_grid", grid, ("paper",))
            grid = {prefix + name: values for name, values in paper_grid().items()}
        return list_candidates(grid, self.n_iter, self.random_state)

    def _splitter(
        self, final: ManifoldEstimator, groups: Sequence[KernelGroup], targets: Targets
    ) -> Any:
        if self.cv is not None:
            return self.cv
        t = min(10, int(targets.labelled.sum()))
        is_cheap = self.holdout == "labels" and final.make_loss().is_quadratic
        if is_cheap:
            return RepeatedSemiSupervisedKFold(t, n_repeats=5, random_state=self.random_state)
        return SemiSupervisedKFold(t, shuffle=True, random_state=self.random_state)

    def _identity(
        self,
        rows: Rows,
        targets: Targets,
        sample: FloatArray,
        folds: Sequence[Fold],
        candidates: Sequence[Mapping[str, Any]],
    ) -> str:
        """What a checkpoint must agree on: data, folds, candidates, and how they are scored."""
        if self.checkpoint is None:
            return ""
        return fingerprint(
            [
                rows,
                targets.labelled,
                targets.values,
                sample,
                [(fold.kept_rows, fold.test_rows) for fold in folds],
                list(candidates),
                [self.criterion, self.holdout, self.criterion_params or {}, repr(self.scoring)],
                repr(self.estimator),
            ]
        )

    def _run(
        self, task: Task, geometries: Geometries, groups: Sequence[KernelGroup], identity: str
    ) -> list[CandidateResult]:
        """Evaluate the groups that are not on disk yet, and gather all results by candidate."""
        store = None if self.checkpoint is None else Checkpoint(self.checkpoint, identity)
        finished = {} if store is None else store.finished()
        results: list[CandidateResult] = []
        n_jobs = effective_n_jobs(self.n_jobs)
        jobs = split_groups(groups, n_jobs)
        waiting = [job for job in jobs if any(key not in finished for key in job.keys())]
        total = sum(job.n_candidates for job in jobs)
        return results
