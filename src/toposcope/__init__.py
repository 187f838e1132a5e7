"""See the shape of language-model training.

Names are loaded on first use, so `import toposcope` costs next to nothing.

    toposcope.check("train.log")                         is this run all right, and where will it end?
    log = toposcope.read_log("train.log")                step and loss, whatever trainer wrote it
    series = toposcope.open_series("runs/")              checkpoints in any format, as a stream
    store = toposcope.measure(series, "store")           their weights, measured; resumable
    analysis = toposcope.analyze("store")                what that tells beyond the loss: print it
    toposcope.report(analysis, "report")                 the same as a page
    toposcope.topology                                   distances, curves and images of diagrams
"""

from __future__ import annotations

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
__all__ = sorted([*__all__, "__version__"])
