"""``onefit demo``: select on the bundled penguins, and compare on the labels that were hidden."""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from onefit.cli.outputs import check_paths, metadata_of, write_outputs
from onefit.cli.selection import Selection, Settings, select
from onefit.cli.text import as_pairs
from onefit.datasets import load_penguins, make_partially_labeled
from onefit.preparation import Prepared, prepare

__all__ = ["run"]


def run(options: argparse.Namespace) -> None:
    """Tune and train a model of the penguins, compare with simpler ones, write model and report."""
    check_paths([options.out, options.report])
    penguins = load_penguins(as_frame=True)
    truth = penguins.target_names[penguins.target]
    kept = make_partially_labeled(
        penguins.target, n_labeled=options.labels, random_state=options.seed
    )
    if (kept != -1).all():
        raise ValueError(
            f"--labels {options.labels} keeps all labels; expected fewer than {len(truth)}, so "
            "that some are left to predict."
        )
    frame = penguins.data.assign(species=np.where(kept == -1, "", truth))
    prepared = prepare(frame, "species")
    n_known, n_hidden = int(prepared.labelled.sum()), int((~prepared.labelled).sum())
    print(
        f"Palmer penguins: {len(truth)} birds, {prepared.X.shape[1]} measurements, 3 species; the "
        f"species of\n{n_known} birds are known to the model, those of {n_hidden} are not.\n",
        flush=True,
    )
    selection = select(prepared, Settings(seed=options.seed, verbose=1))
    print(_choice(selection))
    print(_comparison(selection, truth))
    metadata = metadata_of(selection, options.words)
    files = {"out": options.out, "report": options.report}
    write_outputs(selection, metadata, title="Palmer penguins", **files)
    print(f"\nModel:  {options.out}\nReport: {options.report} (open it in a browser)")


def _choice(selection: Selection) -> str:
    search = selection.search
    n_candidates, n_folds = selection.trust.n_candidates, search.n_splits_
    lines = [
        f"{n_candidates} candidates, each cross-validated exactly on {n_folds} folds, in",
        f"{search.search_time_:.1f} seconds: {n_candidates * n_folds:,} models. The choice:",
        as_pairs(selection.best_params.items()),
    ]
    return "\n".join(lines)


def _comparison(selection: Selection, truth: np.ndarray) -> str:
    prepared, search = selection.prepared, selection.search
    known, hidden = prepared.labelled, ~prepared.labelled
    supervised = clone(search.best_estimator_).set_params(model__manifold_penalty=0.0)
    models = (
        ("most frequent species", _most_frequent(prepared, known)),
        ("the same, labels only", supervised.fit(prepared.X, prepared.y)),
        ("onefit", search),
    )
    shares = [
        (name, f"{np.mean(model.predict(prepared.X)[hidden] == truth[hidden]):.3f}")
        for name, model in models
    ]
    return f"\nShare of the hidden species named correctly\n{as_pairs(shares)}"


def _most_frequent(prepared: Prepared, known: np.ndarray) -> DummyClassifier:
    return DummyClassifier().fit(prepared.X[known], prepared.y[known].astype(str))
