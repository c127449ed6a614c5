"""Data to start with: a bundled real data set, and a way to hide labels.

Nothing here needs a network.
"""

from onefit.datasets._bundled import load_penguins
from onefit.datasets._labels import make_partially_labeled

__all__ = ["load_penguins", "make_partially_labeled"]
