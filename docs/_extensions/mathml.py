"""Formulas as MathML, by docutils: pages need neither a script nor the network to show them."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def as_mathml(node, *, as_block):
    """MathML of a formula; one that docutils does not know stays as it is, with a warning."""
    if re.search(r"frac\s*\d", node.astext()):
        logger.warning("docutils misreads fractions without braces", location=node)
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return node.astext()


def visit_math(self, node):
    """Write a formula in a line of text."""
    self.body.append(as_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_math_block(self, node):
    """Write a formula in a line of its own."""
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(f"{as_mathml(node, as_block=True)}</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Offer the renderer to Sphinx; ``html_math_renderer`` chooses it."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
