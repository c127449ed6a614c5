"""Mutation testing of losses, basis, solvers and criteria (``pip install cosmic-ray``).

    python benchmarks/mutation.py [--again]

Mutants come from cosmic-ray's operators, one change each: a number plus or minus one, an operator
replaced by its neighbour, a condition negated, a loop left out. Type annotations and texts are not
changed. Nothing is changed on disk: tests are collected once, and a mutant is a forked process that
puts the other code in the place of the module's and runs the tests that call the changed function,
the quickest first, up to the first failure. Results go to benchmarks/results/mutation.json; the
reasons that it gives for survivors are written by hand, and kept. With ``--again`` only survivors
are run that are not said to be equivalent, for tests that were added.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.metadata
import inspect
import itertools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from common import RESULTS, load, save
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "onefit"

#: Files of every part.
PARTS = {
    "losses": "losses.py",
    "basis": "basis.py",
    "solvers": "solvers/*.py",
    "criteria": "criteria/*.py",
}
#: Tests that have to kill the mutants, without those that are slow or of other modules.
TESTS = ["losses", "solvers", "basis", "criteria", "crossval", "fits"]
LEFT_OUT = "not Landmarks and not error_falls and not RealData and not test_holds_for_every"
#: So many cases of a parametrised test.
CASES = 5
#: The quickest tests that see a mutant are run, of so many CPU seconds together.
BUDGET = 6.0
#: CPU seconds that a mutant may take beyond ten times those of its tests.
PATIENCE = 10.0
#: Arguments of SciPy that say how something is computed, and not what.
FLAGS = {"check_finite", "overwrite_a", "overwrite_b"}

SWAPS = {
    "ReplaceBinaryOperator": [
        ("Add", "Sub"),
        ("Sub", "Add"),
        ("Mul", "Div"),
        ("Div", "Mul"),
        ("Pow", "Mul"),
        ("FloorDiv", "Div"),
        ("Mod", "Mul"),
        ("BitAnd", "BitOr"),
        ("BitOr", "BitAnd"),
    ],
    "ReplaceComparisonOperator": [
        ("Lt", "LtE"),
        ("Lt", "GtE"),
        ("LtE", "Lt"),
        ("LtE", "Gt"),
        ("Gt", "GtE"),
        ("Gt", "LtE"),
        ("GtE", "Gt"),
        ("GtE", "Lt"),
        ("Eq", "NotEq"),
        ("NotEq", "Eq"),
        ("Is", "IsNot"),
        ("IsNot", "Is"),
    ],
    "ReplaceUnaryOperator": [
        ("USub", "UAdd"),
        ("Delete", "Not"),
        ("Delete", "Invert"),
    ],
}
OPERATORS = [f"{kind}_{a}_{b}" for kind, pairs in SWAPS.items() for a, b in pairs] + [
    "NumberReplacer",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "AddNot",
    "ZeroIterationForLoop",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
]


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    before: str
    after: str
    function: str
    is_same: bool
    source: str

    @property
    def key(self) -> str:
        """What it is called in the results."""
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"


def part_mutants(part: str) -> list[Mutant]:
    """All mutants of a part."""
    return [mutant for file in part_files(part) for mutant in mutants(file)]


def part_files(part: str) -> list[str]:
    """Files of a part, relative to the package, without those that only collect names."""
    paths = [path for path in sorted(SOURCE.glob(PARTS[part])) if path.name != "__init__.py"]
    return [path.relative_to(SOURCE).as_posix() for path in paths]


def mutants(file: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = (SOURCE / file).read_text(encoding="utf-8")
    original = program(source)
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        positions = [p for node in ast_nodes(get_ast(source)) for p in positions_at(operator, node)]
        for occurrence, (line, _) in enumerate(positions):
            changed = mutate_code(source, operator, occurrence)
            before, after = (text.splitlines()[line - 1].strip() for text in (source, changed))
            function, is_same = function_at(source, file, line), program(changed) == original
            yield Mutant(file, line, before, after, function, is_same, changed)


def positions_at(operator: Any, node: Any) -> list[tuple[int, int]]:
    """Where the operator would change this node."""
    return [start for start, _ in operator.mutation_positions(node)]


def program(source: str) -> str:
    """What Python makes of a source, without annotations, kinds of parameters, and flags."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arguments):
            node.args = node.posonlyargs + node.args + node.kwonlyargs
            node.defaults += [default for default in node.kw_defaults if default is not None]
            node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in FLAGS]
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def function_at(source: str, file: str, line: int) -> str:
    """Where the function begins that has this line; nothing outside of functions."""
    for node in ast.walk(ast.parse(source)):  # breadth first: nested functions come later
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= line <= node.end_lineno:
                return f"{file}:{first}"
    return ""


