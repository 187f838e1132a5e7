"""Facts about a run that need no weights: family, size, seed, configuration."""

from __future__ import annotations

import dataclasses

from toposcope.core.errors import SourceError
from toposcope.core.types import RunRecord
from toposcope.files.formats.adapter import adapted
from toposcope.files.labels import seed_of
from toposcope.files.nanogpt import nanogpt_facts
from toposcope.sources.content import count_parameters, described_in_text
from toposcope.sources.discover import Source
from toposcope.sources.matrices import family_for


def described(source: Source) -> RunRecord:
    """Return the run; family and number of parameters come from its first readable checkpoint."""
    return _with_facts(_with_seed(described_in_text(_described(source))), source)


def _described(source: Source) -> RunRecord:
    run = source.run
    stated = run.parameters or run.config.get("parameters") == 0  # an infinite-width limit has no size
    if run.family and stated:
        return run
    if any(entry.identity is not None for entry in source.entries):
        return _describe_hub(source)
    for entry in source.entries[:3]:
        try:
            reader = entry.open()
            facts = reader.facts()
            return dataclasses.replace(
                run,
                family=run.family or adapted(facts.config) or family_for(reader.infos()).name,
                parameters=run.parameters or facts.parameters or count_parameters(reader),
                config=run.config or source.config or {**facts.config, **nanogpt_facts(facts)},
            )
        except SourceError:
            continue
        finally:
            entry.release()
    return run


def _describe_hub(source: Source) -> RunRecord:
    from toposcope.sources.hub import describe

    try:
        config = describe(source)
    except SourceError:
        return source.run
    family = str(config.get("model_type", source.run.family))
    return dataclasses.replace(source.run, family=family, config=config)


def _with_facts(run: RunRecord, source: Source) -> RunRecord:
    """Add what the trainer's state says to the run's configuration."""
    try:
        facts = source.facts()
    except SourceError:
        return run  # reported when the file is read for its losses
    return dataclasses.replace(run, config={**run.config, **facts}) if facts else run


def _with_seed(run: RunRecord) -> RunRecord:
    """Take the seed from the run's name if nothing else states it."""
    return run if run.seed is not None else dataclasses.replace(run, seed=seed_of(run.run))
