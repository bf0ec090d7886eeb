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


def skip_what_scikit_learn_documents(app, what, name, obj, skip, options):
    """Leave out get_params and the like, which refer to labels of scikit-learn's own pages."""
    return True if (getattr(obj, "__module__", None) or "").startswith("sklearn") else None


def setup(app):
    app.connect("autodoc-skip-member", skip_what_scikit_learn_documents)


html_theme = "pydata_sphinx_theme"
html_title = "tensorae"
html_theme_options = {"navigation_with_keys": False, "secondary_sidebar_items": ["page-toc"]}
