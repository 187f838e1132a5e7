"""Text logs: which dialect a text speaks, and its run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

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


def read_text(
    blob: Blob, dialects: Sequence[TextDialect], pattern: str | None = None
) -> tuple[str, Sequence[Run]] | None:
    """Return the dialect of a text and its run; None if no line fits any dialect, or the given pattern."""
    if pattern is not None:
        from toposcope.logs.dialects.pattern import dialect_of_pattern

        dialects = (dialect_of_pattern(pattern),)
    for text, given in _spoken(blob, dialects):
        size = Size(text.speaks)
        records = with_size(text.records(size.read(given)), size)
        run = text.finish(Run("", collected(records, blob.label)))
        if len(run.table) and not (text.general and not _has_step(run)):
            if text.general and pattern is None:
                from toposcope.logs.line_forms import settled

                run = settled(run, given, blob.label)
            return text.name, [replace(run, notes=(*given.notes, *run.notes), error=size.error)]
    return None


def _has_step(run: Run) -> bool:
    return any(meaning(column) in ("step", "epoch") for column in run.table)


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
