"""The command ``onefit``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefit import LapRLSClassifier, ManifoldSearchCV, __version__
from onefit.datasets import load_penguins, make_partially_labeled

__all__ = ["main"]


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
        _demo(options.labels, options.seed)
    except ValueError as error:
        print(f"onefit: {error}", file=sys.stderr)
        return 2
    return 0


def _demo(n_labels: int, seed: int) -> None:
    """Tune and train a model of the penguins, and compare with simpler ones."""
    X, truth = load_penguins(return_X_y=True)
    y = make_partially_labeled(truth, n_labeled=n_labels, random_state=seed)
    known = y != -1
    print(f"Palmer penguins: {len(y)} birds, {X.shape[1]} measurements, 3 species; the species of")
    print(f"{known.sum()} birds are known to the model, those of {(~known).sum()} are not.\n")
    pipeline = make_pipeline(StandardScaler(), LapRLSClassifier())
    search = ManifoldSearchCV(pipeline, random_state=seed, verbose=1).fit(X, y)
    n_candidates, n_folds = len(search.cv_results_["params"]), search.n_splits_
    print(f"{n_candidates} candidates, each cross-validated exactly on {n_folds} folds, in")
    print(f"{search.search_time_:.1f} seconds: {n_candidates * n_folds:,} models. The choice:")
    for name, value in search.best_params_.items():
        shown = f"{value:.4g}" if isinstance(value, float) else value
        print(f"  {name.split('__')[-1]:<17} {shown}")
    chosen = {**search.best_params_, "laprlsclassifier__manifold_penalty": 0.0}
    supervised = pipeline.set_params(**chosen)
    print("\nShare of the hidden species named correctly")
    for name, model in (
        ("most frequent species", DummyClassifier().fit(X[known], y[known])),
        ("the same, labels only", supervised.fit(X, y)),
        ("onefit", search),
    ):
        print(f"  {name:<22} {np.mean(model.predict(X)[~known] == truth[~known]):.3f}")


if __name__ == "__main__":
    sys.exit(main())
