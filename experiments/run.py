"""Run the paper's experiments; killed and started again, they go on where they were.

    python -m experiments.run quick               # two small sets, few candidates: a minute
    python -m experiments.run table1 --jobs 2     # all criteria: 18 sets, 30 repeats, 3 values of t
    python -m experiments.run script --repeats 15  # the candidates of one author's script
    python -m experiments.run default --jobs 2    # our search, and plain rules of choice
    python -m experiments.run grids --repeats 10  # other default grids, on other splits
    python -m experiments.run rules --repeats 10  # graphs and rules of choice for real targets
    python -m experiments.run classes --repeats 10  # candidates and rules of choice for classes
    python -m experiments.run peers --jobs 2      # what one would take instead: error and time
    python -m experiments.run table2              # time against naive cross-validation
    python -m experiments.run nystrom             # the Nystrom bases against the exact ones

Run it at the root of the repository, with the data (see ``load_libsvm_data``) in the folder that
ONEFIT_DATA names, or with a network. Results go to experiments/results as CSV files, one for each
set; ``python -m experiments.analyse`` and ``python -m experiments.plot`` make tables and figures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from experiments import (
    class_rules,
    grids,
    nystrom,
    peers,
    protocol,
    rules,
    selection,
    store,
    summary,
    timing,
    unit,
)

#: A data set, a repeat, and (for methods) the name of a method.
Unit = tuple[str, int, str]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """What is evaluated on every set and split, and the folder of its results."""

    kind: str
    evaluate: Callable[[Unit], tuple[Unit, Rows, float]]
    #: The first split: those of the paper's tables start at 0.
    first: int = 0
    #: The third parts of the units of a set and split.
    parts: Callable[[str, int], Iterable[str]] = lambda name, repeat: [""]

    def units(self, names: Sequence[str], repeats: int) -> list[Unit]:
        """Repeat by repeat, so that all sets are equally far at any stop."""
        return [
            (name, repeat, part)
            for repeat in range(self.first, self.first + repeats)
            for name in names
            for part in self.parts(name, repeat)
        ]


def _if_can_fit(name: str, repeat: int) -> list[str]:
    return [""] if protocol.can_fit(name, repeat) else []


def _if_regression(name: str, repeat: int) -> list[str]:
    return [""] if protocol.is_regression(name) else []


def _if_classes(name: str, repeat: int) -> list[str]:
    return [] if protocol.is_regression(name) else _if_can_fit(name, repeat)


def _peers(name: str, repeat: int) -> list[str]:
    """Methods; ours has its errors from the searches of ``default``, but for some splits."""
    return [m for m in peers.methods(name) if repeat in peers.TIMED or m != peers.ours(name)]


def main() -> None:
    alone = {
        "quick": lambda names, results: quick(),
        "table2": lambda names, results: timing.run(names, results / "times.csv"),
        "nystrom": lambda names, results: nystrom.run(results / "nystrom.csv"),
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=[*EXPERIMENTS, *alone])
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--repeats", type=int, default=protocol.REPEATS, help="default: 30")
    parser.add_argument("--sets", nargs="+", help="data sets (default: all 18)")
    parser.add_argument("--results", type=Path, default=store.RESULTS, help="folder for results")
    options = parser.parse_args()
    names = options.sets or protocol.names()
    if options.experiment in alone:
        alone[options.experiment](names, options.results)
    else:
        experiment = EXPERIMENTS[options.experiment]
        run(experiment, experiment.units(names, options.repeats), options)


def run(experiment: Experiment, wanted: list[Unit], options: argparse.Namespace) -> None:
    """Evaluate the units that are not done, in parallel, and store each as it comes."""
    path = partial(_path, options.results, experiment.kind)
    done = {
        store.unit_of(row)
        for name in sorted({name for name, _, _ in wanted})
        for row in store.read(path(name))
    }
    waiting = [one for one in wanted if one not in done]
    print(f"{len(waiting)} of {len(wanted)} units to do")
    store.record_machine(options.results, experiment.kind)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeRemainingColumn()) as progress:
        bar = progress.add_task("units", total=len(waiting))
        calls = (delayed(experiment.evaluate)(one) for one in waiting)
        parallel = Parallel(
            n_jobs=options.jobs, return_as="generator_unordered", pre_dispatch="n_jobs"
        )
        for one, rows, seconds in parallel(calls):
            store.append(path(one[0]), rows)
            label = " ".join(map(str, one)).strip()
            progress.update(bar, advance=1, description=label)
            print(f"{time.strftime('%H:%M:%S')} {label}: {seconds:.0f} s", flush=True)


def _path(results: Path, kind: str, name: str) -> Path:
    return results / kind / f"{name}.csv"


def _criteria(one: Unit) -> tuple[Unit, Rows, float]:
    name, repeat, _ = one
    table = unit.evaluate(name, repeat)
    return one, list(summary.rows(name, repeat, table)), table.seconds


def _script(one: Unit) -> tuple[Unit, Rows, float]:
    name, repeat, _ = one
    n_labels = int(protocol.load(name, repeat).is_known.sum())
    candidates, model = protocol.script_candidates(n_labels), protocol.script_model(name)
    table = unit.evaluate(name, repeat, candidates, model)
    return one, list(summary.rows(name, repeat, table, with_parts=False)), table.seconds


def _selection(one: Unit) -> tuple[Unit, Rows, float]:
    name, repeat, _ = one
    with threadpool_limits(1):
        errors, seconds = selection.evaluate(name, repeat)
    return one, _errors(one, "rule", errors, seconds), seconds


def _grids(one: Unit) -> tuple[Unit, Rows, float]:
    name, repeat, _ = one
    errors, seconds = grids.evaluate(name, repeat)
    return one, _errors(one, "grid", errors, seconds), seconds


def _rules(one: Unit) -> tuple[Unit, Rows, float]:
    name, repeat, _ = one
    errors, seconds = rules.evaluate(name, repeat)
    return one, _errors(one, "grid", errors, seconds), seconds


def _class_rules(one: Unit) -> tuple[Unit, Rows, float]:
    name, repeat, _ = one
    errors, seconds = class_rules.evaluate(name, repeat)
    return one, _errors(one, "grid", errors, seconds), seconds


def _errors(one: Unit, kind: str, errors: dict[str, float], seconds: float) -> Rows:
    name, repeat, _ = one
    return [
        {
            "set": name,
            "repeat": repeat,
            kind: key,
            "test": f"{error:.5g}",
            "seconds": f"{seconds:.3g}",
        }
        for key, error in errors.items()
    ]


def _method(one: Unit) -> tuple[Unit, Rows, float]:
    name, repeat, method = one
    data = protocol.load(name, repeat)
    with threadpool_limits(1):
        error, seconds = peers.measure(peers.methods(name)[method], data, seed=repeat)
    row = {
        "set": name,
        "repeat": repeat,
        "method": method,
        "test": f"{error:.5g}",
        "seconds": f"{seconds:.3g}",
    }
    return one, [row], seconds


EXPERIMENTS = {
    "table1": Experiment("criteria", _criteria),
    "script": Experiment("script", _script),
    "default": Experiment("selection", _selection),
    "grids": Experiment("grids", _grids, grids.FIRST, _if_can_fit),
    "rules": Experiment("rules", _rules, rules.FIRST, _if_regression),
    "classes": Experiment("classes", _class_rules, class_rules.FIRST, _if_classes),
    "peers": Experiment("methods", _method, parts=_peers),
}


def quick() -> None:
    """A small run of everything, in a minute: no result is stored."""
    for name in ("bodyfat", "fourclass"):
        data = protocol.load(name, 0)
        candidates = protocol.candidates(name, len(data.X))
        some = [p for p in candidates if p["graph_width"] == 1.0 and p["n_neighbors"] > 4]
        table = unit.evaluate(name, 0, some)
        print(f"{name}: {len(some)} candidates, {table.n_labels} labels, {table.seconds:.0f} s")
        for row in summary.rows(name, 0, table):
            if row["t"] == 10 and row["candidates"] == "all":
                print(
                    f"  {row['criterion']:<13} test error {row['test']:<8} best possible "
                    f"{row['best_test']:<8} rank correlation {row['rank_correlation']}"
                )
        error, seconds = peers.measure(peers.onefit_laprls, data, seed=0)
        print(f"  our search    test error {error:<8.4g} in {seconds:.1f} s")


if __name__ == "__main__":
    main()
