"""Whether Nystrom bases give the held-out predictions of the exact basis.

For split 0 of each large set, points held out (the first of ten folds for real targets, all of five
for classes), and every candidate: the root mean square of the difference of decisions, relative to
that of the exact ones (at least to 1 % of the targets' size, so that predictions of nothing count
as equal); and the share of labels that are given another class.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from experiments import protocol, store
from onefit.assembly import build_factor
from onefit.basis import plane_basis
from onefit.folds import Fold
from onefit.search.candidates import group_candidates
from onefit.search.fold_planes import held_out_points
from onefit.search.geometry import geometry_of
from onefit.search.task import Task

#: Sets of thousands of rows with columns of the basis. Those that the protocol has not fail here.
COLUMNS = {**protocol.COMPONENTS, "a3a": 1000, "w2a": 1000, "w3a": 1500}


def run(path: Path) -> None:
    """Compare all sets that are not done."""
    done = {row["set"] for row in store.read(path)}
    store.record_machine(path.parent, "nystrom")
    for name, c in COLUMNS.items():
        if name not in done:
            start = time.perf_counter()
            store.append(path, _compare(name, c))
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def _compare(name: str, c: int) -> list[dict[str, str]]:
    data = protocol.load(name, 0)
    params = protocol.candidates(name, len(data.X))
    exact = _decisions(name, data, params, None)
    approximate = _decisions(name, data, params, c)
    known = data.is_known
    y = data.y[known] if data.is_regression else 2.0 * data.y[known] - 1.0
    y = np.concatenate([y[fold.test_labels] for fold in _folds(data, known)])
    rows = []
    for i, one in enumerate(params):
        scale = max(_size(exact[i]), 0.01 * _size(y))
        wrong = np.square(exact[i] - y) if data.is_regression else exact[i] * y <= 0
        flips = "" if data.is_regression else np.mean((exact[i] > 0) != (approximate[i] > 0))
        rows.append(
            {
                "set": name,
                "components": c,
                "width": f"{one['kernel_width']:.5g}",
                "ambient": f"{one['ambient_penalty']:.0e}",
                "manifold": f"{one['manifold_penalty']:.0e}",
                "difference": f"{_size(exact[i] - approximate[i]) / scale:.3g}",
                "error": f"{np.mean(wrong):.4g}",
                "flips": flips if flips == "" else f"{flips:.4g}",
            }
        )
    return rows


def _folds(data: protocol.Data, known: np.ndarray) -> list[Fold]:
    if data.is_regression:
        return protocol.folds(data, known, 10, repeat=0)[:1]
    return protocol.folds(data, known, 5, repeat=0)


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _decisions(name: str, data: protocol.Data, params: list, c: int | None) -> np.ndarray:
    """Held-out decisions on the labels, fold by fold, one row a candidate."""
    model = protocol.model(name).set_params(n_components=c)
    targets, sample = model._read_labels(data.X, data.y, None)
    folds = _folds(data, targets.labelled)
    task = Task(targets, sample, folds, "exact", "points", {}, None)
    groups = group_candidates(model, params)
    geometry = geometry_of(data.X, groups)
    labelled = np.flatnonzero(targets.labelled)
    decisions = np.empty((len(params), sum(int(fold.test_labels.sum()) for fold in folds)))
    for group in groups:
        squared = None if geometry.squared is None else geometry.squared.copy()
        kernel = group.settings.resolve(data.X)
        factor = build_factor(kernel, group.settings, data.X, squared, 0)
        for part in group.graphs:
            neighbors = geometry.neighbors_for(part.settings)
            graph, _ = part.settings.build(data.X, neighbors)
            basis = plane_basis(factor, graph.laplacian, labelled)
            for held in held_out_points(task, basis, graph, part.candidates):
                by_fold = [values[0, :, 0] for values in held.decisions]
                decisions[held.members[0].index] = np.concatenate(by_fold)
    return decisions
