"""Text logs: which dialect a text speaks, its run, and what to do with a text that speaks none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from toposcope.core.errors import NoLogError, SourceError
from toposcope.core.wording import command, option
from toposcope.files.blobs import Blob
from toposcope.logs._sizes import Size, with_size
from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.lines import lines
from toposcope.logs.meanings import meaning
from toposcope.logs.records import collected
from toposcope.logs.run import Run
from toposcope.logs.text_lines import Ranks, TextLines, has_comma, unranked, unwrapped

SURE = 50
"""A text counts as a dialect after this many lines of it."""
OWN_LINES = 20
"""One line of a trainer's own dialect counts as this many of a general one: OLMo prints ten losses below."""
QUOTED = 120
"""The characters of a line that an error quotes."""
_ZIP = b"PK\x03\x04"
"""The first bytes of a ZIP archive."""
_NUMPY = b"\x93NUMPY"
"""The first bytes of a .npy file."""


def read_text(
    blob: Blob, dialects: Sequence[TextDialect], pattern: str | None = None
) -> tuple[str, Sequence[Run]] | None:
    """Return the dialect of a text and its run; None if no line fits any dialect, or the given pattern."""
    if pattern is not None:
        from toposcope.logs.dialects.pattern import dialect_of_pattern

        dialects = (dialect_of_pattern(pattern),)
    for text, given in _spoken(blob, dialects):
        size = Size()
        records = with_size(text.records(size.read(given)), size)
        run = text.finish(Run("", collected(records, blob.label)))
        if len(run.table) and not (text.general and not _has_step(run)):
            if text.general and pattern is None:
                from toposcope.logs.line_forms import settled

                run = settled(run, given, blob.label)
            return text.name, [replace(run, notes=(*given.notes, *run.notes))]
    return None


def _has_step(run: Run) -> bool:
    return any(meaning(column) in ("step", "epoch") for column in run.table)


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
    from toposcope.logs.dialects.pattern import offered

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
    if not line:
        return NoLogError(problem, remedy="check that it is a log")
    problem += f"; the first line with numbers is {line[:QUOTED]!r}"
    remedy = (
        f"to say which number is which, give {option('pattern', regex)}"
        if regex
        else "check that it is a log"
    )
    return NoLogError(problem, remedy=remedy)


def _spoken(blob: Blob, dialects: Sequence[TextDialect]) -> Iterator[tuple[TextDialect, TextLines]]:
    """Yield the dialects that lines of a text belong to, that of most lines first, and the lines to read."""
    counts = dict.fromkeys(range(len(dialects)), 0)
    ranks, comma = Ranks(), False
    for line in lines(blob):
        plain, rank = unranked(unwrapped(line))
        for place, dialect in enumerate(dialects):
            if dialect.speaks(plain):
                counts[place] += 1
                comma = comma or has_comma(plain)
                if rank:
                    ranks.note(rank)
                break
        if counts[place] >= SURE:
            break
    weights = {
        place: count * (1 if dialects[place].general else OWN_LINES) for place, count in counts.items()
    }
    decimal = False
    if comma:
        from toposcope.logs.decimal_commas import comma_is_decimal

        decimal = comma_is_decimal(blob)
    for place in sorted(weights, key=lambda place: -weights[place]):
        if counts[place] or (dialects[place].general and any(counts.values())):
            yield dialects[place], TextLines(blob, ranks.first, decimal)
