"""Configuration of the Sphinx documentation."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

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
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "tables", "auto_examples/*.ipynb", "auto_examples/*.py"]

# Equations are numbered in order of appearance; docstrings cite these numbers.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# What a docstring of the public API has to have; with -W a breach fails the build.
numpydoc_validation_checks = {
    "GL03",  # no double blank lines
    "GL06",  # sections have known names
    "GL07",  # and come in the usual order
    "GL08",  # there is a docstring
    "PR01",  # every parameter is documented
    "PR02",  # and no other
    "PR03",  # in the order of the signature
    "PR04",  # with a type
    "PR06",  # under its usual name
    "PR07",  # and a description
    "RT01",  # so is what is returned
    "SS01",  # there is a summary
    "SS03",  # that ends with a full stop
    "SS06",  # and fits in one line
    "YD01",  # so is what is yielded
}
# Inherited from scikit-learn; a dataclass that documents its fields as attributes.
numpydoc_validation_exclude = {
    r"\.(get_params|set_params|score|inverse_transform|transform|score_samples)$",
    r"ManifoldSearchCV\.(predict\w*|decision_function|classes_|n_features_in_)$",
    r"HeldOutDecisions",
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "gallery_order.ExampleOrder",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "doc_module": ("onefit",),
    "backreferences_dir": "generated/backreferences",
    "inspect_global_variables": False,
    "write_computation_times": False,
    "reference_url": {"onefit": None},
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "onefit"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["onefit.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages without pages below them need no navigation at the side.
html_sidebars = {
    page: []
    for page in (
        "index",
        "quickstart",
        "installation",
        "mathematics",
        "coming_from",
        "interfaces",
        "performance",
        "reproduction",
        "command_line",
        "design",
    )
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
