"""Pictures of the gallery: what a script's block ends with, as a notebook shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst


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
