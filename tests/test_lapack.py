"""Long calls aside give the numbers of SciPy, to the bit, and its errors."""

import numpy as np
import pytest
import scipy.linalg as sl
import scipy.sparse as sp

from onefit import _interrupts, _lapack

N = 150


@pytest.fixture
def long_calls(monkeypatch):
    """Take every call for a long one; how many were made aside."""
    made = []
    monkeypatch.setattr(_interrupts, "_LONG", 0)
    thread = _interrupts.Thread
    monkeypatch.setattr(_interrupts, "Thread", lambda **o: made.append(1) or thread(**o))
    return made


@pytest.fixture
def matrices():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(N, N))
    return A, A @ A.T + np.eye(N), rng.normal(size=(N, 7))


def same(ours, theirs):
    ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (ours, theirs))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def lower_solve(triangle, right):
    return sl.solve_triangular(triangle, right, lower=True, check_finite=False)


#: From a general matrix, a positive definite one, and some columns: ours and SciPy's.
CALLS = {
    "product": (lambda A, S, B: _lapack.product(A.T, A), lambda A, S, B: A.T @ A),
    "copied": (lambda A, S, B: _lapack.copied(A), lambda A, S, B: A),
    "vector": (lambda A, S, B: _lapack.product(A, B[:, 0]), lambda A, S, B: A @ B[:, 0]),
    "stack": (
        lambda A, S, B: _lapack.product(np.stack([A, S]), B),
        lambda A, S, B: np.stack([A, S]) @ B,
    ),
    "sparse_product": (
        lambda A, S, B: _lapack.sparse_product(sp.csr_array(np.where(A > 1, A, 0)), S),
        lambda A, S, B: sp.csr_array(np.where(A > 1, A, 0)) @ S,
    ),
    "tridiagonal": (
        lambda A, S, B: _lapack.tridiagonal(S.copy().T),
        lambda A, S, B: sl.lapack.dsytrd(S, lower=1, lwork=32 * N)[:4],
    ),
    "apply_reflectors": (
        lambda A, S, B: _lapack.apply_reflectors("T", *sl.qr(A, mode="raw")[0], B),
        lambda A, S, B: sl.lapack.dormqr("L", "T", *sl.qr(A, mode="raw")[0], B, 32 * N)[0],
    ),
    "pivoted_cholesky": (
        lambda A, S, B: _lapack.pivoted_cholesky(B @ B.T, overwrite=False),
        lambda A, S, B: (
            (c := sl.lapack.dpstrf(B @ B.T, lower=1))[0],
            c[1] - 1,
            np.linalg.matrix_rank(B),
        ),
    ),
    "lu_solve": (
        lambda A, S, B: _lapack.lu_solve(sl.lu_factor(A), B, trans=1),
        lambda A, S, B: sl.lu_solve(sl.lu_factor(A), B, trans=1),
    ),
    "solve": (
        lambda A, S, B: _lapack.solve(A.copy(), B),
        lambda A, S, B: sl.lapack.dgesv(A, B)[::2] + (0,),
    ),
    "solve_one": (
        lambda A, S, B: _lapack.solve(A.copy(), B[:, 0])[1],
        lambda A, S, B: sl.lapack.dgesv(A, B[:, 0])[2],
    ),
    "cho_factor": (
        lambda A, S, B: np.tril(_lapack.cho_factor(S)[0]),
        lambda A, S, B: np.tril(sl.lapack.dpotrf(S, lower=1)[0]),
    ),
    "cho_solve": (
        lambda A, S, B: _lapack.cho_solve(sl.cho_factor(S, lower=True), B),
        lambda A, S, B: sl.cho_solve(sl.cho_factor(S, lower=True), B),
    ),
    "inverse_from_cholesky": (
        lambda A, S, B: _lapack.inverse_from_cholesky(sl.cholesky(S, lower=True)),
        lambda A, S, B: sl.lapack.dpotri(sl.cholesky(S, lower=True), lower=1)[0],
    ),
    "solve_triangular": (
        lambda A, S, B: _lapack.solve_triangular(np.asfortranarray(S), B, lower=True),
        lambda A, S, B: lower_solve(np.asfortranarray(S), B),
    ),
    "solve_triangular_c": (
        lambda A, S, B: _lapack.solve_triangular(S, B, lower=True),
        lambda A, S, B: lower_solve(S, B),
    ),
    "solve_triangular_part": (
        lambda A, S, B: _lapack.solve_triangular(S.T[9:, 9:], B[9:]),
        lambda A, S, B: sl.solve_triangular(S.T[9:, 9:], B[9:]),
    ),
    "solve_unit_triangular": (
        lambda A, S, B: _lapack.solve_unit_triangular(A.T, B.copy(order="F")),
        lambda A, S, B: sl.blas.dtrsm(1.0, A.T, B, lower=1, diag=1),
    ),
    "eigh": (lambda A, S, B: _lapack.eigh(S), lambda A, S, B: sl.eigh(S, driver="evd")),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_those_of_scipy(name, long_calls, matrices):
    ours, theirs = CALLS[name]
    kept = [A.copy() for A in matrices]
    expected = theirs(*matrices)
    same(ours(*matrices), expected)
    assert bool(long_calls) == (name != "sparse_product")
    same(tuple(matrices), tuple(kept))


@pytest.mark.parametrize("name", CALLS)
def test_short_calls_are_direct(name, monkeypatch, matrices):
    monkeypatch.setattr(_interrupts, "Thread", None)
    ours, theirs = CALLS[name]
    same(ours(*matrices), theirs(*matrices))


def test_in_place(long_calls, matrices):
    """What may be written over is not copied: there is no room for another N x N."""
    A, S, B = matrices
    S, B = np.asfortranarray(S), np.asfortranarray(B)
    assert np.shares_memory(_lapack.tridiagonal(S)[0], S)
    assert np.shares_memory(_lapack.pivoted_cholesky(S, overwrite=True)[0], S)
    assert np.shares_memory(_lapack.solve_unit_triangular(A.T, B), B)
    assert np.shares_memory(_lapack.solve_triangular(S, B, lower=True, overwrite=True), B)


def test_errors(long_calls):
    with pytest.raises(sl.LinAlgError, match="2-th leading minor"):
        _lapack.cho_factor(np.diag([1.0, -1.0, 1.0]))
    with pytest.raises(sl.LinAlgError, match="diagonal 1"):
        _lapack.solve_triangular(np.diag([1.0, 0.0, 1.0]), np.ones((3, 1)))
    assert _lapack.solve(np.ones((3, 3)), np.ones(3))[2] > 0
    with pytest.raises(ValueError, match="argument 2 of dpotrf"):
        _lapack._aside("dpotrf", b"L", -1, np.ones((1, 1)), 1)
