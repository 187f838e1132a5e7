"""The errors of files that hold no training: they speak no dialect, or lack a step or a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposcope.core.errors import NoLogError, SourceError
from toposcope.core.wording import command, option, renaming
from toposcope.files.blobs import Blob
from toposcope.logs._sizes import Size
from toposcope.logs.dialects.pattern import offered
from toposcope.logs.lines import lines
from toposcope.logs.meanings import losses_among

QUOTED = 120
"""The characters of a line that an error quotes."""
_ZIP = b"PK\x03\x04"
"""The first bytes of a ZIP archive."""
_NUMPY = b"\x93NUMPY"
"""The first bytes of a .npy file."""


def packed_log(blob: Blob) -> SourceError | None:
    """Return the error of a ZIP archive, such as an offline run of Comet or ClearML; None for other files."""
    if blob.size < len(_ZIP) or blob.read(0, len(_ZIP)).tobytes() != _ZIP:
        return None
    return SourceError(
        f"{blob.label}: is an archive",
        remedy="unzip it and give the log in it (messages.json of Comet, metrics.jsonl of ClearML)",
    )


def unknown(blob: Blob, pattern: str | None, *, text: bool) -> SourceError:
    """Return the error of a file that no dialect knows; for a text it quotes a line and offers a pattern."""
    if not text and (packed := packed_log(blob)):
        return packed
    problem = f"{blob.label}: neither a store nor a log in a known format"
    if not text and blob.read(0, min(blob.size, len(_NUMPY))).tobytes() == _NUMPY:
        return SourceError(
            f"{blob.label}: is an array", remedy=f"test a cloud of points with {command('cloud', blob.label)}"
        )
    if not text:
        return SourceError(f"{problem}; give a training log, a table, or a folder that a logger wrote")

    line, regex = offered(lines(blob))
    if pattern is not None:
        first = f"; the first line with numbers is {line[:QUOTED]!r}" if line else ""
        return SourceError(f"{blob.label}: no line matches {option('pattern', pattern)}{first}")
    problem += ": no line names a step and a loss"
    if error := _error_of(blob):
        return NoLogError(f"{problem}, and it tells of the error {error!r}", remedy="mend its cause")
    if not line:
        return NoLogError(problem, remedy="check that it is a log")
    problem += f"; the first line with numbers is {line[:QUOTED]!r}"
    remedy = (
        f"to say which number is which, give {option('pattern', regex)}"
        if regex
        else "check that it is a log"
    )
    return NoLogError(problem, remedy=remedy)


def _error_of(blob: Blob) -> str:
    """Return the error with which a text ends that holds no training."""
    size = Size()
    for _ in size.read(lines(blob)):
        pass
    return size.error


def no_columns(taken: Mapping[str, str], columns: Sequence[str], label: str) -> NoLogError:
    """Return the error of a table without a column for the step, or for a loss."""
    wanted = ("step",) if "step" not in taken else ("loss", "heldout_loss")
    if "step" in taken and len(several := losses_among(columns)) > 1:
        return NoLogError(
            f"{label}: has several losses and none is the total: {', '.join(several)[:160]}",
            remedy=f"choose one with {renaming(several[0], 'loss')}",
        )
    return NoLogError(
        f"{label}: has no column for {' or '.join(wanted)} among {', '.join(sorted(columns))[:120]}",
        remedy=f"name the column with {renaming('THEIRS', wanted[0])}",
    )
