"""Jobs through joblib, on whatever engine the user has chosen: processes, dask, ray."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterable
from functools import cache
from itertools import islice
from multiprocessing import current_process, parent_process
from threading import Thread, current_thread, main_thread
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from onefit.blocks import data_in_graph

__all__ = ["results_as_they_come", "shared_with_workers"]

#: Jobs of a round, for each process, where an engine gives results only when all are there.
_JOBS_IN_A_ROUND = 4


def results_as_they_come(
    function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], n_jobs: int
) -> Generator[Any]:
    """What the calls return, in any order, each as soon as the engine gives it.

    Closed early, after an interrupt or a full disk, it ends the workers.
    """
    backend, here = get_active_backend()[0], os.getpid()
    jobs = (delayed(_in_worker)(here, function, arguments) for arguments in calls)
    if backend.supports_return_generator:
        results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
        try:
            for result in results:  # noqa: UP028, because "yield from" closes with a warning
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.close()
        return
    # ray: in rounds, so that a checkpoint has what was finished before.
    with Parallel(n_jobs=n_jobs) as parallel:
        while chunk := list(islice(jobs, _JOBS_IN_A_ROUND * n_jobs)):
            yield from parallel(chunk)


def _in_worker(asked_by: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call the function, in a process of its own with no ear for Ctrl-C.

    A terminal sends it to workers too. Who has asked for the work ends them, and they need not
    print where they were.
    """
    parent = parent_process()
    if parent is not None and os.getpid() != asked_by:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if parent.pid == asked_by and type(current_process()).__name__ == "LokyProcess":
            _end_with(asked_by)
    return function(*arguments)


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent; a killed one cannot, and joblib waits minutes."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def shared_with_workers(data: Any) -> Any:
    """What every call gets, in a form that travels once to every worker, not with every call.

    joblib and ray see to that by themselves. On dask, joblib would put one copy on one worker, and
    the search would end with that worker. As the result of a task it is made again when lost.
    """
    backend = get_active_backend()[0]
    if type(backend).__name__ != "DaskDistributedBackend":
        return data
    with data_in_graph():
        return backend.client.submit(_itself, data, pure=False)


def _itself(data: Any) -> Any:
    return data
