"""How to get the same result again: versions, and a snippet of Python."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import sklearn
from sklearn.base import BaseEstimator

__all__ = ["snippet", "versions"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib")


def versions() -> list[tuple[str, str]]:
    """Names and versions of what computed the result."""
    found = [(name, version(name)) for name in ("onefit", *_PACKAGES)]
    return [*found, ("Python", platform.python_version()), ("platform", platform.platform())]


def snippet(search: Any) -> str:
    """Python that runs the search again, given ``X`` and ``y``."""
    with sklearn.config_context(print_changed_only=True):
        text = search.__repr__(N_CHAR_MAX=10**6)
    # Aligned under the bracket, lines would not fit a phone. Strings have no line breaks in them.
    text = re.sub(r"\n +", "\n    ", text)
    lines = sorted(_imports(search))
    if re.search(r"\bnp\.", text):
        lines.insert(0, "import numpy as np")
    return "\n".join([*lines, "", f"search = {text}", "search.fit(X, y)"])


def _imports(search: Any) -> Iterator[str]:
    """One line for each module that the text needs."""
    needed: dict[str, set[str]] = {}
    for value in _objects(search):
        kind = type(value)
        public = [part for part in kind.__module__.split(".") if part]
        private = [i for i, part in enumerate(public) if part.startswith("_")]
        module = ".".join(public[: private[0]] if private else public)
        if module.startswith("onefit"):
            module = "onefit"
        needed.setdefault(module, set()).add(kind.__name__)
    for module, names in needed.items():
        yield f"from {module} import {', '.join(sorted(names))}"


def _objects(value: Any) -> Iterator[Any]:
    """Estimators and splitters, however nested in parameters."""
    if isinstance(value, BaseEstimator):
        yield value
        for inner in value.get_params(deep=False).values():
            yield from _objects(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _objects(inner)
    elif hasattr(value, "get_n_splits"):
        yield value
