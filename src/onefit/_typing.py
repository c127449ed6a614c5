"""Array types used throughout."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
ByteArray: TypeAlias = npt.NDArray[np.uint8]
Sparse: TypeAlias = sp.csr_array
#: Words for widths of a graph; see :data:`onefit.kernels.GRAPH_WIDTHS`.
GraphWidth: TypeAlias = Literal["median", "wide"]
#: A matrix of rows: dense, or any scipy sparse matrix or array.
Rows: TypeAlias = Any
