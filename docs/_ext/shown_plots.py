"""Pictures of the site: the house's style, and what a block of a gallery script ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from sphinx_gallery.scrapers import figure_rst

from toposcope.core.drawing import style

SETTINGS: dict[str, Any] = {**style.SETTINGS, "axes.prop_cycle": cycler(color=style.OKABE_ITO)}
"""The house's style, for figures that a script makes itself; C0, C1, ... are the house's colours."""


def house_style(_gallery: Mapping[str, Any], _script: str) -> None:
    """Set the style before a script runs; the gallery has put matplotlib's own back."""
    mpl.rcParams.update(SETTINGS)


def shown(_block: object, held: Mapping[str, Any], gallery: Mapping[str, Any]) -> str:
    """Save the picture of the axes that `.plot()` returned; pyplot's figures are another scraper's."""
    space = held["example_globals"]
    last = space.get("___")  # the value of a block's last line; later blocks without one keep it
    new = last is not space.get("__shown__")
    png = last._repr_png_() if new and hasattr(last, "_repr_png_") else None
    space["__shown__"] = last
    if png is None:
        return ""
    path = next(held["image_path_iterator"])
    Path(path).write_bytes(png)
    return figure_rst([path], gallery["src_dir"])


def _get_sg_image_scraper() -> Callable[..., str]:
    """Hand the scraper to the gallery, which asks for it by this name."""
    return shown