class Runner:
    """Takes the place of pytest's loop over the tests: runs them once for every mutant."""

    def __init__(self, chosen: list[Mutant], jobs: int) -> None:
        self.chosen, self.jobs, self.n_tests = chosen, jobs, 0
        self.outcomes: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep some cases of every test."""
        functions: dict[str, list[pytest.Item]] = {}
        for item in items:
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
        rng = random.Random(0)  # noqa: S311 - which cases of a test
        items[:] = [
            case for cases in functions.values() for case in rng.sample(cases, len(cases))[:CASES]
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests as they are, then those that see a mutant for every mutant."""
        calls, self.n_tests = traced_run(session), len(session.items)
        running: dict[int, Mutant] = {}
        for mutant in self.chosen:
            if len(running) == self.jobs:
                self.wait(running)
            items = [i for i in session.items if mutant.function in ("", *calls[i.nodeid][1])]
            items.sort(key=lambda item: calls[item.nodeid][0])
            total = itertools.accumulate(calls[item.nodeid][0] for item in items)
            items = [item for item, so_far in zip(items, total, strict=True) if so_far <= BUDGET]
            pid = os.fork()
            if pid == 0:
                run_mutant(session, items, mutant, int(PATIENCE + 10.0 * BUDGET))
            running[pid] = mutant
        while running:
            self.wait(running)
        return True

    def wait(self, running: dict[int, Mutant]) -> None:
        """Note how one of the processes ended."""
        pid, status = os.wait()
        mutant = running.pop(pid)
        is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        outcome = "timeout" if is_late else "killed" if status else "survived"
        self.outcomes[mutant.key] = outcome
        print(f"{len(self.outcomes)}/{len(self.chosen)} {outcome}: {mutant.key}", flush=True)


def traced_run(session: pytest.Session) -> dict[str, tuple[float, list[str]]]:
    """CPU seconds of every test, and the functions that it calls, as :func:`function_at` has them.

    In a process of its own, so that nothing is cached that a mutant would have computed otherwise;
    with all code transplanted, but unchanged, so that this alone makes no test fail.
    """
    with tempfile.NamedTemporaryFile("r+", suffix=".json") as output:
        pid = os.fork()
        if pid == 0:
            for file in (file for part in PARTS for file in part_files(part)):
                transplant(file, (SOURCE / file).read_text(encoding="utf-8"))
            result = [traced_item(session, item) for item in session.items]
            Path(output.name).write_text(json.dumps(dict(result)), encoding="utf-8")
            os._exit(int(session.testsfailed > 0))
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError("The tests fail as they are.")
        return json.load(output)


def traced_item(session: pytest.Session, item: pytest.Item) -> tuple[str, Any]:
    """One entry of :func:`traced_run`."""
    calls: set[str] = set()
    start = time.process_time()
    sys.setprofile(lambda frame, event, _: note(frame.f_code, calls) if event == "call" else None)
    run_item(session, item)
    sys.setprofile(None)
    return item.nodeid, (time.process_time() - start, sorted(calls))


def note(code: types.CodeType, calls: set[str]) -> None:
    """Add a function of the package."""
    if code.co_filename.startswith(str(SOURCE)):
        calls.add(f"{Path(code.co_filename).relative_to(SOURCE)}:{code.co_firstlineno}")


