"""Candidates: grids, distributions, and how they group by what they share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline

from onefit._typing import Rows
from onefit.assembly import GraphSettings, KernelSettings
from onefit.estimators import ManifoldEstimator
from onefit.kernels import median_squared_distance
from onefit.validation import shown

__all__ = [
    "Candidate",
    "GraphGroup",
    "Job",
    "KernelGroup",
    "default_grid",
    "finer_candidates",
    "fresh",
    "group_candidates",
    "keyed_graphs",
    "list_candidates",
    "paper_grid",
    "params_key",
    "split_jobs",
    "split_pipeline",
]


def paper_grid() -> dict[str, list[Any]]:
    """The 13,365 candidates of the paper's experiments."""
    return {
        "kernel_width": [2.0**i for i in range(-10, 11, 2)],
        "n_neighbors": [2, 4, 8],
        "graph_width": [2.0**i for i in range(-4, 5, 2)],
        "ambient_penalty": [10.0**i for i in range(-6, 3)],
        "manifold_penalty": [10.0**i for i in range(-6, 3)],
    }


def default_grid(estimator: ManifoldEstimator, X: Rows) -> list[dict[str, list[Any]]]:
    """Grids that suit most data: widths around the median heuristic, wide penalties, two graphs.

    The manifold penalty starts at 0, so that a search can decide against the unlabelled rows. The
    normalised Laplacian has edges of weight 1: weights that decay with the distance would leave
    outlying rows out of the graph. For real targets, of whose error such rows have a large share,
    the other weights decay slowly. Nearly linear targets need kernels of 4^4 times
    the median and the smallest ambient penalties; for a sign larger ones do. Kernels far narrower
    than the median predict rows of the graph well and new ones near 0, which scores with labels
    held out do not see; classes that are islands need them.
    """
    smallest, narrowest = (-6, -3) if is_classifier(estimator) else (-8, -1)
    shared: dict[str, list[Any]] = {
        "n_neighbors": [min(8, X.shape[0] - 1)],
        "ambient_penalty": [10.0**i for i in range(smallest, 1)],
        "manifold_penalty": [0.0, *(10.0**i for i in range(-2, 6))],
    }
    if estimator.kernel == "gaussian":
        median = median_squared_distance(X)
        shared = {"kernel_width": [median * 4.0**i for i in range(narrowest, 5)], **shared}
    slow = {} if is_classifier(estimator) else {"graph_width": ["wide"]}
    if is_classifier(estimator):
        shared["class_weight"] = [None, "balanced"]
    return [
        {"laplacian": ["unnormalized"], "graph_weights": ["heat"], **slow, **shared},
        {"laplacian": ["normalized"], "graph_weights": ["binary"], **shared},
    ]


def list_candidates(
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]], n_iter: int | None, random_state: Any
) -> list[dict[str, Any]]:
    """All candidates of a grid, or ``n_iter`` drawn from it when it holds distributions."""
    grids = _checked_grids(grid)
    is_random = any(hasattr(values, "rvs") for one in grids for values in one.values())
    if n_iter is None and is_random:
        raise ValueError(
            "param_grid holds a distribution but n_iter is None; expected n_iter, the number of "
            "candidates to draw."
        )
    if n_iter is not None:
        return list(ParameterSampler(grids, n_iter, random_state=random_state))
    return list(ParameterGrid(grids))


def _checked_grids(grid: Any) -> list[Mapping[str, Any]]:
    """A grid, or several, as a list."""
    expected = "expected a dict of parameter names and their values, or a list of such dicts."
    if not isinstance(grid, Iterable):
        raise TypeError(f"param_grid={grid!r} is of type {type(grid).__name__}; {expected}")
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    if not grids:
        raise ValueError(f"param_grid={grid!r} holds no candidates; {expected}")
    for one in grids:
        if not isinstance(one, Mapping) or not all(isinstance(name, str) for name in one):
            raise TypeError(f"param_grid holds {one!r:.100}; {expected}")
    return grids


