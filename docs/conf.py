"""Documentation: ``make docs``. Formulas become MathML here, so that pages read without network and without scripts.

Tests import this file too, where neither Sphinx nor docutils need be: what needs them imports them.
"""

import re

import permrank

project = "permrank"
author = "The permrank developers"
release = permrank.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "permrank"
html_static_path = ["_static"]
html_css_files = ["permrank.css"]
html_math_renderer = "mathml"
html_show_copyright = False
highlight_options = {name: {"stripnl": True} for name in ("python", "pycon", "pycon3")}
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say them, in words
numpydoc_show_class_members = False
nitpicky = False

# What docutils' converter knows by another name: \big( as \bigl(, \dots as \ldots.
SPELLINGS = [(re.compile(r"\\([bB]igg?)(?![a-zA-Z])"), r"\\\1l"), (re.compile(r"\\dots(?![a-zA-Z])|…"), r"\\ldots ")]


def mathml(source, block):
    """MathML of a formula in LaTeX; one that cannot be converted stops the build and is shown."""
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml
    from sphinx.errors import SphinxError

    for pattern, spelling in SPELLINGS:
        source = pattern.sub(spelling, source)
    try:
        return tex2mathml(source, as_block=block)
    except MathError as error:
        raise SphinxError(f"the formula {source!r} cannot be written as MathML: {error}") from error


def visit_math(writer, node):
    from docutils.nodes import SkipNode

    writer.body.append(mathml(node.astext(), block=False))
    raise SkipNode


def visit_math_block(writer, node):
    from docutils.nodes import SkipNode

    writer.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
