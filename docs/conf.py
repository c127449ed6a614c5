"""Configuration of the Sphinx documentation."""

import re
from importlib.metadata import version as installed_version

project = "onefit"
author = "The onefit developers"
project_copyright = "2026, The onefit developers"
release = installed_version("onefit")
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "tables"]

# Equations are numbered in order of appearance; docstrings cite these numbers.
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "onefit"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
}


def skip_inherited_plumbing(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator (metadata routing)."""
    if name == "get_metadata_routing" or re.fullmatch(r"set_\w+_request", name):
        return True
    return skip


def unlink_foreign_references(app, what, name, obj, options, lines):
    """Turn references into scikit-learn's own documentation into plain text."""
    if str(getattr(obj, "__module__", "")).startswith("sklearn") or what == "property":
        lines[:] = [re.sub(r":ref:`([^`<]*?)\s*<[^`]*>`", r"\1", line) for line in lines]
        lines[:] = [re.sub(r":term:`([^`]*)`", r"``\1``", line) for line in lines]


def setup(app):
    """Connect the hooks above."""
    app.connect("autodoc-skip-member", skip_inherited_plumbing)
    app.connect("autodoc-process-docstring", unlink_foreign_references)
