"""How Sphinx makes the site of these pages: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

import leaveout

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "leaveout"
copyright = "the authors of leaveout"  # noqa: A001 - Sphinx reads this name
release = version = leaveout.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "site_docstrings",
    "site_lexer",
    "site_tables",
]

# Pages are also read as they are on code hosts: no syntax that only MyST knows, but for API pages.
myst_heading_anchors = 4
highlight_language = "text"
smartquotes_action = "D"
exclude_patterns = ["_ext"]

# Docstrings are numpydoc, with `names` in single backticks.
default_role = "code"
napoleon_google_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# scikit-learn gives estimators methods whose docstrings refer to its own site.
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_partial_fit_request, set_score_request"
}
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"leaveout {version}"  # on every page: several versions may be kept
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
