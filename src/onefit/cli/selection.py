"""Select a model for prepared data: estimator, grid, folds, search, baselines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer_names
from sklearn.pipeline import Pipeline

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    RepeatedSemiSupervisedKFold,
)
from onefit.cli.trust import (
    Baseline,
    Splits,
    Trust,
    assess,
    dummy_baseline,
    supervised_baseline,
)
from onefit.criteria.common import Holdout
from onefit.memory import exact_bytes
from onefit.preparation import Prepared, feature_pipeline
from onefit.search.candidates import paper_grid
from onefit.search.task import default_repeats

__all__ = ["Selection", "Settings", "select"]

_CLASSIFIERS = {
    "laprls": LapRLSClassifier,
    "lapsvc": LapSVC,
    "laplogistic": LapLogisticRegression,
}
#: Rows up to which exact bases are worth their time, and landmarks beyond.
_EXACT_ROWS = 3000
_LANDMARKS = 500
_GRAPH_PARAMETERS = ("n_neighbors", "graph_width", "graph_weights", "laplacian", "laplacian_power")
_PREFIX = "model__"
_LONGEST_GRID = 10**6
_MOST_CANDIDATES = 10**6


@dataclass(frozen=True)
class Settings:
    """Options of a selection; see ``onefit select --help``."""

    model: str = "laprls"
    grid: str = "default"
    folds: int | None = None
    repeats: int | None = None
    criterion: str = "exact"
    holdout: Holdout = "labels"
    scoring: str | None = None
    seed: int = 0
    jobs: int | None = None
    components: int | str = "auto"
    memory_limit: float | None = None
    checkpoint: str | None = None
    verbose: int = 0


_OF_TARGETS = frozenset(
    name
    for name in get_scorer_names()
    if name in {"r2", "explained_variance", "d2_absolute_error_score"}
    or name.startswith(("neg_mean_", "neg_median_", "neg_root_", "neg_max_"))
)
_OF_ONE_CLASS = frozenset({"average_precision", "f1", "jaccard", "precision", "recall"})
_CLUSTERING = frozenset(
    {
        "adjusted_mutual_info_score",
        "adjusted_rand_score",
        "completeness_score",
        "fowlkes_mallows_score",
        "homogeneity_score",
        "mutual_info_score",
        "normalized_mutual_info_score",
        "rand_score",
        "v_measure_score",
    }
)


@dataclass(frozen=True)
class Selection:
    """A search that is done, and what is to be said about it."""

    prepared: Prepared
    search: ManifoldSearchCV
    scoring: str
    baselines: list[Baseline]
    trust: Trust
    notes: list[str]

    @property
    def best_params(self) -> dict[str, Any]:
        """Chosen parameters without the name of the pipeline's step."""
        return {k.removeprefix(_PREFIX): v for k, v in self.search.best_params_.items()}

    @property
    def std(self) -> float:
        """Standard deviation of the best score over folds."""
        return float(self.search.cv_results_["std_test_score"][self.search.best_index_])


def select(prepared: Prepared, settings: Settings) -> Selection:
    """Search, and compare with the baselines on the same folds."""
    scoring = _scoring(prepared, settings)
    n_labels = int(prepared.labelled.sum())
    n_folds = _fold_count(n_labels, settings)
    components, note = _components(len(prepared.y), settings)
    estimator = _estimator(prepared, settings, components)
    n_repeats = settings.repeats
    if n_repeats is None:
        n_repeats = default_repeats(estimator[-1]._make_loss(), settings.holdout)
    cv = RepeatedSemiSupervisedKFold(
        n_folds, n_repeats=n_repeats, random_state=settings.seed, task=_task(prepared)
    )
    splits = list(cv.split(prepared.X, prepared.y))
    grid = _grid(settings.grid, estimator)
    if isinstance(grid, list) and any(f"{_PREFIX}n_components" in one for one in grid):
        note = "basis: n_components of the grid"
    search = _search(estimator, grid, splits, settings, scoring)
    search.fit(prepared.X, prepared.y)
    supervised = supervised_baseline(search)
    if supervised is None:
        supervised = _supervised_search(prepared, estimator, grid, splits, settings, scoring)
    dummy = dummy_baseline(prepared, splits, search.scorer_)
    trust = assess(search, n_labels, n_repeats, scoring)
    folds = f"{n_folds} folds, {n_repeats} times" if n_repeats > 1 else f"{n_folds} folds"
    notes = [*prepared.notes, f"cross-validation: {folds}, seed {settings.seed}", note]
    return Selection(prepared, search, scoring, [dummy, supervised], trust, notes)


def _task(prepared: Prepared) -> Any:
    return prepared.task


def _scoring(prepared: Prepared, settings: Settings) -> str:
    wanted, is_regression = settings.scoring, prepared.task == "regression"
    if wanted is None:
        return "neg_mean_squared_error" if is_regression else "accuracy"
    advice = ""
    if wanted not in get_scorer_names() or wanted in _CLUSTERING:
        advice = "is no scorer of predictions that scikit-learn has"
    elif is_regression != (wanted in _OF_TARGETS):
        advice = f"does not score a {prepared.task}"
    elif wanted in _OF_ONE_CLASS and not is_regression:
        advice = f"asks which class is the positive one; use {wanted}_macro or balanced_accuracy"
    elif wanted == "roc_auc" and np.unique(prepared.y[prepared.labelled].astype(str)).size > 2:
        advice = "is for two classes; use roc_auc_ovr"
    if advice:
        known = "r2, neg_mean_absolute_error" if is_regression else "accuracy, f1_macro"
        raise ValueError(f"--scoring {wanted} {advice}. For this target: {known}, and others.")
    return wanted


