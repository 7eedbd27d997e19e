"""Documentation: ``make docs``."""

import permrank

project = "permrank"
author = "The permrank developers"
release = permrank.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "permrank"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
nitpicky = False
