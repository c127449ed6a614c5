"""Metadata of fit: which part goes to the estimator, the splitter and the scorers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn import get_config
from sklearn.utils.metadata_routing import process_routing

__all__ = ["Routed", "route"]


@dataclass(frozen=True)
class Routed:
    """Keyword arguments by whom they are for.

    ``fit`` is what the refit is called with; ``sample_weight`` is what of it concerns the losses.
    """

    sample_weight: Any = None
    fit: Mapping[str, Any] = field(default_factory=dict)
    split: Mapping[str, Any] = field(default_factory=dict)
    score: Mapping[str, Any] = field(default_factory=dict)


def route(search: Any, prefix: str, params: Mapping[str, Any]) -> Routed:
    """Distribute what was given to ``fit``; None counts as not given.

    Parameters
    ----------
    search : ManifoldSearchCV
        The search, a router of scikit-learn.
    prefix : str
        Name of the final step of a pipeline and two underscores, or "".
    params : mapping
        Keyword arguments of fit.
    """
    given = {name: value for name, value in params.items() if value is not None}
    if get_config()["enable_metadata_routing"]:
        parts = process_routing(search, "fit", **given)
        fit = parts.estimator.fit
        _reject_others(fit, {"sample_weight"})
        return Routed(fit.get("sample_weight"), fit, parts.splitter.split, parts.scorer.score)
    own = f"{prefix}sample_weight"
    if prefix and own in given and "sample_weight" in given:
        raise TypeError(f"fit got both sample_weight and {own}; expected one of them.")
    _reject_others(given, {"sample_weight", own, "groups"})
    weight = given.get(own, given.get("sample_weight"))
    split = {"groups": given["groups"]} if "groups" in given else {}
    return Routed(weight, {} if weight is None else {own: weight}, split)


def _reject_others(given: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise TypeError(
            f"fit got {unknown[0]!r}; expected no metadata but {' or '.join(sorted(known))}."
        )
