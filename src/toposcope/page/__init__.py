"""Write one self-contained page: `toposcope.report(source, out)`, in full `toposcope.api.report`.

`source` is an analysis, a store, several stores, or a table; `out` the folder that receives the page, its
Markdown twin, and every figure and table as a file. See `help(toposcope.api.report)` for every option.
"""

from __future__ import annotations

from toposcope.core.callables import make_callable
from toposcope.page.write import write_studies

__all__ = ["report", "write_studies"]

make_callable(__name__, "toposcope.api.report")
