"""What a search asks of every candidate, and what it gets back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefit._typing import FloatArray
from onefit.criteria.common import Holdout
from onefit.folds import Fold
from onefit.losses import Loss
from onefit.problem import Problem
from onefit.search.candidates import Candidate, GraphGroup
from onefit.search.plane import square_plane
from onefit.search.scoring import FoldScorer
from onefit.targets import Targets

__all__ = [
    "CandidateResult",
    "HeldOut",
    "Task",
    "at_ambient",
    "by_deformation",
    "closed_form",
    "default_repeats",
    "label_params",
    "restored",
]

#: Parameters besides the penalties that the label problem depends on.
_LABEL_PARAMS = ("fit_intercept", "class_weight", "loss", "hinge_width", "tol", "max_iter")


@dataclass(frozen=True)
class Task:
    """What every group is evaluated on, and how."""

    targets: Targets
    sample: FloatArray
    folds: Sequence[Fold]
    criterion: str
    holdout: Holdout
    criterion_params: dict[str, Any]
    scorer: FoldScorer

    @property
    def has_closed_form(self) -> bool:
        """Whether the square loss needs no iteration: equation (4) serves whole planes."""
        return self.holdout == "labels" and self.criterion != "bif" and not self.criterion_params


@dataclass
class CandidateResult:
    """Scores of one candidate on every fold, in the order of the folds."""

    index: int
    scores: dict[str, list[float]] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    error_bound: float = float("nan")
    margin: float = float("nan")
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    n_components: int | None = None


def restored(
    stored: Mapping[str, Any], graphs: Mapping[str, GraphGroup], n_folds: int
) -> dict[str, list[CandidateResult]]:
    """Results of a checkpoint by key, of the groups that it holds whole and in the right form."""
    results = {}
    for key, graph in graphs.items():
        try:
            part = [CandidateResult(**one) for one in stored.get(key, ())]
            numbers = [[one.losses, *one.scores.values()] for one in part]
            n_columns = np.array(numbers, dtype=np.float64).shape[-1] if part else 0
        except (TypeError, ValueError, AttributeError):  # nothing that a search has written
            continue
        if n_columns == n_folds and [one.index for one in part] == graph.indices:
            results[key] = part
    return results


@dataclass(frozen=True)
class HeldOut:
    """Decisions of some candidates: one array of shape (a, m, q) for every fold.

    ``bounds`` are arrays alike, bounds on their errors; None where none were computed.
    """

    members: Sequence[Candidate]
    decisions: Sequence[FloatArray]
    bounds: Sequence[FloatArray] | None
    is_exact: bool


def default_repeats(loss: Loss, holdout: Holdout) -> int:
    """How often folds are drawn: often where the closed form makes that nearly free."""
    if holdout == "points":
        return 1
    return 5 if loss.is_quadratic else 3


def label_params(candidate: Candidate) -> str:
    """What the label problem of a candidate depends on besides kernel, graph and penalties."""
    model = candidate.model
    return repr([type(model), *(getattr(model, name, None) for name in _LABEL_PARAMS)])


def by_deformation(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Candidates that differ in the ambient penalty alone once the ratio is fixed.

    Groups of one loss stand together.
    """
    groups: dict[Any, list[Candidate]] = {}
    for candidate in candidates:
        model = candidate.model
        ratio = float(f"{float(model.manifold_penalty) / float(model.ambient_penalty):.12g}")
        groups.setdefault((label_params(candidate), ratio), []).append(candidate)
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


def at_ambient(problem: Problem, candidate: Candidate) -> Problem:
    """The problem of the candidate's ambient penalty and the same deformed kernel."""
    ambient = float(candidate.model.ambient_penalty)
    ratio = problem.manifold_penalty / problem.ambient_penalty
    return problem.with_penalties(ambient, ratio * ambient)


def closed_form(
    problem: Problem, members: Sequence[Candidate], folds: Sequence[Fold]
) -> list[FloatArray]:
    """Decisions (a, m, q) of the square loss on every fold, for the candidates of one ratio."""
    return square_plane(
        problem.deformed.labelled_gram,
        np.array([float(candidate.model.ambient_penalty) for candidate in members]),
        problem.targets,
        problem.weights,
        folds,
        fit_intercept=problem.fit_intercept,
    )
