"""Work on groups of candidates, one after the other or in processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from joblib import cpu_count
from sklearn.pipeline import Pipeline

from onefit._threads import blas_threads
from onefit.search.candidates import Job, KernelGroup, params_key
from onefit.search.geometry import Geometry, geometry_of, preprocess
from onefit.search.parallel import results_as_they_come, shared_with_workers
from onefit.search.task import Task

__all__ = ["work_through"]

T = TypeVar("T")
#: What is done for some candidates of one kernel, given the task and the geometry of its rows.
Work: TypeAlias = Callable[[Task, Geometry, KernelGroup], T]
#: Keys of a job, what came of it, and seconds: each candidate's part in what all jobs share.
Done: TypeAlias = tuple[tuple[str, ...], T, float]


def work_through(
    work: Work[T],
    task: Task,
    jobs: Sequence[Job],
    upstream: Pipeline | None,
    X: Any,
    n_jobs: int,
) -> Generator[Done[T]]:
    """What comes of the jobs, as it comes; jobs on the same rows share distances and neighbours.

    Closed early, after an interrupt or a full disk, it ends the workers.
    """
    by_rows: dict[Any, list[Job]] = {}
    for job in jobs:
        by_rows.setdefault(params_key(job.group.upstream_params), []).append(job)
    # Processes share the cores, whatever the environment says of BLAS threads.
    threads = None if n_jobs == 1 else max(1, cpu_count() // n_jobs)
    for same in by_rows.values():
        start = time.perf_counter()
        rows = preprocess(upstream, same[0].group.upstream_params, same[0].model, X)
        geometry = geometry_of(rows, [job.group for job in same])
        common = time.perf_counter() - start
        share = common / sum(job.group.n_candidates for job in same)
        if n_jobs == 1:
            yield from (_work_on(work, (task, geometry), job, threads, share) for job in same)
        else:
            data = shared_with_workers((task, geometry))
            calls = ((work, data, job, threads, share) for job in same)
            yield from results_as_they_come(_work_on, calls, n_jobs)


def _work_on(
    work: Work[T],
    data: tuple[Task, Geometry],
    job: Job,
    threads: int | None,
    share: float,
) -> Done[T]:
    task, geometry = data
    with blas_threads(threads):
        return job.keys, work(task, geometry, job.group), share
