"""The order of the gallery: the easiest first."""

from pathlib import Path

ORDER = (
    "plot_two_moons.py",
    "plot_when_it_hurts.py",
    "plot_digits.py",
    "plot_regression.py",
    "plot_precomputed_graph.py",
    "plot_text_sparse.py",
    "plot_large_nystrom.py",
)


class ExampleOrder:
    """Sort key of sphinx-gallery; an example that is not listed is an error."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        return ORDER.index(Path(filename).name)
