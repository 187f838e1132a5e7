"""A subject: one kind of measured object, with everything that the other packages need to know."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from toposcope.core.errors import InputError
from toposcope.subjects.measurement import Prepared

if TYPE_CHECKING:
    from toposcope.core.types import Feature
    from toposcope.subjects.base import Probe
    from toposcope.subjects.measurement import MeasureCall

LOSSES = ("heldout_loss", "loss")
"""The targets of a subject without its own, the preferred one first."""
SHUFFLED = "the same {} in random order"
SIZE = "the size of {} (norms and spectra)"


def named_object(spec: str) -> Any:
    """Return what "MODULE:NAME" names."""
    module, _, name = spec.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One kind of measured object: weights, gradients, representations, the loss surface, or one of your own.

    Parameters
    ----------
    name : str
        The value of `about` in its features. Also the name of its folder, and of its command unless the
        package has another.
    heading, title : str
        Heading of its part of the page, and one sentence of what was measured.
    topology, size : str
        What is judged, in words; and what is judged if no topology was measured.
    null : str
        The nulls of its features, in words.
    entries : str
        What its nulls put into random order; "" if they do not.
    inside_band : str
        What a value inside the band of its nulls means, as a sentence, if that is not about `entries`.
    no_target : str
        The sentence of a study that has no target.
    iterations : str
        The option that sets the iterations of its estimates; "" if no option does.
    counted : tuple
        (probe, feature, count): a feature that nearly is a function of a count, which the answer on plain
        numbers says; () if there is none.
    targets : tuple of str
        The preferred targets, in this order.
    by_itself : bool
        Whether its rows contain their own target, so that no training log is needed.
    request : type, optional
        The frozen dataclass of its settings. It refuses values that cannot be measured; its fields that are
        made with `subjects.request.option` are the options of the command.
    make : callable, optional
        Returns the probes of a request.
    needs : tuple of str
        What its measurement needs beside the checkpoints' tensors: "texts", "model" (the checkpoint as a
        model that computes) and "batch" (tokens of which a loss is taken). A subject that needs none of them
        is measured from its request alone.
    measure : str
        "MODULE:FUNCTION" that returns what is measured (`subjects.measurement.Prepared`) from a call of
        `measure`; "" for the probes that `make` makes.
    preset : str
        "MODULE:FUNCTION" that returns the request of a preset by its name; "" if it has none.
    uses, uses_saved : tuple of str
        Which fields of `TextRequest` and further arguments of `measure` it uses, and which the measurement
        of saved states uses.
    keeps_diagrams : bool
        Whether the diagrams of its own probes are stored by default, because figures need them.
    features : tuple of str
        The names by which `features=` and `--features` choose it, besides its own name.
    figures : str
        "MODULE:NAME" of the figures on its part of the page, a tuple of `page.on_page.OnPage` in reading
        order; "" for the plain ones: correlations, the forecast, and a curve of each leading feature.
    page_tables : str
        "MODULE:FUNCTION" that returns the tables on its part of the page from a study, in reading order; ""
        for the plain ones: the verdict, its own `tables`, correlations, replicates.
    view : str
        "MODULE:FUNCTION" that returns from a study what a script draws below its figures
        (`page.parts.SurfaceView`), or None; "" if there is never any.
    tables : str
        "MODULE:NAME" of the result tables that only this subject has, a tuple of `study.own.SubjectTable`.
    questions : str
        "MODULE:NAME" of the questions that only its studies answer, a tuple of
        `study.findings.base.Question` in reading order.
    declared : mapping of str to tuple of Feature
        Probe -> what it declares, of a subject of the package: it completes stores that lack a catalogue.
    prefix : str
        How the names of its probes begin, for such stores.
    within : tuple of str
        The subjects whose studies show its rows, too. It has no study of its own if one of them was measured.
    never_alone : tuple of str
        Probes whose rows alone make no study, because they vary the measurement of another probe.
    diagrams : tuple of pairs
        Which kept diagrams its figures draw, as keywords of `Store.diagrams`.
    folder : str
        The folder of the store that has the data for its figures.
    order : int
        Its place on the page.
    """

    name: str
    heading: str
    topology: str
    title: str
    null: str
    entries: str = "weights"
    inside_band: str = ""
    no_target: str = "No loss is recorded in this store, so nothing below relates topology to it."
    iterations: str = ""
    counted: tuple[str, Feature, Feature] | tuple[()] = ()
    targets: tuple[str, ...] = LOSSES
    by_itself: bool = False
    size: str = ""
    request: type | None = None
    make: Callable[[Any], Sequence[Probe]] | None = None
    needs: tuple[str, ...] = ()
    measure: str = ""
    preset: str = ""
    uses: tuple[str, ...] = ()
    uses_saved: tuple[str, ...] = ()
    keeps_diagrams: bool = False
    features: tuple[str, ...] = ()
    figures: str = ""
    page_tables: str = ""
    view: str = ""
    tables: str = ""
    questions: str = ""
    declared: Mapping[str, tuple[Feature, ...]] = field(default_factory=dict, hash=False)
    prefix: str = ""
    within: tuple[str, ...] = ()
    never_alone: tuple[str, ...] = ()
    diagrams: tuple[tuple[str, str], ...] | None = None
    folder: str = ""
    order: int = 100

    @property
    def measurable(self) -> bool:
        """Whether its probes are made from its request alone, without texts, a model or a batch."""
        return not self.needs and self.make is not None and self.request is not None

    def settings(self, given: object | None = None, preset: str = "default") -> Any:
        """Return the request of a measurement: the given one, else that of the preset.

        Raises
        ------
        InputError
            When there is no such preset, or it is the request of another subject.
        """
        assert self.request is not None
        if given is None:
            return named_object(self.preset)(preset) if self.preset else self.request()
        if not isinstance(given, self.request):
            raise InputError(
                f"options is a {type(given).__name__}; these features need {self.request.__name__}"
            )
        return given

    def prepared(self, call: MeasureCall) -> Prepared:
        """Return what a call of `measure` measures: by its `measure`, else from the request alone."""
        if self.measure:
            return named_object(self.measure)(call)  # type: ignore[no-any-return]
        probes = self.probes(call.options)
        return Prepared(call.find(), probes, self.recipe(call.options))

    def probes(self, request: object | None = None) -> list[Probe]:
        """Return the probes of a request, by default with its defaults.

        Raises
        ------
        InputError
            If the subject does not make probes from a request, or this is the request of another subject.
        """
        if self.make is None or self.request is None:
            raise InputError(f"subject {self.name!r} makes no probes; give it `make` and `request`")
        wanted = self.request() if request is None else request
        if not isinstance(wanted, self.request):
            raise InputError(
                f"options is a {type(wanted).__name__}; {self.name} is measured with {self.request.__name__}"
            )
        return list(self.make(wanted))

    def recipe(self, request: object | None = None) -> dict[str, object]:
        """Return a request, by default with its defaults, as the recipe of the store of its measurement."""
        assert self.request is not None
        wanted: Any = self.request() if request is None else request
        return {"probe": self.name, **asdict(wanted)}

    def request_of(self, recipe: Mapping[str, object]) -> Any:
        """Return the request with which a store of this recipe was measured: the inverse of `recipe`.

        A setting that the request no longer has is left out, and one that the recipe lacks has its default.

        Raises
        ------
        InputError
            If the request refuses a setting.
        """
        assert self.request is not None
        names = {each_field.name for each_field in fields(self.request) if each_field.init}
        settings = {name: value for name, value in recipe.items() if name in names}
        plain = {  # JSON has no tuples
            name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
        }
        return self.request(**plain)


TABLE = Subject(
    name="table",
    heading="Table",
    topology="this table",
    title="Columns of a table of training runs.",
    null=SHUFFLED.format("weights"),
)
"""A table that was made elsewhere."""
