"""What to do when the bases of a search need more memory than they may take."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

from onefit.components import components_to_try
from onefit.memory import (
    blocked_bytes,
    default_limit,
    exact_bytes,
    gibibytes,
    graph_bytes,
    nystrom_bytes,
)
from onefit.search.candidates import KernelGroup

__all__ = ["fit_to_memory", "memory_plan"]


def fit_to_memory(
    groups: Sequence[KernelGroup], n_rows: int, limit: float | None, n_jobs: int
) -> list[KernelGroup]:
    """Kernel groups that keep to the limit.

    Exact bases that do not fit are replaced by the largest Nystrom bases that do, with a warning.
    Nystrom bases whose features do not fit compute them in blocks.
    """
    allowed = (default_limit() if limit is None else limit) / n_jobs
    is_exact = any(group.settings.n_components is None for group in groups)
    c = None
    if is_exact and exact_bytes(n_rows) > allowed:
        c = _largest(n_rows, allowed)
        warnings.warn(
            f"An exact basis on {n_rows} rows needs {gibibytes(exact_bytes(n_rows))} for each of "
            f"{n_jobs} jobs, more than the {gibibytes(allowed)} allowed; using n_components={c} "
            "instead. Set n_components, or raise memory_limit.",
            UserWarning,
            stacklevel=3,
        )
    return [_limited(group, n_rows, c, allowed) for group in groups]


def _limited(group: KernelGroup, n_rows: int, c: int | None, allowed: float) -> KernelGroup:
    """One group under the limit; ``c`` takes the place of an exact basis that does not fit."""
    settings = replace(group.settings, memory_limit=allowed)
    if settings.n_components is None and c is not None:
        settings = replace(settings, n_components=c)
    settings.check_rows(n_rows)
    return replace(group, settings=settings)


def _largest(n_rows: int, allowed: float) -> int:
    """Most landmarks whose features fit into memory."""
    c = n_rows // 2
    while c > 1 and nystrom_bytes(n_rows, c) > allowed:
        c = c * 9 // 10
    if nystrom_bytes(n_rows, c) > allowed:
        raise MemoryError(
            f"memory_limit={allowed:.3g} bytes for each job is too little for {n_rows} rows; even "
            "one landmark does not fit. Raise memory_limit or lower n_jobs."
        )
    return c


def memory_plan(
    groups: Sequence[KernelGroup], n_rows: int, *, on_workers: bool = False
) -> list[str]:
    """What the bases will take, one line for every number of components, and their graphs."""
    lines = []
    for settings in {group.settings.n_components: group.settings for group in groups}.values():
        c, shape = settings.n_components, ""
        if c is None:
            continue
        if isinstance(c, str):
            c, shape = components_to_try(n_rows, settings.limit)[-1], "At most "
        shape += f"{n_rows} x {c} features"
        block, held = settings.block(n_rows, c, held=not on_workers), nystrom_bytes(n_rows, c)
        if block is None:
            lines.append(f"{shape} are held: {gibibytes(held)} for each job.")
        else:
            whose = "task of a worker, besides a block of X" if on_workers else "job"
            lines.append(
                f"{shape} would take {gibibytes(held)}: computed in blocks of {block} rows, "
                f"{gibibytes(blocked_bytes(block, c))} for each {whose}."
            )
    return lines + _graph_plan(groups, n_rows) if lines and not on_workers else lines


def _graph_plan(groups: Sequence[KernelGroup], n_rows: int) -> list[str]:
    """What neighbours and the largest graph take on top."""
    graphs = [graph.settings for group in groups for graph in group.graphs]
    needed = [
        graph_bytes(n_rows, graph.n_neighbors, anchors=graph.graph == "anchor")
        for graph in graphs
        if graph.search is not None
    ]
    if not needed:
        return []
    return [f"Neighbours and graph take up to {gibibytes(max(needed))} on top."]
