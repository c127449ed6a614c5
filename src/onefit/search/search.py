"""ManifoldSearchCV: a drop-in for GridSearchCV that shares factorisations between candidates."""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from onefit._typing import FloatArray, Rows
from onefit.assembly import check_distributed
from onefit.blocks import RowBlocks, gathered, open_blocks
from onefit.criteria.common import Holdout
from onefit.crossval import check_criterion_params, split_rows
from onefit.estimators import ManifoldEstimator
from onefit.folds import RepeatedSemiSupervisedKFold, check_folds
from onefit.search.candidates import (
    KernelGroup,
    default_grid,
    finer_candidates,
    fresh,
    group_candidates,
    keyed_graphs,
    list_candidates,
    paper_grid,
    split_jobs,
    split_pipeline,
)
from onefit.search.checkpoint import Checkpoint, fingerprint
from onefit.search.consensus import central, decisions_of_group
from onefit.search.evaluate import evaluate_group
from onefit.search.geometry import preprocess
from onefit.search.jobs import work_through
from onefit.search.memory import fit_to_memory, memory_plan
from onefit.search.parameters import check_search
from onefit.search.progress import progress_bar, say
from onefit.search.results import (
    choose,
    chosen_by,
    cv_results,
    evaluated_params,
    near_best,
    rule_of,
    score_to_choose_by,
)
from onefit.search.routing import Routed, route
from onefit.search.scoring import fold_scorer, named_scorers
from onefit.search.task import CandidateResult, Task, default_repeats, restored
from onefit.targets import Targets
from onefit.validation import check_choice

__all__ = ["ManifoldSearchCV"]

