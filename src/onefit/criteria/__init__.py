"""Cross-validation criteria: held-out decisions of every fold, one file each, one signature.

A criterion is a function ``criterion(fit, folds, holdout, **options) -> list[FoldDecisions]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from onefit.criteria.common import FoldDecisions
from onefit.criteria.exact import exact
from onefit.criteria.influence import influence
from onefit.criteria.newton_step import newton_step

__all__ = ["CRITERIA", "FoldDecisions", "exact", "influence", "newton_step"]

#: Criteria by the name that ``criterion=`` takes.
CRITERIA: Mapping[str, Callable[..., list[FoldDecisions]]] = MappingProxyType(
    {"exact": exact, "bif": influence, "newton": newton_step}
)
