"""The parser: commands, options and examples."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NoReturn

from onefit import __version__
from onefit.cli.text import parse_size

__all__ = ["FORMATS", "SHELLS", "UsageError", "make_parser"]

#: Formats of tables; named here too, so that --help needs no pandas.
FORMATS = ("csv", "tsv", "parquet", "arff", "libsvm")
#: Shells that completion is written for.
SHELLS = ("bash", "zsh", "fish")

_EXAMPLES = {
    "": """examples:
  onefit demo
  onefit select birds.csv --target species --out birds.skops --report birds.html
  onefit predict birds.skops new_birds.csv --out predictions.csv
  onefit inspect birds.skops""",
    "select": """examples:
  onefit select birds.csv --target species --out birds.skops --report birds.html
  onefit select prices.parquet --target price --task regression --out prices.skops
  xzcat rows.tsv.xz | onefit select - --format tsv --target kind --json
  onefit select big.csv --target kind --checkpoint big.ckpt --jobs 2 --results cv.csv

Rows whose target is empty are unlabelled: they are used too. A grid file is JSON, parameters with
lists of values: {"kernel_width": [1, 10], "manifold_penalty": [0, 1, 100]}.""",
    "predict": """examples:
  onefit predict birds.skops new_birds.csv --out predictions.csv
  onefit predict birds.skops new_birds.parquet --out predictions.parquet
  cat new_birds.csv | onefit predict birds.skops - > predictions.csv

All columns of DATA are kept; "prediction" is added, with a column of decision values or
probabilities for each class.""",
    "inspect": """examples:
  onefit inspect birds.skops
  onefit inspect birds.skops --json""",
    "demo": """examples:
  onefit demo
  onefit demo --labels 30 --report penguins.html --out penguins.skops""",
    "completion": """examples:
  onefit completion bash > ~/.local/share/bash-completion/completions/onefit
  onefit completion zsh > ~/.zfunc/_onefit
  onefit completion fish > ~/.config/fish/completions/onefit.fish""",
}


class UsageError(ValueError):
    """Options that make no sense; the message is one line."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of printing a page."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _number(
    kind: Callable[[str], Any], minimum: int, expected: str, maximum: float = math.inf
) -> Callable[[str], Any]:
    """A type for argparse: a number from ``minimum`` to ``maximum``."""

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{text!r}; expected {expected}")
        return value

    return parse


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _components(text: str) -> int | str:
    if text in ("auto", "exact"):
        return text
    return int(_number(int, 1, "a number of landmarks, auto or exact")(text))


def _jobs(text: str) -> int:
    number = int(_number(int, -1, "a number of processes, or -1 for all cores", 1024)(text))
    if number == 0:
        raise argparse.ArgumentTypeError("'0'; expected at least 1, or -1 for all cores")
    return number


