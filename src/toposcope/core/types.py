"""The basic types of toposcope: frozen, almost without logic, and without imports from the package."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CUTS = (0.2, 0.3, 0.5)
"""Shares of training at which finished runs are forecast, to score the forecasts."""


class Status(enum.StrEnum):
    """How a number was obtained; a status is used instead of sentinel values.

    >>> Status("subsampled") is Status.SUBSAMPLED, f"{Status.OK}"
    (True, 'ok')
    """

    OK = "ok"
    """Computed in full."""
    SUBSAMPLED = "subsampled"
    """Computed on a random subsample; the row's `draw` numbers it."""
    TRUNCATED = "truncated"
    """Computed up to a threshold only."""
    UNCONVERGED = "unconverged"
    """Computed by an iteration that stopped before its error was small; the note states it. It is listed with
    what could not be measured; nothing is drawn, tested or fitted on it."""
    DEGENERATE = "degenerate"
    """Meaningless here, such as a ratio to zero; the note says why."""
    FAILED = "failed"
    """Not computed; the value is NaN and the note says why."""


COUNTED = (Status.OK, Status.SUBSAMPLED, Status.TRUNCATED)
"""The statuses of numbers that are averaged, drawn and tested; a number of another status is missing."""


class Role(enum.StrEnum):
    """What a weight matrix does in its model."""

    ATTENTION = "attention"
    MLP = "mlp"
    EMBEDDING = "embedding"
    HEAD = "head"
    NORM = "norm"
    OTHER = "other"
    MODEL = "model"
    """Not a matrix: a value of the whole model (pooled clouds, means over matrices, trajectories)."""


class Normalization(enum.StrEnum):
    """The divisor of the weights in neural persistence; stores have its value as the filtration.

    >>> Normalization("matrix") is Normalization("seed004"), Normalization("network").power
    (True, 2.0)
    """

    NETWORK = "rieck"
    """The largest weight of the network, with power p = 2: Rieck et al. 2019."""
    MATRIX = "seed004"
    """Each matrix's own largest weight, with power p = 1."""

    @classmethod
    def _missing_(cls, value: object) -> Normalization | None:
        return cls.__members__.get(str(value).upper())

    @property
    def power(self) -> float:
        """The power p of the mean."""
        return 2.0 if self is Normalization.NETWORK else 1.0


class Scope(enum.StrEnum):
    """What a number is about, the widest scope first: the first scope of a feature represents it.

    >>> [str(scope) for scope in Scope][:3]
    ['model', 'pooled', 'trajectory']
    """

    MODEL = "model"
    """All matrices together, or the model as a whole."""
    POOLED = "pooled"
    """One cloud of the rows of all matrices."""
    TRAJECTORY = "trajectory"
    """The run's path up to the checkpoint."""
    LAYER = "layer"
    """One layer's hidden states."""
    ROLE = "role"
    """The matrices, or the heads, of one role."""
    MATRIX = "matrix"
    """One weight matrix."""
    HEAD = "head"
    """One attention head."""
    TENSOR = "tensor"
    """One stored tensor of any shape, a norm's gain too: for alarms, never a column of the analysis."""
    SETTING = "setting"
    """The same number under other settings of its probe: never a column of the analysis."""


class Kind(enum.StrEnum):
    """The purpose of a feature; analysis, figures and page treat each kind differently.

    >>> Feature("mine", "my feature").kind is Kind.TOPOLOGY, str(Kind.NULL)
    (True, 'null')
    """

    TOPOLOGY = "topology"
    """What is under test: a number that may add something to the loss."""
    BASELINE = "baseline"
    """A cheap number that topology has to beat: a norm, a spectrum, a linear dimension."""
    NULL = "null"
    """Another feature, measured on data without structure; drawn beside it, never tested."""
    QUALITY = "quality"
    """How good the model is: a target, never an explanation."""
    NOISE = "noise"
    """A spread or a count that says how reliable another feature is."""


class About(enum.StrEnum):
    """The subject of a feature: the study and the part of the page that it belongs to.

    >>> Feature("mine", "my feature").about is About.WEIGHTS
    True
    """

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    """The loss gradients on one batch: what a probe of weights becomes where gradients are measured."""
    REPRESENTATIONS = "representations"
    """What a checkpoint makes of texts: hidden states, attention, predictions."""
    LANDSCAPE = "landscape"
    """The loss over the parameters around a checkpoint."""


