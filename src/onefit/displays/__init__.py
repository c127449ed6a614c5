"""Pictures for notebooks, in scikit-learn's manner. They need matplotlib, the extra ``plot``."""

from __future__ import annotations

from onefit.displays._agreement import CriterionAgreementDisplay
from onefit.displays._decision import DecisionDisplay
from onefit.displays._surface import SearchSurfaceDisplay

__all__ = ["CriterionAgreementDisplay", "DecisionDisplay", "SearchSurfaceDisplay"]
