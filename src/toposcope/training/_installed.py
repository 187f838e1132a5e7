"""A corpus from what a machine has: the sources and the documentation of its installed packages."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NAME = "installed"
LARGEST = 160_000_000
"""Characters after which no more files are read: about a token for each that the recipe `scale` trains on."""
HELD_OUT = 8_000_000
"""Characters of the held-out part at most; the loss reads a few hundred windows of them."""
_SUFFIXES = (".py", ".pyi", ".md", ".rst", ".txt")
_FILE_BYTES = (200, 400_000)
"""Smaller files say little, and larger ones are mostly tables."""
_LONGEST_LINE = 2000
"""A file with a longer line is data, not text."""
_READERS = 16
_BATCH = 512
END = "\n\n"
"""What stands between two files."""


def installed_text(
    heldout_fraction: float, *, roots: Iterable[Path] | None = None, largest: int = LARGEST
) -> tuple[str, str]:
    """Return the training text and the held-out text: whole files, each content once, split by file.

    The files come in the order of the hash of their path, so a part of them is a sample of all packages. The
    hash of a file's content says on which side it is: the same file is on the same side on every machine.
    """
    parts: tuple[list[str], list[str]] = ([], [])
    sizes = [0, 0]
    for text, digest in _distinct(_texts(_paths(_folders() if roots is None else roots))):
        side = int.from_bytes(digest[:8], "big") < heldout_fraction * 2**64
        if sizes[side] > (HELD_OUT if side else largest):
            if not side:
                break
            continue
        parts[side].append(text)
        sizes[side] += len(text)
    train, heldout = (END.join(part) for part in parts)
    return train, heldout


def _folders() -> list[Path]:
    """Return the folders of the standard library and of the installed packages."""
    paths = sysconfig.get_paths()
    return [Path(folder) for folder in dict.fromkeys(paths[key] for key in ("stdlib", "purelib", "platlib"))]


def _paths(roots: Iterable[Path]) -> list[Path]:
    """Return the files of a likely size, in the order of the hash of their path below their root."""
    digests: dict[str, bytes] = {}
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                if name.endswith(_SUFFIXES):
                    path = os.path.join(folder, name)
                    key = os.path.relpath(path, root).encode("utf-8", "surrogateescape")
                    digests.setdefault(path, hashlib.sha256(key).digest())
    return [Path(path) for path in sorted(digests, key=lambda path: digests[path])]


def _texts(paths: list[Path]) -> Iterator[bytes]:
    """Yield the content of each readable file of text, in order; several are read at a time."""
    with ThreadPoolExecutor(_READERS) as readers:
        for start in range(0, len(paths), _BATCH):
            yield from (
                content for content in readers.map(_content, paths[start : start + _BATCH]) if content
            )


def _content(path: Path) -> bytes:
    least, most = _FILE_BYTES
    try:
        if not least <= path.stat().st_size <= most:
            return b""
        content = path.read_bytes()
    except OSError:
        return b""
    return b"" if b"\0" in content or max(map(len, content.split(b"\n"))) > _LONGEST_LINE else content


def _distinct(contents: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield each content once, as text with its hash; what is not UTF-8 is left out."""
    seen: set[bytes] = set()
    for content in contents:
        digest = hashlib.sha256(content).digest()
        if digest in seen:
            continue
        seen.add(digest)
        try:
            yield content.decode("utf-8"), digest
        except UnicodeDecodeError:
            continue
