"""
When unlabelled data do not help, and when they hurt
====================================================

The manifold penalty assumes that rows which are close in the graph have similar targets, and that
classes meet where data are thin. Here are three data sets in the plane: one where this is true,
one where it says nothing, and one where it is false.
"""

# %%
# In *moons* each class is a curve of its own. In *one cloud* the border runs through the densest
# part of a single Gaussian cloud. In *wrong clusters* there are two clear clusters, and both are
# cut in half by the border.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from onefit import LapRLSClassifier, ManifoldSearchCV
from onefit.datasets import make_partially_labeled

N_ROWS, N_LABELS, N_DRAWS = 300, 12, 10
PENALTIES = [0.0, *(10.0**i for i in range(-1, 6))]


def moons(seed):
    return make_moons(N_ROWS, noise=0.1, random_state=seed)


def one_cloud(seed):
    X = np.random.default_rng(seed).normal(size=(N_ROWS, 2))
    return X, (X.sum(axis=1) > 0).astype(int)


def wrong_clusters(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=(0.3, 1.0), size=(N_ROWS, 2))
    X[:, 0] += 3.0 * rng.integers(0, 2, N_ROWS)
    return X, (X[:, 1] > 0).astype(int)


makers = {"moons": moons, "one cloud": one_cloud, "wrong clusters": wrong_clusters}

# %%
# For each we draw the labels several times, fit with growing manifold penalties, and count how many
# unlabelled rows are right. The search chooses among the same penalties by cross-validation.

accuracy = {name: np.empty((N_DRAWS, len(PENALTIES))) for name in makers}
searched = {name: np.empty(N_DRAWS) for name in makers}
for name, make in makers.items():
    for draw in range(N_DRAWS):
        X, truth = make(draw)
        y = make_partially_labeled(truth, n_labeled=N_LABELS, random_state=draw)
        for column, penalty in enumerate(PENALTIES):
            model = LapRLSClassifier(kernel_width=0.1, manifold_penalty=penalty).fit(X, y)
            accuracy[name][draw, column] = (model.transduction_ == truth)[y == -1].mean()
        search = ManifoldSearchCV(
            LapRLSClassifier(kernel_width=0.1), {"manifold_penalty": PENALTIES}, random_state=0
        ).fit(X, y)
        searched[name][draw] = (search.best_estimator_.transduction_ == truth)[y == -1].mean()

# %%
# Left of the gap is the penalty 0, that is, labels only. Bars are one standard error over the
# draws. The dashed line is what the search reaches.

fig, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained", height_ratios=(1, 1.2))
at = np.array([-2.5, *range(-1, 6)])
for (name, make), (top, bottom) in zip(makers.items(), axes.T, strict=True):
    X, truth = make(0)
    top.scatter(*X.T, c=truth, cmap="coolwarm", s=8)
    top.set(title=name, xticks=[], yticks=[])
    mean = accuracy[name].mean(axis=0)
    error = accuracy[name].std(axis=0, ddof=1) / np.sqrt(N_DRAWS)
    for part in (slice(0, 1), slice(1, None)):
        bottom.errorbar(at[part], mean[part], error[part], color="C0", marker="o", capsize=2)
    bottom.axhline(searched[name].mean(), color="C1", linestyle="--", label="search")
    bottom.set(ylim=(0.45, 1.02), xlabel="manifold penalty")
    bottom.set_xticks([-2.5, 0, 2, 4], ["0", "1", "$10^2$", "$10^4$"])
    print(
        f"{name:15s} labels only {mean[0]:.3f}, best penalty {mean.max():.3f}, "
        f"largest {mean[-1]:.3f}, search {searched[name].mean():.3f}"
    )
axes[1, 0].set_ylabel("accuracy on unlabelled rows")
_ = axes[1, 0].legend(loc="lower left")

# %%
# *Moons*: the graph takes away most of the errors. *One cloud*: a moderate penalty changes little,
# a large one hurts, because the border has to cross many edges wherever it runs. *Wrong clusters*:
# the graph never helps, and a large penalty gives each cluster one class, which is wrong for half
# of it.
#
# The search sees the labels only, and yet it avoids the harm: 0 is among its candidates, and large
# penalties lose held-out labels. It is not a guarantee. With a handful of labels the scores are
# coarse, and the choice between penalties of nearly the same score is a matter of luck.