_REPEATS = _number(int, 1, "a whole number from 1 to 1000", 1000)
_FOLDS = _number(int, 2, "a whole number of at least 2")
_SEED = _number(int, 0, "a whole number from 0 to 4294967295", 2**32 - 1)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    parser = _Parser(
        prog="onefit",
        description="Semi-supervised learning, tuned at the price of one fit.",
        epilog=_EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onefit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary, add_options in _COMMANDS:
        sub = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=_EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(sub)
    return parser


def _add_table(parser: argparse.ArgumentParser) -> None:
    data = parser.add_argument("data", metavar="DATA", help="table, or - for standard input")
    _complete_files(data)
    parser.add_argument(
        "--format", choices=FORMATS, help="format of DATA (default: by its name or first bytes)"
    )
    parser.add_argument(
        "--max-bytes",
        type=_size,
        default="2GB",
        metavar="SIZE",
        help="most that DATA may expand to (default: 2GB)",
    )


def _add_select(parser: argparse.ArgumentParser) -> None:
    _add_table(parser)
    add = parser.add_argument
    data = parser.add_argument_group("data").add_argument
    data("--target", metavar="COLUMN", help="column to predict; empty cells are unlabelled")
    data("--task", choices=("classification", "regression"), help="default: guessed")
    data(
        "--unlabeled",
        action="append",
        default=[],
        metavar="VALUE",
        help="a content of the target that also means unlabelled; may be repeated",
    )
    data("--drop", action="append", default=[], metavar="COLUMN", help="leave a column out")
    data("--keep", action="append", default=[], metavar="COLUMN", help="never leave it out")
    _add_search(parser)
    files = parser.add_argument_group("output").add_argument
    _complete_files(files("--out", metavar="MODEL", help="write the model (skops)"))
    _complete_files(files("--report", metavar="HTML", help="write the report"))
    _complete_files(files("--results", metavar="CSV", help="write the score of every candidate"))
    add("--json", action="store_true", help="print one JSON object, and nothing else")
    add("--quiet", action="store_true", help="print nothing; no progress")


def _add_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("search").add_argument
    models = ("laprls", "lapsvc", "laplogistic")
    add("--model", choices=models, default="laprls", help="estimator (default: laprls)")
    add("--grid", default="default", help="default, paper, or a JSON file (default: default)")
    add("--folds", type=_FOLDS, help="folds (default: 10, or the number of labels if fewer)")
    add(
        "--repeats",
        type=_REPEATS,
        help="repeats of the folds (default: 5 for laprls, else 3; 1 with points)",
    )
    criteria = ("exact", "bif", "newton", "certified")
    add("--criterion", choices=criteria, default="exact", help="default: exact")
    add("--holdout", choices=("labels", "points"), default="labels", help="default: labels")
    add(
        "--scoring",
        help="a scorer of scikit-learn (default: accuracy, or neg_mean_squared_error)",
    )
    add("--seed", type=_SEED, default=0, help="seed of folds and landmarks (default: 0)")
    add("--jobs", type=_jobs, metavar="N", help="processes (default: 1; -1: all cores)")
    add(
        "--components",
        type=_components,
        default="auto",
        metavar="N",
        help="landmarks of the Nystrom approximation; exact: none; auto: exact for up to 3,000 "
        "rows, else 500 (default: auto)",
    )
    add("--memory-limit", type=_size, metavar="SIZE", help="memory for bases, such as 4GB")
    _complete_files(
        add("--checkpoint", metavar="FILE", help="keep finished work here, and go on from it")
    )


def _add_predict(parser: argparse.ArgumentParser) -> None:
    _complete_files(parser.add_argument("model", metavar="MODEL", help="model file"))
    _add_table(parser)
    out = parser.add_argument(
        "--out", default="-", metavar="FILE", help="CSV, TSV or Parquet (default: - , CSV)"
    )
    _complete_files(out)
    parser.add_argument("--quiet", action="store_true", help="do not say what was written")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    _complete_files(parser.add_argument("model", metavar="MODEL", help="model file"))
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--labels", type=int, default=12, help="labels to keep (default: 12)")
    parser.add_argument("--seed", type=_SEED, default=0, help="which labels to keep (default: 0)")
    model, report = "onefit-demo.skops", "onefit-demo.html"
    _complete_files(parser.add_argument("--out", default=model, help=f"default: {model}"))
    _complete_files(parser.add_argument("--report", default=report, help=f"default: {report}"))


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def _complete_files(action: Any) -> None:
    """Mark an option for shtab: its value is a file."""
    action.complete = {
        "bash": "_shtab_compgen_files",
        "zsh": "_files",
        "fish": "__fish_complete_path",
    }


_COMMANDS: tuple[tuple[str, str, Callable[[argparse.ArgumentParser], None]], ...] = (
    ("select", "tune and train a model on a table with few labels", _add_select),
    ("predict", "add predictions to a table", _add_predict),
    ("inspect", "say what a model file holds", _add_inspect),
    ("demo", "select and train a model on data that ship with the package", _add_demo),
    ("completion", "print completions for a shell", _add_completion),
)
