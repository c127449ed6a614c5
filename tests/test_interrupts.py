"""Long calls in a thread of their own: results, errors, settings, and Ctrl-C in a live session."""

import signal
import threading
import time
import weakref

import numpy as np
import pytest
import scipy.linalg as sl
from threadpoolctl import threadpool_info, threadpool_limits

from onefit import _interrupts
from onefit._interrupts import aside


def test_long_calls_are_made_aside():
    assert aside(np.inf, threading.current_thread) is not threading.main_thread()
    assert aside(0, threading.current_thread) is threading.main_thread()
    assert aside(np.inf, sorted, [1, 2], reverse=True) == [2, 1]


def test_only_the_main_thread_hears():
    found = []
    work = threading.Thread(
        target=lambda: found.append(aside(np.inf, threading.current_thread) is work)
    )
    work.start()
    work.join()
    assert found == [True]


def test_errors_come_back():
    with pytest.raises(ZeroDivisionError):
        aside(np.inf, divmod, 1, 0)


def test_settings_come_along():
    """Handling of overflow, and threads of OpenMP, which have a number for every thread."""
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        aside(np.inf, np.divide, np.ones(1), 0.0)

    def threads():
        return [library["num_threads"] for library in threadpool_info()]

    with threadpool_limits(1):
        assert aside(np.inf, threads) == threads()


class Array(np.ndarray):
    """An array that can be referred to weakly."""


@pytest.fixture
def interrupted():
    """Interrupt this process in a quarter of a second."""

    def ring(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.25)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


def test_a_session_goes_on(interrupted):
    """The waiting ends at once; the call ends later, and its arrays live until then."""
    is_over = threading.Event()

    def work(array):
        is_over.wait(60)
        array += 1.0

    array = np.zeros(3).view(Array)
    kept = weakref.ref(array)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        aside(np.inf, work, array)
    assert time.monotonic() - began < 30
    del array
    thread = _interrupts._left[-1]
    assert thread.is_alive()
    assert kept() is not None
    assert aside(np.inf, abs, -1) == 1
    is_over.set()
    thread.join(60)
    assert not thread.is_alive()


N = 1200
A = np.random.default_rng(0).normal(size=(N, N))
#: SciPy's routines that are taken as they are, because they release the interpreter's lock.
WITHOUT_LOCK = {
    "matmul": lambda: np.matmul(A, A),
    "dgetrf": lambda: sl.lapack.dgetrf(A),
    "dgetrs": lambda: sl.lapack.dgetrs(*sl.lapack.dgetrf(A)[:2], A),
    "dormqr": lambda: sl.lapack.dormqr("L", "N", A.T, A[0], A.T, 64 * N),
    "lu_factor": lambda: sl.lu_factor(A),
}


@pytest.mark.parametrize("name", WITHOUT_LOCK)
def test_lock_is_released(name):
    """Else the main thread would wait for the lock, and hear nothing."""

    def share():
        """The longest time that this thread had to wait, of the time of the call."""
        work = threading.Thread(target=WITHOUT_LOCK[name])
        began = last = time.perf_counter()
        longest = 0.0
        work.start()
        while work.is_alive():
            time.sleep(0.0005)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        return longest / (last - began)

    assert min(share() for _ in range(5)) < 0.5