class Use(enum.StrEnum):
    """The places where a few features represent their whole study; other places show all features.

    >>> Feature("mine", "my feature", leads={Use.CHANGE: 1}).leads[Use.CHANGE]
    1
    """

    CHANGE = "change"
    """What changed, when, and in which bends; where one number is shown, it is the first of these."""
    END = "end"
    """Every run's last value, and its power law in model size."""
    NULL = "null"
    """Compared with its own null at the last checkpoint."""
    CONTROL = "control"
    """A plain number that correlations are also conditioned on: one baseline and one count of bars."""
    FORECAST = "forecast"
    """Enters a forecast as its topology; a probe that names such features offers no others."""
    EXPONENT = "exponent"
    """Topology from which scaling exponents are predicted."""
    NORM = "norm"
    """A norm or a number of the spectrum from which they are predicted instead."""
    WATCH = "watch"
    """`watch` reports when it bends and when it stops rising; of several, the first that was measured."""


@dataclass(frozen=True, slots=True)
class Feature:
    """The declaration of one measured number: its probe makes it once, and everything else reads it.

    Parameters
    ----------
    name : str
        The store's column `feature`.
    label : str
        Its name in figures and tables.
    unit : str
        Its unit; "" for a pure number.
    kind : Kind
        Its purpose.
    null_of : Feature, optional
        The feature that this null is compared with; a null has the kind `NULL`.
    primary : bool
        Whether it belongs to the confirmatory family, which is fixed before any run is measured.
    description : str
        One sentence: how it is computed.
    scopes : tuple of Scope
        Its scopes, the one that represents it first; by default in the order of `Scope`.
    filtrations : tuple of str
        The conventions of its measurement, the one that represents it first.
    aggregate : str
        How the values of several matrices become one: "sum" or "mean".
    excess_of : Feature, optional
        A feature that no probe measures and the analysis derives: `excess_of` minus its null's mean.
    per_log_step_of : Feature, optional
        A derived feature, too: `per_log_step_of` over the difference of the two steps' logarithms.
    target : str
        For a feature of the kind `QUALITY`, the name of the target that the analysis makes from it: draws are
        averaged, and of several layers the run's last one counts.
    log_target : bool
        Whether that target is its natural logarithm.
    about : About or str
        The name of its subject.
    leads : mapping of Use to int
        The uses in which it represents its study, with its place: 1 comes first, and equal places are in the
        order of the declarations.

    Examples
    --------
    >>> total = Feature("h1_total", "H1 total", unit="distance", primary=True)
    >>> Feature("h1_total_null", "H1 total, Gaussian cloud", kind=Kind.NULL, null_of=total).null_of.label
    'H1 total'
    """

    name: str
    label: str
    unit: str = ""
    kind: Kind = Kind.TOPOLOGY
    null_of: Feature | None = None
    primary: bool = False
    description: str = ""
    scopes: tuple[Scope, ...] = ()
    filtrations: tuple[str, ...] = ()
    aggregate: str = "mean"
    excess_of: Feature | None = None
    per_log_step_of: Feature | None = None
    target: str = ""
    log_target: bool = False
    about: About | str = About.WEIGHTS
    leads: Mapping[Use, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One training replicate: what the analysis groups by.

    `run` is its name, `parameters` the number of trainable parameters (0 if unknown), `seed` None if unknown.
    `family`, `schedule` (of the learning rate) and `corpus` are names, empty when unknown. `uri` is its
    address, and `config` has the facts that its model's or trainer's files state.

    >>> run = RunRecord("small-seed1", family="gpt", parameters=7_000, seed=1)
    >>> run.run, run.schedule
    ('small-seed1', '')
    """

    run: str
    family: str = ""
    parameters: int = 0
    seed: int | None = None
    schedule: str = ""
    corpus: str = ""
    uri: str = ""
    config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The identity of a checkpoint; nothing is loaded.

    `run` is its run's name, `step` the optimiser step, `tokens` the tokens seen so far (None when the format
    does not say), `uri` its address and `revision` the hub's name for it.

    >>> Checkpoint("small-seed1", 100).step
    100
    """

    run: str
    step: int
    tokens: int | None = None
    uri: str = ""
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Matrix:
    """One weight matrix of a checkpoint: `values` has shape (n_out, n_in), float32 or the stored 16-bit type.

    `name` is the tensor's in the files of `checkpoint`, `role` what it does in the model. `layer` is None
    outside the blocks; `head` is None unless the matrix belongs to one attention head. `fault` states what
    was lost if float32 cannot represent values that were stored as float64.

    >>> matrix = Matrix(Checkpoint("a", 0), "layers.0.mlp.fc1.weight", np.eye(3), Role.MLP, layer=0)
    >>> matrix.values.shape, str(matrix.role)
    ((3, 3), 'mlp')
    """

    checkpoint: Checkpoint
    name: str
    values: np.ndarray
    role: Role = Role.OTHER
    layer: int | None = None
    head: int | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A persistence diagram of homology in dimension `dim`: `birth` and `death`, float64 of shape (n,).

    Essential classes die at +inf (sublevel, Rips) or -inf (superlevel). `filtration` names what the
    values measure, `n_vertices` how many vertices the complex has, and `truncated_at` the threshold
    beyond which nothing was computed (None: complete). numpy, gudhi and persim take it as its `pairs`.
    `cycles` has the points of a cycle for each pair of H1, if `rips` was asked for them; the last point is
    joined to the first. Two diagrams may be equal whatever their cycles.

    >>> diagram = Diagram(1, birth=np.array([1.0, 1.5]), death=np.array([2.0, 1.75]))
    >>> len(diagram), np.asarray(diagram).tolist()
    (2, [[1.0, 2.0], [1.5, 1.75]])
    """

    dim: int
    birth: np.ndarray
    death: np.ndarray
    filtration: str = ""
    n_vertices: int = 0
    truncated_at: float | None = None
    cycles: tuple[tuple[int, ...], ...] | None = field(default=None, compare=False)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.birth)

    def __repr__(self) -> str:
        """Return how many pairs there are, which one lasts longest, and how many never die.

        >>> Diagram(1, np.array([1.0, 0.0]), np.array([2.0, np.inf]))
        H1: 2 pairs, the longest from 1 to 2; 1 never dies
        """
        finite = np.isfinite(self.death)
        text = f"H{self.dim}: {len(self):,} pair{'s' * (len(self) != 1)}"
        if finite.any():
            best = int(np.argmax(np.where(finite, np.abs(self.death - self.birth), -1.0)))
            text += f", the longest from {self.birth[best]:.4g} to {self.death[best]:.4g}"
        essential = int((~finite).sum())
        return text + (f"; {essential} never die{'s' * (essential == 1)}" if essential else "")

    @property
    def pairs(self) -> np.ndarray:
        """The pairs as one float64 array of shape (n, 2), birth and death, as gudhi and persim take them.

        >>> Diagram(1, np.array([1.0]), np.array([2.0])).pairs.tolist()
        [[1.0, 2.0]]
        """
        return np.column_stack([self.birth, self.death]).astype(np.float64, copy=False)

    def __array__(self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Return `pairs`, so that the diagram can stand wherever an array of pairs can."""
        return self.pairs if dtype is None else self.pairs.astype(dtype)

    def __getitem__(self, at: Any) -> np.ndarray:
        """Return some of the `pairs`, or one side of them: `diagram[:, 1]` are the deaths."""
        return self.pairs[at]

    def __iter__(self) -> Iterator[np.ndarray]:
        """Iterate over the pairs."""
        return iter(self.pairs)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of `pairs`, (n, 2)."""
        return len(self), 2

    def astype(self, dtype: np.typing.DTypeLike, *, copy: bool = True) -> np.ndarray:
        """Return `pairs` as another float type, like an array; `persim.plot_diagrams` calls it.

        >>> Diagram(1, np.array([1.0]), np.array([2.0])).astype(np.float32).dtype
        dtype('float32')
        """
        return self.pairs.astype(dtype, copy=copy)

    def triples(self) -> np.ndarray:
        """Return birth, death and dimension, shape (n, 3): a row of giotto-tda's arrays of diagrams.

        `diagram.triples()[None]` is what its transformers take (tried with version 0.6.2).

        >>> Diagram(1, np.array([1.0]), np.array([2.0])).triples().tolist()
        [[1.0, 2.0, 1.0]]
        """
        return np.column_stack([self.birth, self.death, np.full(len(self), float(self.dim))])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw death against birth, with pairs that never die at the edge, and return the axes."""
        from toposcope.core.drawing.diagram import draw_diagram

        return draw_diagram(self.pairs, self.dim, self.filtration, ax)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number and where it comes from: a line of the store's `features` table.

    `value` is what `probe` measured as its `feature`, in the feature's unit, at `step` of `run` (`tokens` are
    those seen). `layer`, `head` and `filtration` (the convention it was measured under) narrow it down.
    `draw` numbers the random subsample or the null's permutation; None marks a value that involves no draw.
    `scope` says what the number is about, `name` which one of them; a value of no single role has `role`
    "model". `status` and `note` say how it was obtained.

    >>> row = Row("a", 100, probe="mine", feature="norm", value=2.0, scope=Scope.MATRIX, name="head.weight")
    >>> f"{row.scope} {row.name}: {row.value}, {row.status}"
    'matrix head.weight: 2.0, ok'
    """

    run: str
    step: int
    probe: str
    feature: str
    value: float
    tokens: int | None = None
    name: str = ""
    role: Role = Role.MODEL
    layer: int | None = None
    head: int | None = None
    filtration: str = ""
    draw: int | None = None
    status: Status = Status.OK
    note: str = ""
    scope: Scope = Scope.MODEL
