"""Run the paper's experiments; killed and started again, it goes on where it was.

    python -m experiments.run quick            # two small sets, few candidates, one repeat
    python -m experiments.run table1 --jobs 2  # all 18 sets, 30 repeats

Run it at the root of the repository, with the data (see ``load_libsvm_data``) in the folder that
ONEFIT_DATA names, or with a network. Results go to experiments/results, one CSV file for each set;
``python -m experiments.analyse`` and ``python -m experiments.plot`` make the tables and figures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from experiments import protocol, store, summary, unit
from joblib import Parallel, delayed
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Unit = tuple[str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=["quick", "table1"])
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--repeats", type=int, default=protocol.REPEATS, help="default: 30")
    parser.add_argument("--sets", nargs="+", help="data sets (default: all 18)")
    parser.add_argument("--results", type=Path, default=store.RESULTS, help="folder for results")
    options = parser.parse_args()
    if options.experiment == "quick":
        quick()
        return
    names = options.sets or protocol.names()
    waiting = list(_waiting(names, options.repeats, options.results))
    print(f"{len(waiting)} of {len(names) * options.repeats} units to do")
    run(waiting, options.jobs, options.results)


def _waiting(names: list[str], repeats: int, results: Path) -> Iterator[Unit]:
    """Units not done, repeat by repeat, so that all sets are equally far at any stop."""
    done = {
        name: {int(row["repeat"]) for row in store.read(_path(results, name))} for name in names
    }
    for repeat in range(repeats):
        for name in names:
            if repeat not in done[name]:
                yield name, repeat


def _path(results: Path, name: str) -> Path:
    return results / "criteria" / f"{name}.csv"


def run(units: list[Unit], n_jobs: int, results: Path) -> None:
    """Evaluate units in parallel and store each as it comes."""
    store.record_machine("criteria")
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeRemainingColumn()) as progress:
        bar = progress.add_task("units", total=len(units))
        calls = (delayed(_evaluate)(name, repeat) for name, repeat in units)
        for (name, repeat), rows, seconds in Parallel(
            n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs"
        )(calls):
            store.append(_path(results, name), rows)
            progress.update(bar, advance=1, description=f"{name} {repeat}")
            print(
                f"{time.strftime('%H:%M:%S')} {name} repeat {repeat}: {seconds:.0f} s", flush=True
            )


def _evaluate(name: str, repeat: int):
    table = unit.evaluate(name, repeat)
    return (name, repeat), list(summary.rows(name, repeat, table)), table.seconds


def quick() -> None:
    """A small run of everything, in a minute: no result is stored."""
    for name in ("bodyfat", "fourclass"):
        data = protocol.load(name, 0)
        candidates = protocol.candidates(name, len(data.X))
        some = [p for p in candidates if p["graph_width"] == 1.0 and p["n_neighbors"] > 2]
        table = unit.evaluate(name, 0, some)
        print(f"{name}: {len(some)} candidates, {table.n_labels} labels, {table.seconds:.0f} s")
        for row in summary.rows(name, 0, table):
            if row["t"] == 10 and row["candidates"] == "all":
                print(
                    f"  {row['criterion']:<13} test error {row['test']:<8} best possible "
                    f"{row['best_test']:<8} rank correlation {row['rank_correlation']}"
                )


if __name__ == "__main__":
    main()
