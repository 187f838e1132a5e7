"""Keep a checkpoint against rotation: the trainer may delete it, hard links keep its bytes."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from toposcope.monitor.follow import Sighting, stamps


@dataclass(frozen=True, slots=True)
class Held:
    """A checkpoint that is kept: where to read it, and whether that place survives the trainer's own."""

    path: Path
    linked: bool

    def release(self) -> None:
        """Remove the links; the trainer's files stay."""
        if not self.linked:
            return
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)
        parent = self.path.parent
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


def hold(sighting: Sighting, folder: Path) -> Held | None:
    """Link every file of a checkpoint under `folder/NAME-WRITTEN/NAME` and return it.

    Where no link can be made (another file system, no permission) the trainer's own files are read, and may
    vanish. Returns None when the files have changed or are gone since they were seen.
    """
    source = sighting.path
    place = folder / f"{source.name}-{sighting.written}" / source.name
    if place.parent.exists():
        shutil.rmtree(place.parent)  # left by an interrupted start
    try:
        for name, *_ in sighting.files:
            target = place / name if source.is_dir() else place
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source / name if source.is_dir() else source, target)
    except FileNotFoundError:
        shutil.rmtree(place.parent, ignore_errors=True)
        return None
    except OSError:
        shutil.rmtree(place.parent, ignore_errors=True)
        return Held(source, linked=False) if stamps(source) == sighting.files else None
    if stamps(place) != sighting.files:
        shutil.rmtree(place.parent, ignore_errors=True)
        return None
    return Held(place, linked=True)