def _fold_count(n_labels: int, settings: Settings) -> int:
    if n_labels < 3:
        raise ValueError(f"there are {n_labels} labels; cross-validation needs at least 3.")
    n_folds = settings.folds or min(10, n_labels)
    if n_folds > n_labels:
        raise ValueError(f"--folds {n_folds} is more than the {n_labels} labels; use fewer.")
    return n_folds


def _components(n_rows: int, settings: Settings) -> tuple[int | None, str]:
    """Landmarks of the Nystrom approximation, None for exact, and a note on it."""
    if settings.components == "exact":
        return None, "basis: exact, as told"
    if isinstance(settings.components, int):
        n = min(settings.components, n_rows)
        return n, f"basis: Nystrom with {n} landmarks, as told"
    limit = settings.memory_limit
    fits = limit is None or exact_bytes(n_rows) <= limit / max(1, settings.jobs or 1)
    if n_rows <= _EXACT_ROWS and fits:
        return None, "basis: exact"
    n = min(_LANDMARKS, n_rows)
    why = f"{n_rows:,} rows are more than {_EXACT_ROWS:,}" if fits else "by --memory-limit"
    return n, f"basis: Nystrom with {n} landmarks ({why}; --components decides)"


def _estimator(prepared: Prepared, settings: Settings, components: int | None) -> Pipeline:
    common: dict[str, Any] = {"n_components": components, "random_state": settings.seed}
    if prepared.task == "classification":
        final = _CLASSIFIERS[settings.model](**common)
    elif settings.model == "laprls":
        final = LapRLSRegressor(fit_intercept=True, **common)
    else:
        raise ValueError(
            f"--model {settings.model} is for classes, but the task is regression; use laprls, or "
            "--task classification."
        )
    return Pipeline([("prepare", feature_pipeline(prepared.kinds)), ("model", final)])


def _search(
    estimator: Pipeline, grid: Any, splits: Splits, settings: Settings, scoring: str
) -> ManifoldSearchCV:
    return ManifoldSearchCV(
        estimator,
        grid,
        cv=splits,
        criterion=settings.criterion,
        holdout=settings.holdout,
        scoring=scoring,
        n_jobs=settings.jobs,
        verbose=settings.verbose,
        checkpoint=settings.checkpoint,
        memory_limit=settings.memory_limit,
        random_state=settings.seed,
    )


def _supervised_search(
    prepared: Prepared,
    estimator: Pipeline,
    grid: Any,
    splits: Splits,
    settings: Settings,
    scoring: str,
) -> Baseline:
    """The baseline for a grid that has no candidate without manifold penalty."""
    search = _search(estimator, _without_manifold(grid), splits, settings, scoring)
    search.set_params(checkpoint=None, verbose=0, selection="best", refit=False)
    search.fit(prepared.X, prepared.y)
    baseline = supervised_baseline(search)
    assert baseline is not None  # noqa: S101
    return baseline


# Grids.


def _grid(name: str, estimator: Pipeline) -> Any:
    """A grid for the search: None, or parameters of the pipeline with their values."""
    if name == "default":
        return None
    grid = [paper_grid()] if name == "paper" else _read_grid(name)
    known = set(estimator[-1].get_params())
    for one in grid:
        unknown = [key for key in one if key not in known]
        if unknown:
            raise ValueError(
                f"the grid names {unknown[0]!r}, which is no parameter of "
                f"{type(estimator[-1]).__name__}; it has {', '.join(sorted(known))}."
            )
        if "precomputed" in one.get("kernel", ()):
            raise ValueError("the grid names kernel 'precomputed', but DATA is a table of columns.")
    n_candidates = sum(math.prod(map(len, one.values())) for one in grid)
    if n_candidates > _MOST_CANDIDATES:
        raise ValueError(
            f"the grid has {n_candidates:,} candidates; expected at most {_MOST_CANDIDATES:,}."
        )
    return [{f"{_PREFIX}{key}": values for key, values in one.items()} for one in grid]


def _read_grid(path: str) -> list[dict[str, list[Any]]]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            content = json.loads(file.read(_LONGEST_GRID))
    except OSError as error:
        raise ValueError(
            f"--grid {path}: cannot be read ({error.strerror}); expected default, paper, or a "
            "JSON file."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"--grid {path}: is no JSON ({error}); expected parameters with lists of values."
        ) from error
    grids = content if isinstance(content, list) else [content]
    if not grids or not all(isinstance(one, dict) and one for one in grids):
        raise ValueError(
            f"--grid {path}: expected an object of parameters with lists of values, or a list of "
            "such objects."
        )
    return [{key: _values(path, key, values) for key, values in one.items()} for one in grids]


def _values(path: str, key: str, values: Any) -> list[Any]:
    values = values if isinstance(values, list) else [values]
    if not values or any(isinstance(value, list | dict) for value in values):
        raise ValueError(f"--grid {path}: {key!r} needs a list of numbers or words.")
    return values


def _without_manifold(grid: list[Mapping[str, list[Any]]]) -> list[dict[str, list[Any]]]:
    """The same grid with the manifold penalty 0, and no graphs to choose from."""
    graph = {f"{_PREFIX}{name}" for name in _GRAPH_PARAMETERS}
    return [
        {
            **{key: values for key, values in one.items() if key not in graph},
            f"{_PREFIX}manifold_penalty": [0.0],
        }
        for one in grid
    ]