#: From a table of results and candidates in it to their decisions on unlabelled rows.
Decide: TypeAlias = Callable[[Mapping[str, Any], Sequence[int]], FloatArray]


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
        Liu et al. with 13,365 candidates. With ``n_iter`` values may be distributions. Steps of a
        pipeline can be candidates, too: ``{"lap": [LapSVC(), LapRLSClassifier()]}``.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds, as in :func:`cross_val_decisions`. None: ten folds (or as many as there are labels),
        with labels held out repeated three times, five times where the closed form makes repeats
        nearly free.
    criterion : {"exact", "bif", "newton", "certified"}, default="exact"
        How held-out decisions are computed; see :func:`cross_val_decisions`. "certified" takes one
        Newton step with the bound (8), and solves exactly only for candidates that may still be
        the best of their kernel and graph: with ``selection="best"`` the choice is that of
        "exact".
    holdout : {"labels", "points"}, default="labels"
        What is held out.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in GridSearchCV. None: accuracy for classes; for real targets the share of the variance
        of all labels that is explained, which unlike "r2" makes sense on folds of a few labels.
        A score cannot be called "loss", which has a column already.
    refit : bool, str or callable, default=True
        As in GridSearchCV: refit the chosen candidate on all data. With several scores, the name
        of the one to choose by.
    n_iter : int, optional
        Draw that many candidates at random instead of trying all.
    selection : {"auto", "best", "one_standard_error", "consensus", "margin"}, default="auto"
        "best" takes the best mean score; ties go to the smaller held-out loss.
        "one_standard_error" takes the most regularised candidate within one standard error of it.
        "consensus" takes, of the 30 best within one standard error, the one whose decisions on
        the unlabelled rows (at most 1,000, evenly spaced; all rows where none is unlabelled) are
        nearest to the median of theirs; those of classifiers count up to 1. "margin", for
        classes, takes the one of them with the largest held-out margin :math:`y f` for its scale,
        :math:`\sum_i y_i f_i / \sqrt{l \sum_i f_i^2}`. "auto" is "consensus" for real targets,
        "margin" for classes with the accuracy and ``criterion="exact"`` or "newton", and else
        "best".
    refine : int, default=0
        Rounds of refinement after the grid: each tries the two penalties of the best candidate in
        steps four times finer, within its basis.
    n_jobs : int or None, default=None
        Parallel jobs over kernels and graphs, through joblib.
    verbose : int, default=0
        1 shows a progress bar on terminals, and says beforehand what the bases will take, and
        afterwards what ``n_components="auto"`` has found.
    checkpoint : path-like, optional
        File that keeps finished groups; a search started again with it goes on where it was. One
        with other data or settings is refused; a change in what your own functions call, or read
        from global variables, is not noticed.
    memory_limit : float, optional
        Bytes that bases may take; half of the machine's memory when None. An exact basis that
        does not fit is replaced by the largest Nystrom basis that does, with a warning. Nystrom
        features that do not fit are computed in blocks of rows; ``verbose`` says so beforehand.
        The estimator's own limit counts where this one is None.
    criterion_params : dict, optional
        Options of the criterion.
    random_state : int, RandomState instance or None, default=None
        Seed of random candidates and of the default folds.

    Attributes
    ----------
    cv_results_ : dict of arrays
        The columns of GridSearchCV; ``error_bound``, a bound on the error of the mean score (0
        where it is exact); ``mean_test_loss``, the held-out loss that breaks ties; ``margin``
        for classes, the mean held-out margin over its root mean square; and ``n_components``,
        landmarks of the basis (masked where it is exact).
    best_estimator_, best_params_, best_score_, best_index_
        The choice.
    certified_ : bool
        Whether the choice is known to be the one of exact cross-validation.
    n_groups_ : int
        How many kernel and graph pairs were factored.
    n_splits_ : int
        Number of folds, over all repeats.
    search_time_, refit_time_ : float
        Seconds.

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
        selection: str = "auto",
        refine: int = 0,
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
        self.refine = refine
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.memory_limit = memory_limit
        self.criterion_params = criterion_params
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Evaluate all candidates, choose, and refit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (N, n_features), or dask collection
            All rows. A dask array or data frame needs ``n_components`` and ``graph="anchor"``; the
            work then goes by blocks of rows, and ``n_jobs`` is not used.
        y : array-like of shape (N,) or (N, q)
            Targets, with unlabelled rows marked as the estimator reads them.
        sample_weight : array-like of shape (N,), optional
            Weights of the losses.
        **params
            ``groups`` for the splitter, or the name of a pipeline's last step with
            ``__sample_weight``. With metadata routing enabled, what estimator, splitter and
            scorers have requested.

        Returns
        -------
        self
        """
        check_search(self)
        start = time.perf_counter()
        X, y, sample_weight = open_blocks(X), gathered(y), gathered(sample_weight)
        upstream, final, prefix = split_pipeline(self.estimator)
        routed = route(self, prefix, {"sample_weight": sample_weight, **params})
        rows = preprocess(upstream, {}, final, X)
        targets, sample = final._read_labels(rows, y, routed.sample_weight)
        candidates = self._candidates(final, prefix, rows)
        task = self._task(final, targets, sample, X, y, routed)
        store = None
        if self.checkpoint is not None:
            store = Checkpoint(self.checkpoint, self._identity(rows, task, candidates))
        self.n_groups_ = 0
        overhead = (time.perf_counter() - start) / len(candidates)
        results = self._run(task, candidates, 0, upstream, X, store, overhead)
        decide = partial(self._decisions, task, upstream, X)
        for level in range(1, self.refine + 1):
            best = candidates[self._choose(cv_results(candidates, results), decide)]
            fresh = finer_candidates(best, prefix, 0.25**level)
            results += self._run(task, fresh, len(candidates), upstream, X, store)
            candidates += fresh
        self.n_splits_ = len(task.folds)
        if self.verbose and any(result.n_components for result in results):
            used = sorted({result.n_components for result in results if result.n_components})
            say([f"n_components used: {', '.join(map(str, used))}"])
        self._conclude(candidates, results, decide)
        self.search_time_ = time.perf_counter() - start
        if self.refit:
            self._refit(X, y, routed.fit)
        return self

    # The steps of fit, in order.

    def _criterion_params(self) -> dict[str, Any]:
        name = "newton" if self.criterion == "certified" else self.criterion
        return check_criterion_params(name, self.criterion_params)

    def _candidates(
        self, final: ManifoldEstimator, prefix: str, rows: Rows
    ) -> list[dict[str, Any]]:
        grid = self.param_grid
        if grid is None or isinstance(grid, str):
            if grid is not None:
                check_choice("param_grid", grid, ("paper",))
            named = default_grid(final, rows) if grid is None else [paper_grid()]
            grid = [{prefix + name: values for name, values in one.items()} for one in named]
        return list_candidates(grid, self.n_iter, self.random_state)

    def _splitter(self, final: ManifoldEstimator, targets: Targets) -> Any:
        if self.cv is not None:
            return self.cv
        t = min(10, int(targets.labelled.sum()))
        n_repeats = default_repeats(final._make_loss(), self.holdout)
        return RepeatedSemiSupervisedKFold(t, n_repeats=n_repeats, random_state=self.random_state)

    def _identity(self, rows: Rows, task: Task, candidates: Sequence[Mapping[str, Any]]) -> str:
        """What a checkpoint must agree on: data, folds, candidates, and how they are scored."""
        return fingerprint(
            [
                rows,
                task.targets.labelled,
                task.targets.values,
                task.sample,
                [(fold.kept, fold.test) for fold in task.folds],
                list(candidates),
                [task.criterion, task.holdout, task.criterion_params, self.memory_limit],
                self.scoring,
                self.estimator.get_params(),
            ]
        )

    def _task(
        self,
        final: ManifoldEstimator,
        targets: Targets,
        sample: FloatArray,
        X: Any,
        y: Any,
        routed: Routed,
    ) -> Task:
        """Folds, criterion and scores."""
        splits = split_rows(self._splitter(final, targets), X, y, targets, **routed.split)
        model = clone(final)
        model._read_shape(targets)
        return Task(
            targets,
            sample,
            check_folds(splits, targets.labelled),
            self.criterion,
            self.holdout,
            self._criterion_params(),
            fold_scorer(self.estimator, self.scoring, model, targets, X, routed.score),
        )

    def _run(
        self,
        task: Task,
        candidates: Sequence[Mapping[str, Any]],
        first_index: int,
        upstream: Pipeline | None,
        X: Any,
        store: Checkpoint | None,
        overhead: float = 0.0,
    ) -> list[CandidateResult]:
        """Evaluate what is not on disk yet; results of these candidates in order."""
        groups, n_jobs = self._groups(candidates, first_index, task, X)
        n_rows = task.targets.labelled.size
        if self.verbose and first_index == 0:
            say(memory_plan(groups, n_rows, on_workers=isinstance(X, RowBlocks)))
        self.n_groups_ += sum(len(group.graphs) for group in groups)
        stored = {} if store is None else store.finished()
        # Refinement starts from the choice, which is no part of a checkpoint's identity.
        label = f"{first_index}-{fingerprint([candidates])[:16]}:" if store is not None else ""
        done = restored(stored, ChainMap(*keyed_graphs(label, groups)), len(task.folds))
        results = [result for part in done.values() for result in part]
        jobs = split_jobs(groups, done, label, n_jobs)
        with (
            progress_bar("candidates", len(candidates), enabled=self.verbose > 0) as bar,
            closing(work_through(evaluate_group, task, jobs, upstream, X, n_jobs)) as done_now,
        ):
            bar.advance(len(results))
            for keys, (parts, said), share in done_now:
                if self.verbose:
                    say(said)
                for key, part in zip(keys, parts, strict=True):
                    for result in part:
                        result.fit_seconds += overhead + share
                    if store is not None:
                        store.add(key, [vars(result) for result in part])
                    results += part
                    bar.advance(len(part))
        return sorted(results, key=lambda result: result.index)

    def _groups(
        self, candidates: Sequence[Mapping[str, Any]], first_index: int, task: Task, X: Any
    ) -> tuple[list[KernelGroup], int]:
        """Candidates by what they share, within the memory that there is, and how many jobs."""
        groups = group_candidates(self.estimator, candidates, first_index)
        is_distributed = isinstance(X, RowBlocks)
        if is_distributed:
            for group in groups:
                for graph in group.graphs:
                    check_distributed(group.settings, graph.settings)
        # The blocks of a dask collection are worked on in parallel already.
        n_jobs = 1 if is_distributed else effective_n_jobs(self.n_jobs)
        own = split_pipeline(self.estimator)[1].memory_limit
        limit = own if self.memory_limit is None else self.memory_limit
        return fit_to_memory(groups, task.targets.labelled.size, limit, n_jobs), n_jobs

    def _decisions(
        self,
        task: Task,
        upstream: Pipeline | None,
        X: Any,
        columns: Mapping[str, Any],
        indices: Sequence[int],
    ) -> FloatArray:
        """Decisions of some candidates on unlabelled rows, (n, m, q).

        Those of classes count up to 1, real ones in units of the spread of each output's labels.
        """
        _, final, prefix = split_pipeline(self.estimator)
        candidates = [evaluated_params(columns, index, prefix) for index in indices]
        groups, n_jobs = self._groups(candidates, 0, task, X)
        jobs = split_jobs(groups, (), "", n_jobs)
        with closing(work_through(decisions_of_group, task, jobs, upstream, X, n_jobs)) as done:
            known = ChainMap(*(part for _, part, _ in done))
        decisions = np.stack([known[place] for place in range(len(indices))])
        if is_classifier(final):
            return np.clip(decisions, -1.0, 1.0)
        spread = task.targets.values.std(axis=0)
        return decisions / np.where(spread > 0.0, spread, 1.0)

    def _conclude(
        self,
        candidates: Sequence[Mapping[str, Any]],
        results: Sequence[CandidateResult],
        decide: Decide,
    ) -> None:
        """Tables, the choice, and whether it is certain."""
        self.multimetric_ = set(results[0].scores) != {"score"}
        self.scorer_ = named_scorers(self.estimator, self.scoring)
        if not self.multimetric_:
            self.scorer_ = self.scorer_["score"]
        self.cv_results_ = cv_results(candidates, results)
        if self.multimetric_ and not self.refit:
            return
        self.best_index_ = self._choose(self.cv_results_, decide)
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.certified_ = self._is_certain()
        if not callable(self.refit):
            name = self.refit if self.multimetric_ else "score"
            self.best_score_ = self.cv_results_[f"mean_test_{name}"][self.best_index_]

    def _choose(self, columns: Mapping[str, Any], decide: Decide) -> int:
        """Index of the best candidate in a table of results."""
        if callable(self.refit):
            return chosen_by(self.refit, columns)
        name, rule = score_to_choose_by(columns, self.refit), rule_of(self)
        if rule != "consensus":
            return choose(columns, name, rule)
        near = near_best(columns, name)
        return near[0] if len(near) == 1 else near[central(decide(columns, near))]

    def _is_certain(self) -> bool:
        """Whether no error within the bounds could have led to another choice."""
        bounds = self.cv_results_["error_bound"]
        if np.all(bounds == 0.0):
            return True
        if self.multimetric_ or callable(self.refit) or rule_of(self) != "best":
            return False
        highest = self.cv_results_["mean_test_score"] + bounds
        beaten = highest < self.cv_results_["mean_test_score"][self.best_index_]
        return bool(bounds[self.best_index_] == 0.0 and np.all(beaten | (bounds == 0.0)))

    def _refit(self, X: Any, y: Any, fit_params: Mapping[str, Any]) -> None:
        start = time.perf_counter()
        prefix = split_pipeline(self.estimator)[2]
        evaluated = evaluated_params(self.cv_results_, self.best_index_, prefix)
        self.best_estimator_ = clone(self.estimator).set_params(**fresh(evaluated))
        if self.memory_limit is not None:
            split_pipeline(self.best_estimator_)[1].set_params(memory_limit=self.memory_limit)
        self.best_estimator_.fit(X, y, **fit_params)
        self.refit_time_ = time.perf_counter() - start
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
