"""One self-contained page of what was found: figures with captions, tables, its Markdown twin.

`figures` has the style and the figures that every subject shares; those of one subject stand in its folder.
"""

from __future__ import annotations

from toposcope.page.write import write_studies

__all__ = ["write_studies"]
