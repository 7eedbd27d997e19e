"""Self-contained pages from templates: everything inline, nothing fetched, light or dark as the reader's system is.

Templates escape every value but `Markup`, and show characters that would steer a terminal or turn the direction of
text instead of obeying them. Python that builds HTML, such as the charts, returns `Markup`.
"""

from __future__ import annotations

import functools

import jinja2
from markupsafe import Markup
from markupsafe import escape as escape_html

from permrank.interfaces.output import printable


def escape(text: object) -> Markup:
    r"""Text for HTML, as the templates write it.

    Examples
    --------
    >>> print(escape("<b> & \x1b"))
    &lt;b&gt; &amp; \x1b
    """
    return text if isinstance(text, Markup) else escape_html(printable(text, keep="\n"))


def render(template: str, **values: object) -> str:
    """A page from a template of this folder."""
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("permrank.interfaces.report", "."),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _visible(value: object) -> object:
    """Text without characters to be obeyed; HTML, numbers and what is undefined as they are."""
    return printable(value, keep="\n") if isinstance(value, str) and not isinstance(value, Markup) else value
