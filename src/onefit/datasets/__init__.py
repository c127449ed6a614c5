"""Data to start with: a bundled real data set, the LIBSVM collection, and a way to hide labels.

Only :func:`load_libsvm_data` may use the network, for files that are not there yet.
"""

from onefit.datasets._bundled import load_penguins
from onefit.datasets._labels import make_partially_labeled
from onefit.datasets._libsvm import libsvm_datasets, load_libsvm_data
from onefit.datasets._synthetic import make_noisy_manifold

__all__ = [
    "libsvm_datasets",
    "load_libsvm_data",
    "load_penguins",
    "make_noisy_manifold",
    "make_partially_labeled",
]
