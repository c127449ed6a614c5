"""The command ``onefit``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.preprocessing import StandardScaler

from onefit import LapRLSClassifier, RepeatedSemiSupervisedKFold, __version__, cross_val_decisions
from onefit._threads import blas_threads
from onefit._typing import FloatArray, IntArray
from onefit.datasets import load_penguins, make_partially_labeled
from onefit.kernels import median_squared_distance

__all__ = ["main"]

_WIDTH_FACTORS = (0.25, 1.0, 4.0)
_AMBIENT = (1e-5, 1e-4, 1e-3, 1e-2)
_MANIFOLD = (0.0, 1.0, 10.0, 100.0, 1000.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="onefit", description="Semi-supervised learning, tuned at the price of one fit."
    )
    parser.add_argument("--version", action="version", version=f"onefit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="select and train a model on data that ship with the package"
    )
    demo.add_argument("--labels", type=int, default=12, help="labels to keep (default: 12)")
    demo.add_argument("--seed", type=int, default=0, help="which labels to keep (default: 0)")
    options = parser.parse_args(arguments)
    try:
        with blas_threads(1):
            _demo(options.labels, options.seed)
    except ValueError as error:
        print(f"onefit: {error}", file=sys.stderr)
        return 2
    return 0


def _demo(n_labels: int, seed: int) -> None:
    """Choose widths and penalties for the penguins by exact repeated cross-validation."""
    X, truth = load_penguins(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    y = make_partially_labeled(truth, n_labeled=n_labels, random_state=seed)
    known = y != -1
    print(f"Palmer penguins: {len(y)} birds, {X.shape[1]} measurements, 3 species; the species of")
    print(f"{known.sum()} birds are known to the model, those of {(~known).sum()} are not.\n")
    best, n_candidates, n_folds = _select(X, y, seed)
    model = best.fit(X, y)
    majority = DummyClassifier().fit(X[known], y[known])
    supervised = LapRLSClassifier(**{**best.get_params(), "manifold_penalty": 0.0}).fit(X, y)
    print(f"Exact cross-validation of {n_candidates} candidates on {n_folds} folds chose")
    for name in ("kernel_width", "ambient_penalty", "manifold_penalty"):
        print(f"  {name:<17} {getattr(model, name):.4g}")
    print("\nShare of the hidden species named correctly")
    for name, predicted in (
        ("most frequent species", majority.predict(X)),
        ("the same, labels only", supervised.transduction_),
        ("onefit", model.transduction_),
    ):
        print(f"  {name:<22} {np.mean(predicted[~known] == truth[~known]):.3f}")


def _select(X: FloatArray, y: IntArray, seed: int) -> tuple[LapRLSClassifier, int, int]:
    """The candidate with the least held-out 0-1 error, ties broken by the squared error."""
    known = y != -1
    signs = np.where(y[known, None] == np.unique(y[known]), 1.0, -1.0)
    cv = RepeatedSemiSupervisedKFold(n_splits=int(known.sum()) // 2, n_repeats=3, random_state=seed)
    median = median_squared_distance(X)
    candidates = [
        LapRLSClassifier(
            kernel_width=factor * median, ambient_penalty=ambient, manifold_penalty=manifold
        )
        for factor, ambient, manifold in product(_WIDTH_FACTORS, _AMBIENT, _MANIFOLD)
    ]

    def errors(candidate: LapRLSClassifier) -> tuple[float, float]:
        held_out = cross_val_decisions(candidate, X, y, cv=cv).predictions[known]
        wrong = np.mean(held_out.argmax(axis=1) != signs.argmax(axis=1))
        return float(wrong), float(np.mean(np.square(held_out - signs)))

    return min(candidates, key=errors), len(candidates), cv.get_n_splits()


if __name__ == "__main__":
    sys.exit(main())
