"""What tests of searches share: candidates, folds, a scorer."""

from onefit import SemiSupervisedKFold

GRID = {
    "kernel_width": [0.1, 1.0],
    "ambient_penalty": [1e-4, 1e-2],
    "manifold_penalty": [0.0, 1.0, 100.0],
    "graph_width": [0.05],
}
CV = SemiSupervisedKFold(4, shuffle=True, random_state=0)


class Quiet:
    """A scorer whose repr says nothing."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Quiet()"

    def __call__(self, estimator, X, y):
        return self.value

    def score(self, estimator, X, y):
        return self.value
