"""Linear algebra that Ctrl-C can end: what SciPy and NumPy compute, aside where it is long.

Most of SciPy's routines hold the interpreter's lock while they work. Long calls go to the same
routines of the same library through ``scipy.linalg.cython_lapack``, without the lock: the numbers
are the same.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any, Literal

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.linalg import cython_blas, cython_lapack
from sklearn.utils import gen_batches

from onefit._interrupts import aside, is_long
from onefit._typing import FloatArray, IntArray

__all__ = [
    "apply_reflectors",
    "cho_factor",
    "cho_solve",
    "copied",
    "eigh",
    "inverse_from_cholesky",
    "lu_solve",
    "pivoted_cholesky",
    "product",
    "solve",
    "solve_triangular",
    "solve_unit_triangular",
    "sparse_product",
    "tridiagonal",
]

#: Multiplications in the time in which a number is written to fresh memory.
_COPY = 50
#: Multiplications of dense matrices in the time of one with a sparse matrix.
_SPARSE = 10
#: Parts of a long product of a sparse matrix.
_PARTS = 50


def product(A: Any, B: Any) -> FloatArray:
    """A @ B, of arrays or stacks of them."""
    n_results = math.prod(A.shape[:-1]) * (B.shape[-1] if B.ndim > 1 else 1)
    result: FloatArray = aside(n_results * (_COPY + A.shape[-1]), np.matmul, A, B)
    return result


def copied(A: FloatArray, order: Literal["C", "F"] = "F") -> FloatArray:
    """A copy in this order: of a large matrix it takes a second itself."""
    return aside(_COPY * A.size, np.array, A, order=order)


def sparse_product(S: Any, B: FloatArray) -> FloatArray:
    """S @ B of a sparse matrix or another operator; where it is long, some rows after others."""
    if not isinstance(S, sp.csr_array) or not is_long(_SPARSE * S.nnz * B.shape[1]):
        return np.asarray(S @ B)
    result = np.empty((S.shape[0], B.shape[1]))
    for rows in gen_batches(S.shape[0], 1 + S.shape[0] // _PARTS):
        result[rows] = S[rows] @ B
    return result


def tridiagonal(A: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """LAPACK's ``sytrd`` of a symmetric matrix: reflectors below the diagonal, T, their scales.

    A matrix in Fortran order is written over.
    """
    n = A.shape[0]
    size = int(sl.lapack.dsytrd_lwork(n, lower=1)[0])
    # Half of the work is on vectors, of which threads that wait for each other make the most.
    if not is_long(10 * n**3):
        return sl.lapack.dsytrd(A, lower=1, lwork=size, overwrite_a=1)[:4]
    A = np.asfortranarray(A)
    d, e, scales = np.empty(n), np.empty(n - 1), np.empty(n - 1)
    _aside("dsytrd", b"L", n, A, n, d, e, scales, np.empty(size), size)
    return A, d, e, scales


def apply_reflectors(
    trans: str, reflectors: FloatArray, scales: FloatArray, B: FloatArray
) -> FloatArray:
    """Q B or, with "T", Q' B, Q the product of reflectors: LAPACK's ``ormqr``."""
    size = int(sl.lapack.dormqr("L", trans, reflectors, scales, B, -1)[1][0])
    work = 2.0 * scales.size * B.size
    return aside(work, sl.lapack.dormqr, "L", trans, reflectors, scales, B, size)[0]


def pivoted_cholesky(A: FloatArray, *, overwrite: bool) -> tuple[FloatArray, IntArray, int]:
    """Lower triangle with anything above it, pivots and numerical rank: LAPACK's ``pstrf``.

    A matrix in Fortran order is written over if ``overwrite``.
    """
    n = A.shape[0]
    if not is_long(n**3):
        factor, pivots, rank, _ = sl.lapack.dpstrf(A, lower=1, overwrite_a=overwrite)
        return factor, pivots.astype(np.intp) - 1, int(rank)
    A = np.asfortranarray(A) if overwrite else copied(A)
    pivots, rank = np.empty(n, np.intc), np.empty(1, np.intc)
    _aside("dpstrf", b"L", n, A, n, pivots, rank, -1.0, np.empty(2 * n))
    return A, pivots.astype(np.intp) - 1, int(rank[0])


def lu_solve(factor: tuple[FloatArray, IntArray], B: FloatArray, *, trans: int = 0) -> FloatArray:
    """The solution for the columns of B from LU factors, with ``trans`` of the transpose."""
    work = float(factor[0].size) * B.shape[1]
    return aside(work, sl.lapack.dgetrs, *factor, B, trans=trans)[0]


def solve(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """LU factors, solution for B of shape (n,) or (n, m), and ``info``: LAPACK's ``gesv``.

    A matrix in Fortran order is written over.
    """
    n = A.shape[0]
    if not is_long(n**3):
        factor, _, solution, info = sl.lapack.dgesv(A, B, overwrite_a=1)
        return factor, solution, info
    factor, pivots, info = aside(n**3, sl.lapack.dgetrf, A, overwrite_a=1)
    solution = lu_solve((factor, pivots), B.reshape(n, -1))
    return factor, solution.reshape(B.shape), info


def cho_factor(A: FloatArray, *, overwrite: bool = False) -> tuple[FloatArray, bool]:
    """The lower triangle of ``scipy.linalg.cho_factor``, with anything above it.

    A matrix in Fortran order is written over if ``overwrite``.
    """
    n = A.shape[0]
    if n == 0:
        return A, True
    if is_long(n**3 / 6):
        A = np.asfortranarray(A) if overwrite else copied(A)
        info = _aside("dpotrf", b"L", n, A, n)
    else:  # not by way of SciPy's function, which takes longer than a small matrix
        A, info = sl.lapack.dpotrf(A, lower=1, clean=0, overwrite_a=overwrite)
    if info > 0:
        raise sl.LinAlgError(f"{info}-th leading minor of the array is not positive definite")
    return A, True


def cho_solve(factor: tuple[FloatArray, bool], B: FloatArray) -> FloatArray:
    """``scipy.linalg.cho_solve`` with a lower triangle, for the columns of B."""
    n = factor[0].shape[0]
    if n == 0:
        return np.zeros_like(B)
    if not is_long(n * B.size):
        return sl.lapack.dpotrs(factor[0], B, lower=1)[0]
    B = copied(B)
    _aside("dpotrs", b"L", n, B.shape[1], np.asfortranarray(factor[0]), n, B, n)
    return B


def inverse_from_cholesky(lower: FloatArray) -> FloatArray:
    """The lower triangle of (R R')^-1, with anything above it: LAPACK's ``potri``."""
    n = lower.shape[0]
    if not is_long(n**3):
        return sl.lapack.dpotri(lower, lower=1)[0]
    result = copied(lower)
    _aside("dpotri", b"L", n, result, n)
    return result


def solve_triangular(
    A: FloatArray, B: FloatArray, *, lower: bool = False, overwrite: bool = False
) -> FloatArray:
    """``scipy.linalg.solve_triangular`` for the columns of B.

    B in Fortran order is written over if ``overwrite``.
    """
    n, trans = A.shape[0], False
    if not is_long(n * B.size):
        return sl.solve_triangular(A, B, lower=lower, overwrite_b=overwrite, check_finite=False)
    if not A.flags.f_contiguous:  # as SciPy does
        A, lower, trans = np.asfortranarray(A.T), not lower, True
    B = np.asfortranarray(B) if overwrite else copied(B)
    words = b"L" if lower else b"U", b"T" if trans else b"N", b"N"
    info = _aside("dtrtrs", *words, n, B.shape[1], A, n, B, n)
    if info > 0:
        raise sl.LinAlgError(f"singular matrix: resolution failed at diagonal {info - 1}")
    return B


def solve_unit_triangular(A: FloatArray, B: FloatArray) -> FloatArray:
    """BLAS's ``trsm`` with what is below the diagonal of A; B in Fortran order is written over."""
    n = A.shape[0]
    if not is_long(n * B.size):
        return sl.blas.dtrsm(1.0, A, B, lower=1, diag=1, overwrite_b=1)
    A, B = np.asfortranarray(A), np.asfortranarray(B)
    words = b"L", b"L", b"N", b"U"
    aside(np.inf, _call, "dtrsm", *words, n, B.shape[1], 1.0, A, n, B, n)
    return B


def eigh(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors by divide and conquer."""
    n = A.shape[0]
    if not is_long(n**3):
        return sl.eigh(A, driver="evd", check_finite=False)
    sizes = [int(size) for size in sl.lapack.dsyevd_lwork(n, lower=1)[:2]]
    A, values = copied(A), np.empty(n)
    works = np.empty(sizes[0]), sizes[0], np.empty(sizes[1], np.intc), sizes[1]
    info = _aside("dsyevd", b"V", b"L", n, A, n, values, *works)
    if info > 0:  # pragma: no cover - no finite matrix is known
        raise sl.LinAlgError("the eigenvalues did not converge.")
    return values, A


def _aside(name: str, *arguments: Any) -> int:
    """Call a routine without the interpreter's lock, in a thread; ``info``, its last argument."""
    info = np.zeros(1, np.intc)
    aside(np.inf, _call, name, *arguments, info)
    if info[0] < 0:
        raise ValueError(f"illegal value in argument {-info[0]} of {name}")
    return int(info[0])


def _call(name: str, *arguments: Any) -> None:
    """Call a routine by its Fortran interface: everything is a pointer."""
    kinds = {int: np.intc, float: np.float64, bytes: np.bytes_}
    held = [a if isinstance(a, np.ndarray) else np.array(a, kinds[type(a)]) for a in arguments]
    _routine(name)(*(ctypes.c_void_p(array.ctypes.data) for array in held))


@cache
def _routine(name: str) -> Any:
    module = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule = module.__pyx_capi__[name]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # Functions of this type are called without the interpreter's lock.
    return ctypes.CFUNCTYPE(None)(pointer_of(capsule, name_of(capsule)))