def run_item(session: pytest.Session, item: pytest.Item) -> None:
    """One test, with what it has set up taken down."""
    session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def run_mutant(
    session: pytest.Session, items: list[pytest.Item], mutant: Mutant, cpu_seconds: int
) -> None:
    """In a process of its own: exit with 1 at the first failure, with 0 if there is none."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        transplant(mutant.file, mutant.source)
        for item in items:
            run_item(session, item)
            if session.testsfailed:
                os._exit(1)
        os._exit(0)
    except BaseException:
        os._exit(1)


def transplant(file: str, source: str) -> None:
    """Put another source's code into the functions and classes that other modules have imported."""
    name = "onefit." + file.removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name)
    before = dict(vars(module))
    exec(compile(source, str(SOURCE / file), "exec"), vars(module))  # noqa: S102
    for key, old in before.items():
        if getattr(old, "__module__", None) != name or getattr(old, "_is_protocol", False):
            continue
        new = vars(module)[key]
        if isinstance(old, types.FunctionType):
            old_function, new_function = inspect.unwrap(old), inspect.unwrap(new)
            for attribute in ("__code__", "__defaults__", "__kwdefaults__"):
                setattr(old_function, attribute, getattr(new_function, attribute))
        elif isinstance(old, type):
            for attribute in vars(old).keys() - vars(new).keys():
                delattr(old, attribute)
            for attribute, value in vars(new).items():
                if attribute not in ("__dict__", "__weakref__"):
                    setattr(old, attribute, value)
        else:
            continue
        setattr(module, key, old)


def summary(
    every: list[Mutant], outcomes: dict[str, str], reasons: dict[str, str]
) -> dict[str, Any]:
    """Counts, and rates in percent; mutants that change nothing are not counted in the second."""
    part = [mutant for mutant in every if not mutant.is_same]
    found = [outcomes.get(mutant.key, "killed") for mutant in part]
    why = [reasons.get(m.key, "") for m, how in zip(part, found, strict=True) if how == "survived"]
    equivalent = sum(reason.startswith("equivalent") for reason in why)
    dead = len(part) - found.count("survived")
    return {
        "skipped": len(every) - len(part),
        "mutants": len(part),
        "killed": found.count("killed"),
        "timeout": found.count("timeout"),
        "survived": found.count("survived"),
        "equivalent": equivalent,
        "rate": round(100.0 * dead / len(part), 1),
        "rate_without_equivalent": round(100.0 * dead / (len(part) - equivalent), 1),
    }


def record(parts: dict[str, list[Mutant]], known: dict[str, Any], runner: Runner) -> None:
    """Write the results; what was killed before and not run again stays killed."""
    reasons = {one["mutant"]: one["reason"] for one in known.get("survivors", [])}
    outcomes = dict.fromkeys(known.get("timeouts", []), "timeout")
    outcomes |= dict.fromkeys(reasons, "survived") | runner.outcomes
    every = [mutant.key for part in parts.values() for mutant in part if not mutant.is_same]
    survivors = [key for key in every if outcomes.get(key) == "survived"]
    save(
        "mutation",
        {
            "date": time.strftime("%Y-%m-%d"),
            "tool": f"cosmic-ray {importlib.metadata.version('cosmic-ray')}",
            "operators": OPERATORS,
            "tests": {
                "files": TESTS,
                "chosen": LEFT_OUT,
                "cases": CASES,
                "number": runner.n_tests,
                "seconds": BUDGET,
            },
            "parts": {name: summary(part, outcomes, reasons) for name, part in parts.items()},
            "timeouts": [key for key in every if outcomes.get(key) == "timeout"],
            "survivors": [{"mutant": key, "reason": reasons.get(key, "")} for key in survivors],
        },
    )


def main() -> None:
    """Run the mutants, or those that survived the last time, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--again", action="store_true", help="only those that survived, but should not"
    )
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    known = load("mutation") if (RESULTS / "mutation.json").exists() else {}
    old = known.get("survivors", [])
    open_cases = {one["mutant"] for one in old if not one["reason"].startswith("equivalent")}
    parts = {part: part_mutants(part) for part in PARTS}
    every = [m for part in parts.values() for m in part if not m.is_same]
    runner = Runner([m for m in every if not options.again or m.key in open_cases], options.jobs)
    arguments = ["-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-o", "addopts=", "-k", LEFT_OUT]
    tests = [str(ROOT / "tests" / f"test_{name}.py") for name in TESTS]
    pytest.main([*arguments, *tests], plugins=[runner])
    record(parts, known if options.again else {"survivors": known.get("survivors", [])}, runner)


if __name__ == "__main__":
    main()
