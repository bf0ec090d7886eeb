"""Sphinx settings; `make docs` builds with warnings as errors."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "tensorae"
author = "tensorae developers"
copyright = "2026, tensorae developers"
release = version = installed_version("tensorae")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "mathml",  # in _extensions
]
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's Parameters sections say it better
numpydoc_show_class_members = False  # the class template lists them once
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3  # headings can be linked to

# As the guide goes: groups, how many, why, what is odd, missing, noise, and kinds of data.
EXAMPLES = [
    "plot_simpson.py",
    "plot_planted_lines.py",
    "plot_choosing_k.py",
    "plot_choosing_penalty.py",
    "plot_trend_reversals.py",
    "plot_outliers.py",
    "plot_anomalies.py",
    "plot_missing_values.py",
    "plot_denoising.py",
    "plot_confidence.py",
    "plot_few_labels.py",
    "plot_digits_embedding.py",
    "plot_curved_groups.py",
    "plot_generated_digits.py",
    "plot_custom_architecture.py",
    "plot_photo_denoise.py",
    "plot_photo_inpaint.py",
    "plot_photo_enlarge.py",
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"demo_",
    "within_subsection_order": ExplicitOrder([*EXAMPLES, "*"]),
    "doc_module": ("tensorae",),
    "backreferences_dir": "gallery/used_in",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
}


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
html_static_path = ["_static"]
html_css_files = ["formulas.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
}
