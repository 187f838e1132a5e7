"""The weight-space paper's recipe on several corpora and tokenizers, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toposcope.studies.claims import beyond_drift
from toposcope.studies.sections import Section
from toposcope.studies.seed004.claims import LEAST_ORDERED, ONE_SEED, claims
from toposcope.studies.seed004.runs import H0, printed
from toposcope.studies.seed004.seeds import AcrossSeeds, shown, shown_rho

_Cell = Callable[[AcrossSeeds], str | None]


def corpora(across: Mapping[str, AcrossSeeds]) -> list[Section]:
    """Return two tables, of the judgements and of the numbers, with a column for each file of rows."""
    return [_judgements(across), _numbers(across)]


def _judgements(across: Mapping[str, AcrossSeeds]) -> Section:
    judged_by_corpus = {
        name: {claim.text: claim.judgement.value for claim in claims(corpus)}
        for name, corpus in across.items()
    }
    texts = dict.fromkeys(
        text for judged in sorted(judged_by_corpus.values(), key=len)[::-1] for text in judged
    )
    rows = [(text, *(judged.get(text) for judged in judged_by_corpus.values())) for text in texts]
    everywhere = [row for row in rows if None not in row]
    alike = sum(len(set(row[1:])) == 1 for row in everywhere)
    return Section(
        f"Of {len(everywhere):,} claims that all {len(across):,} files can answer, {alike} are judged alike",
        ("claim", *across),
        tuple(rows),
        "The same recipe, with another text or tokenizer. " + _seeds(across),
    )


def _seeds(across: Mapping[str, AcrossSeeds]) -> str:
    if all(corpus.seeds == 1 for corpus in across.values()):
        return f"There is {ONE_SEED}."
    counts = ", ".join(f"{corpus.seeds} on {name}" for name, corpus in across.items())
    return f"Seeds of each size: {counts}."


def _numbers(across: Mapping[str, AcrossSeeds]) -> Section:
    rows: list[tuple[object, ...]] = []

    def add(quantity: str, paper: object, cell: _Cell) -> None:
        rows.append((quantity, paper, *(cell(corpus) for corpus in across.values())))

    sizes = sorted({size for corpus in across.values() for size in corpus.groups})
    models = {size: printed()["models"][str(size)] for size in sizes}
    for size in sizes:
        add(f"final minibatch loss, {models[size]['name']}", models[size]["loss"], _loss(size))
    add("exponent of the minibatch loss", printed()["scaling"]["loss"]["exponent"], _exponent("loss"))
    add("exponent of the held-out loss", None, _exponent("heldout_loss"))
    for size in sizes:
        stated = printed()["h0"][str(size)]["rho"]
        add(f"rho of H0 and the loss, {models[size]['name']}", stated, _rho(size))
    add("H0 and the held-out loss", None, _beyond)
    return Section(
        "The numbers on each corpus",
        ("quantity", "paper", *across),
        tuple(rows),
        "Losses are in nats per token. A subword is longer than a character, so only exponents and "
        "correlations can be compared between tokenizers, not levels.",
    )


def _loss(size: int) -> _Cell:
    return lambda corpus: (
        shown(corpus.ends.loc[corpus.groups[size], "loss"]) if size in corpus.groups else None
    )


def _exponent(column: str) -> _Cell:
    return lambda corpus: (
        shown(corpus.exponents[column])
        if column in corpus.exponents and len(corpus.groups) >= LEAST_ORDERED
        else None
    )


def _rho(size: int) -> _Cell:
    return lambda corpus: (
        shown_rho(corpus.rho.loc[corpus.groups[size], H0].to_numpy(float)) if size in corpus.groups else None
    )


def _beyond(corpus: AcrossSeeds) -> str:
    return beyond_drift(corpus.verdicts.loc[[H0]].to_dict("records")[0])
