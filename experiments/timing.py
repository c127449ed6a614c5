"""Table 2: seconds per candidate of naive t-fold cross-validation, of t-BIF, and of our criteria.

For a random sample of candidates of every set, one after the other within one run:

naive        a fit of our own on the kept rows for every fold, and its predictions
bif          one fit and the influence function, exact Hessian, points held out
bif_nystrom  the same with the paper's Nystrom Hessian
newton       one fit and a Newton step for every fold, points held out
exact        one fit and the optimum of every fold, points held out
labels       one fit and the optimum of every fold, labels held out
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from experiments import protocol, store
from onefit import SemiSupervisedKFold, cross_val_decisions

SAMPLE = 5
#: Of the naive fits only this many folds are timed; the others cost the same.
NAIVE_FOLDS = 2
CRITERIA = {
    "bif": {"criterion": "bif", "holdout": "points"},
    "bif_nystrom": {
        "criterion": "bif",
        "holdout": "points",
        "criterion_params": {"hessian": "nystrom"},
    },
    "newton": {"criterion": "newton", "holdout": "points"},
    "exact": {"criterion": "exact", "holdout": "points"},
    "labels": {"criterion": "exact", "holdout": "labels"},
}


def run(names: list[str], path: Path) -> None:
    """Time all sets that are not done; exact basis for every method."""
    store.record_machine(path.parent, "times")
    done = {row["set"] for row in store.read(path)}
    for name in names:
        if name not in done:
            store.append(path, _time_set(name))
            print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)


def _time_set(name: str) -> list[dict[str, str]]:
    data = protocol.load(name, 0)
    candidates = protocol.candidates(name, len(data.X))
    sample = np.random.default_rng(0).choice(len(candidates), SAMPLE, replace=False)
    rows = []
    for t in protocol.FOLDS:
        known = data.is_known
        cv = SemiSupervisedKFold(min(t, int(known.sum())), shuffle=True, random_state=t)
        splits = list(cv.split(data.X, data.y))
        for index in sample:
            model = protocol.model(name).set_params(n_components=None, **candidates[index])
            seconds = {"naive": _naive(model, data, splits)}
            for criterion, options in CRITERIA.items():
                start = time.perf_counter()
                cross_val_decisions(model, data.X, data.y, cv=splits, **options)
                seconds[criterion] = time.perf_counter() - start
            rows += [
                {"set": name, "t": t, "candidate": index, "method": key, "seconds": f"{s:.4g}"}
                for key, s in seconds.items()
            ]
    return rows


def _naive(model, data: protocol.Data, splits) -> float:
    """Seconds of a fit for every fold, from a few folds."""
    few = splits[:NAIVE_FOLDS]
    start = time.perf_counter()
    for train, test in few:
        model.fit(data.X[train], data.y[train]).predict(data.X[test])
    return (time.perf_counter() - start) * len(splits) / len(few)
