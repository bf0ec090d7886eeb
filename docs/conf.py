"""Sphinx settings; `make docs` builds with warnings as errors."""

from importlib.metadata import version as installed_version

project = "tensorae"
author = "tensorae developers"
copyright = "2026, tensorae developers"
release = version = installed_version("tensorae")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's Parameters sections say it better
numpydoc_show_class_members = False  # the class template lists them once
myst_enable_extensions = ["dollarmath", "amsmath"]


def skip_what_others_document(app, what, name, obj, skip, options):
    """Leave out what is inherited from scikit-learn and torch: it refers to their own pages."""
    home = getattr(obj, "__module__", None) or ""
    return True if home.startswith(("sklearn", "torch")) or name in INHERITED else None


# Attributes of every torch Module, which do not say where they come from.
INHERITED = ("T_destination", "call_super_init", "dump_patches", "training")


def setup(app):
    app.connect("autodoc-skip-member", skip_what_others_document)


html_theme = "pydata_sphinx_theme"
html_title = "tensorae"
html_theme_options = {"navigation_with_keys": False, "secondary_sidebar_items": ["page-toc"]}