def fresh(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a candidate whose estimators can be fitted: those of the grid stay as they are.

    Matrices are not copied, as ``clone`` would.
    """
    return {
        name: clone(value) if isinstance(value, BaseEstimator) else value
        for name, value in params.items()
    }


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, ManifoldEstimator, str]:
    """Preprocessing, final estimator, and the prefix of the final estimator's parameters."""
    if isinstance(estimator, Pipeline):
        name, final = estimator.steps[-1]
        upstream = estimator[:-1] if len(estimator.steps) > 1 else None
        prefix = f"{name}__"
    else:
        upstream, final, prefix = None, estimator, ""
    if not isinstance(final, ManifoldEstimator):
        raise TypeError(
            f"estimator is a {type(final).__name__}; expected LapRLSRegressor, LapRLSClassifier, "
            "LapSVC or LapLogisticRegression, or a Pipeline that ends in one of them."
        )
    return upstream, final, prefix


@dataclass(frozen=True)
class Candidate:
    """One candidate: its place in the search, its final estimator, and how a user knows it."""

    index: int
    model: ManifoldEstimator
    params: Mapping[str, Any] = field(default_factory=dict)

    def named(self, error: Exception) -> Exception:
        """The same error with the candidate in it."""
        return naming_candidate(error, self.params)


def naming_candidate(error: Exception, params: Mapping[str, Any]) -> Exception:
    """The error with the parameters of the candidate that has led to it, in one line."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    named = ", ".join(f"{name}={shown(value)}" for name, value in params.items())
    return kind(f"{error} Candidate: {named}.")


@dataclass(frozen=True)
class GraphGroup:
    """Candidates that share kernel and graph, and so a basis."""

    settings: GraphSettings
    candidates: tuple[Candidate, ...]

    @property
    def indices(self) -> list[int]:
        """Places of the candidates in the search."""
        return [candidate.index for candidate in self.candidates]


@dataclass(frozen=True)
class KernelGroup:
    """Candidates that share preprocessing and kernel, and so a kernel factor."""

    upstream_params: Mapping[str, Any]
    settings: KernelSettings
    seed: Any
    graphs: tuple[GraphGroup, ...]

    @property
    def n_candidates(self) -> int:
        """Candidates in all graphs."""
        return sum(len(graph.candidates) for graph in self.graphs)


@dataclass(frozen=True)
class Job:
    """A piece of work for one process: some graphs of one kernel, each with its key."""

    keys: tuple[str, ...]
    group: KernelGroup

    @property
    def model(self) -> ManifoldEstimator:
        """One of the models, for what all have in common."""
        return self.group.graphs[0].candidates[0].model


def keyed_graphs(label: str, groups: Sequence[KernelGroup]) -> list[dict[str, GraphGroup]]:
    """Graphs of every kernel by the keys under which a checkpoint knows them."""
    return [
        {f"{label}{i}.{j}": graph for j, graph in enumerate(group.graphs)}
        for i, group in enumerate(groups)
    ]


def split_jobs(
    groups: Sequence[KernelGroup], finished: Collection[str], label: str, n_jobs: int
) -> list[Job]:
    """Jobs for what is not finished.

    A process that has several graphs of a kernel factors the kernel once; several processes work
    on graphs of the same kernel only when there are fewer kernels than processes.

    Parameters
    ----------
    groups : sequence of KernelGroup
        All work.
    finished : collection of str
        Keys of kernel and graph pairs that are done.
    label : str
        Beginning of the keys.
    n_jobs : int
        Number of processes.
    """
    jobs = []
    for group, graphs_of in zip(groups, keyed_graphs(label, groups), strict=True):
        waiting = [pair for pair in graphs_of.items() if pair[0] not in finished]
        pieces = min(len(waiting), -(-n_jobs // len(groups)))
        for j in range(pieces):
            keys, graphs = zip(*waiting[j::pieces], strict=True)
            jobs.append(Job(keys, replace(group, graphs=graphs)))
    return jobs


def finer_candidates(params: Mapping[str, Any], prefix: str, step: float) -> list[dict[str, Any]]:
    """Candidates around one, its two penalties varied by up to a factor of 10^(4 step).

    Parameters
    ----------
    params : mapping
        The candidate.
    prefix : str
        Prefix of the final estimator's parameters.
    step : float
        Distance of neighbours in powers of ten.
    """
    factors = [10.0 ** (step * i) for i in range(-4, 5)]
    grid = {name: [value] for name, value in params.items()}
    for penalty in ("ambient_penalty", "manifold_penalty"):
        value = params.get(prefix + penalty)
        if value:
            grid[prefix + penalty] = [value * factor for factor in factors]
    return [one for one in ParameterGrid(grid) if one != dict(params)]


def group_candidates(
    estimator: Any, candidates: Iterable[Mapping[str, Any]], first_index: int = 0
) -> list[KernelGroup]:
    """Group candidates by preprocessing, kernel and graph, in the order of first appearance."""
    _, final, prefix = split_pipeline(estimator)
    step = prefix.removesuffix("__")
    unchanged: dict[int, dict[str, Any]] = {}
    tree: dict[Any, dict[Any, list[Candidate]]] = {}
    shared: dict[Any, tuple[dict[str, Any], KernelSettings, Any]] = {}
    graphs: dict[Any, GraphSettings] = {}
    for index, params in enumerate(candidates, start=first_index):
        base = _checked_step(step, params[step], final) if step in params else final
        own = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
        before = {k: v for k, v in params.items() if k != step and not k.startswith(prefix)}
        if id(base) not in unchanged:
            unchanged[id(base)] = base.get_params(deep=False)
        try:
            model = _varied(base, unchanged[id(base)], own)
            kernel, graph = model._checked_settings()
        except (TypeError, ValueError) as error:
            if not any(name in str(error) for name in own):
                raise  # it is not about what candidates vary
            raise naming_candidate(error, params) from error
        kernel_key = (
            params_key(before),
            params_key(vars(kernel)),
            params_key({"seed": model.random_state}),
        )
        graph_key = params_key(vars(graph))
        shared.setdefault(kernel_key, (before, kernel, model.random_state))
        graphs.setdefault(graph_key, graph)
        tree.setdefault(kernel_key, {}).setdefault(graph_key, []).append(
            Candidate(index, model, params)
        )
    return [
        KernelGroup(
            *shared[kernel_key],
            tuple(GraphGroup(graphs[key], tuple(members)) for key, members in groups.items()),
        )
        for kernel_key, groups in tree.items()
    ]


def _checked_step(step: str, value: Any, final: ManifoldEstimator) -> ManifoldEstimator:
    """A final estimator that a candidate brings itself."""
    if isinstance(value, ManifoldEstimator) and is_classifier(value) == is_classifier(final):
        return value
    kind = "classifier" if is_classifier(final) else "regressor"
    raise TypeError(
        f"param_grid has {step}={shown(value)}; expected a {kind} of this package, as the "
        f"{type(final).__name__} in its place is."
    )


def _varied(
    final: ManifoldEstimator, unchanged: Mapping[str, Any], params: Mapping[str, Any]
) -> ManifoldEstimator:
    """The estimator with other parameters; unlike ``clone`` it shares matrices among them.

    ``unchanged`` are its own, asked for once: scikit-learn reads them from the signature.
    """
    if params.keys() <= unchanged.keys():
        return type(final)(**{**unchanged, **params})
    model: ManifoldEstimator = type(final)(**unchanged)
    return model.set_params(**params)  # which says what is wrong


def params_key(params: Mapping[str, Any]) -> tuple[Any, ...]:
    """Hashable form of parameters; what cannot be hashed counts by identity."""
    return tuple((name, _hashable(value)) for name, value in sorted(params.items()))


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return params_key(value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
