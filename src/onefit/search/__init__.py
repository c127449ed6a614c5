"""Model selection: candidates grouped by what they share."""

from __future__ import annotations

from onefit.search.search import ManifoldSearchCV

__all__ = ["ManifoldSearchCV"]
