"""Checks of what a search is asked to do, before it starts to work."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from onefit.criteria import CRITERIA
from onefit.search.results import RULES, check_score_name
from onefit.search.scoring import named_scoring
from onefit.validation import check_choice, check_integer, check_number, shown

__all__ = ["check_search"]


def check_search(search: Any) -> None:
    """Raise unless the parameters of a :class:`ManifoldSearchCV` make sense together."""
    check_choice("criterion", search.criterion, (*CRITERIA, "certified"))
    if search.criterion == "certified" and search.holdout != "labels":
        raise ValueError(
            "criterion='certified' with holdout='points', whose bounds are too wide to race "
            "by; use criterion='exact' or holdout='labels'."
        )
    check_choice("holdout", search.holdout, ("labels", "points"))
    _check_choosing(search)
    check_integer("refine", search.refine, minimum=0)
    if search.n_iter is not None:
        check_integer("n_iter", search.n_iter, minimum=1)
    if search.memory_limit is not None:
        check_number("memory_limit", search.memory_limit)
    for name, value in (
        ("n_jobs", 1 if search.n_jobs is None else search.n_jobs),
        ("verbose", search.verbose),
    ):
        if not isinstance(value, Integral):  # True is one
            raise TypeError(
                f"{name}={value!r} is of type {type(value).__name__}; expected an integer."
            )
    _check_checkpoint(search)


def _check_choosing(search: Any) -> None:
    """A search must not find out after hours that it does not know what to choose by."""
    check_choice("selection", search.selection, RULES)
    if search.selection == "margin" and not is_classifier(search.estimator):
        raise ValueError("selection='margin' with real targets, which have no margin; use 'auto'.")
    refit = search.refit
    if not (isinstance(refit, bool | np.bool_ | str) or callable(refit)):
        raise TypeError(
            f"refit={shown(refit)} is of type {type(refit).__name__}; expected True, False, the "
            "name of a score or a callable."
        )
    named = named_scoring(search.scoring)
    if callable(refit) or set(named) == {"score"}:
        return
    if isinstance(refit, str) or refit:
        check_score_name(refit, named)
    elif search.refine:
        raise ValueError(
            f"refine={search.refine} with several scores and refit=False, so that there is no "
            "best candidate to look around; set refit to the name of a score or to a callable."
        )


def _check_checkpoint(search: Any) -> None:
    """A search that draws anew each time can never find its own checkpoint."""
    draws = search.cv is None or search.n_iter is not None
    shuffles = getattr(search.cv, "shuffle", False) and search.cv.random_state is None
    if search.checkpoint is not None and ((draws and search.random_state is None) or shuffles):
        raise ValueError(
            "checkpoint with random_state=None: the folds or candidates would be drawn anew "
            "each time, and the checkpoint never be found again. Set random_state (of the "
            "search, and of the splitter if it shuffles) to a number."
        )
