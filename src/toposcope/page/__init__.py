"""One self-contained page of the findings: figures with captions, tables, and its Markdown twin.

`figures` has the style and the figures that every subject shares; those of one subject are in its folder.
"""

from __future__ import annotations

from toposcope.page.page import check_target
from toposcope.page.write import write_studies

__all__ = ["check_target", "write_studies"]
