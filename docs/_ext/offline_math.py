"""Formulas as MathML, by the converter that docutils brings: no script, no network, no LaTeX."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def _mathml(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    try:
        return str(latex2mathml.tex2mathml(node.astext(), as_block=block))
    except MathError as error:
        LOGGER.warning("formula: %s", error, location=node)
        return ""


def visit_math(self, node: nodes.math) -> None:
    """Write a formula in running text."""
    self.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def visit_displaymath(self, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    self.body.append(f'<div class="math">{_mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, object]:
    """Offer the renderer as `html_math_renderer = "offline"`."""
    app.add_html_math_renderer("offline", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
