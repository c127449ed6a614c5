"""Bundled data as tables of every kind of file, most of the targets empty."""

import io
import lzma

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.datasets import dump_svmlight_file


def mostly_empty(target, share=0.3, seed=0):
    """Cells of a target of which most are empty."""
    known = np.random.default_rng(seed).random(len(target)) < share
    return np.where(known, np.asarray(target).astype(str), "")


def bundled(name):
    bunch = getattr(datasets, f"load_{name}")()
    names = [f"column {i}" for i in range(bunch.data.shape[1])]
    rows = np.random.default_rng(0).permutation(len(bunch.target))[:200]
    target = bunch.target[rows]
    if name != "diabetes":
        target = np.asarray(bunch.target_names)[target]
    return pd.DataFrame(bunch.data[rows], columns=names), target


def write_csv(folder, name):
    X, target = bundled(name)
    path = folder / f"{name}.csv"
    X.assign(target=mostly_empty(target)).to_csv(path, index=False)
    return str(path)


def write_tsv(folder, name):
    X, target = bundled(name)
    path = folder / f"{name}.tsv.gz"
    X.assign(target=mostly_empty(target)).to_csv(path, index=False, sep="\t")
    return str(path)


def write_parquet(folder, name):
    X, target = bundled(name)
    path = folder / f"{name}.parquet"
    cells = pd.Series(mostly_empty(target))
    X.assign(target=cells.where(cells != "", None)).to_parquet(path)
    return str(path)


def write_arff(folder, name):
    X, target = bundled(name)
    names = ",".join(sorted({str(one) for one in target}))
    lines = ["@relation r", *(f"@attribute '{column}' numeric" for column in X)]
    lines += [f"@attribute target {{{names}}}", "@data"]
    cells = [cell or "?" for cell in mostly_empty(target)]
    lines += [
        ",".join([*map(str, row), cell]) for row, cell in zip(X.to_numpy(), cells, strict=True)
    ]
    path = folder / f"{name}.arff"
    path.write_text("\n".join(lines))
    return str(path)


def write_libsvm(folder, name):
    X, target = bundled(name)
    known = mostly_empty(target) != ""
    buffer = io.BytesIO()
    dump_svmlight_file(X.to_numpy(), np.where(known, target, 999), buffer, zero_based=False)
    path = folder / f"{name}.xz"
    path.write_bytes(lzma.compress(buffer.getvalue()))
    return str(path)


FILES = {
    "iris": (write_tsv, "classification", 0.85),
    "wine": (write_parquet, "classification", 0.85),
    "breast_cancer": (write_arff, "classification", 0.85),
    "digits": (write_csv, "classification", 0.6),
    "diabetes": (write_libsvm, "regression", None),
}
