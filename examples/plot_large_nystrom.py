"""
Large data: landmarks instead of all rows
=========================================

An exact basis needs time in the cube and memory in the square of the number of rows. With
``n_components=c`` the kernel is replaced by its Nyström approximation on ``c`` landmark rows, and
both become linear in the number of rows.
"""

# %%
# 20,000 rows on two interleaved half circles, with a column of noise, and 12 labels. An exact basis
# would need about 19 GB.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from onefit import LapRLSClassifier, ManifoldSearchCV
from onefit.datasets import make_partially_labeled

N_ROWS = 20_000
moons, truth = make_moons(N_ROWS, noise=0.12, random_state=0)
X = np.hstack([moons, 0.2 * np.random.default_rng(0).normal(size=(N_ROWS, 1))])

# %%
# A search over 15 pairs of penalties for each number of landmarks and each draw of the labels; and
# for comparison a model that is given the labelled rows and nothing else. The manifold term of the
# objective is divided by the square of the number of rows, so many rows want larger penalties.

GRID = {
    "ambient_penalty": [1e-5, 1e-4, 1e-3],
    "manifold_penalty": [0.0, 1e3, 1e4, 1e5, 1e6],
}
LANDMARKS, N_DRAWS = (10, 30, 100, 200), 3
seconds, accuracy = np.empty((2, len(LANDMARKS), N_DRAWS))
labels_only = np.empty(N_DRAWS)
for draw in range(N_DRAWS):
    y = make_partially_labeled(truth, n_labeled=12, random_state=draw)
    known = y != -1
    for line, n_components in enumerate(LANDMARKS):
        model = LapRLSClassifier(kernel_width=0.2, n_components=n_components, random_state=draw)
        start = time.perf_counter()
        search = ManifoldSearchCV(model, GRID, random_state=0).fit(X, y)
        seconds[line, draw] = time.perf_counter() - start
        accuracy[line, draw] = (search.best_estimator_.transduction_ == truth)[~known].mean()
    alone = ManifoldSearchCV(
        LapRLSClassifier(kernel_width=0.2, n_neighbors=1),
        GRID | {"manifold_penalty": [0.0]},
        random_state=0,
    ).fit(X[known], y[known])
    labels_only[draw] = (alone.predict(X[~known]) == truth[~known]).mean()

for line, n_components in enumerate(LANDMARKS):
    print(
        f"{n_components:4d} landmarks: {np.median(seconds[line]):.1f} s, accuracy "
        + ", ".join(f"{value:.3f}" for value in accuracy[line])
    )
print("   labels only: accuracy " + ", ".join(f"{value:.3f}" for value in labels_only))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(LANDMARKS, accuracy, "o", color="C0", alpha=0.5)
left.plot(LANDMARKS, accuracy.mean(axis=1), color="C0", label="with the graph")
left.axhline(labels_only.mean(), color="C1", linestyle="--", label="labels only")
left.set(ylabel="accuracy on unlabelled rows", ylim=(None, 1.01))
left.legend()
right.plot(LANDMARKS, np.median(seconds, axis=1), marker="o")
right.set(ylabel="seconds for a search", ylim=(0, None))
for ax in (left, right):
    ax.set_xscale("log")
    ax.set_xticks(LANDMARKS, [str(c) for c in LANDMARKS])
    ax.minorticks_off()
    ax.set_xlabel("landmarks")

# %%
# With 10 or 30 landmarks the model is too coarse to use the graph. With 200 the graph adds about
# two per cent. Which twelve rows were labelled matters more than the number of landmarks: the dots
# of a column are further apart than the ends of the line. Up to a hundred landmarks most of the
# time goes into finding neighbours.
#
# Rules of thumb: exact up to some 3,000 rows; above that start with a few hundred landmarks and
# double them until the cross-validated score stops rising. ``landmarks="rpcholesky"`` needs fewer
# landmarks than a uniform sample once the error is to be small.
