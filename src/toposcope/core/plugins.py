"""What installed packages bring: the objects that their entry points name, each checked for its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from toposcope.core.errors import InputError

T = TypeVar("T")


def brought(group: str, *kinds: type[T]) -> Iterator[T]:
    """Yield what installed packages offer under the entry points of a group: objects of one of the kinds.

    Raises
    ------
    InputError
        When a package cannot be imported, or its object is of another kind.
    """
    for point in entry_points(group=group):
        made = _loaded(group, point)
        if not isinstance(made, kinds):
            raise _wrong(group, point, kinds)
        yield made


def brought_classes(group: str, kind: type[T]) -> Iterator[type[T]]:
    """Yield the classes derived from `kind` that installed packages offer, as `brought` does objects."""
    for point in entry_points(group=group):
        made = _loaded(group, point)
        if not (isinstance(made, type) and issubclass(made, kind)):
            raise _wrong(group, point, (kind,))
        yield made


@dataclass(eq=False)
class Extensible(Generic[T]):
    """The classes of one kind: the package's `own`, those of installed packages, and those of this process.

    `own` may be a function, which is called where all of them are wanted. `group` is the entry-point group,
    `name_of` returns the name of a class, and `doubled` is the error for a name that two classes have.

    >>> named = Extensible("toposcope.errors", ValueError, (), lambda one: one.__name__, "{} exists already")
    >>> named.add(UnicodeError) is UnicodeError, list(named.by_name())
    (True, ['UnicodeError'])
    """

    group: str
    kind: type[T]
    own: tuple[type[T], ...] | Callable[[], tuple[type[T], ...]]
    name_of: Callable[[type[T]], str]
    doubled: str
    added: list[type[T]] = field(default_factory=list)

    def add(self, made: type[T]) -> type[T]:
        """Register a class for this process, and return it.

        Raises
        ------
        InputError
            When another class has its name.
        """
        if made not in self.added:
            # not those of installed packages: the caller may be one of them, still being imported
            self._named((*self._own(), *self.added, made))
            self.added.append(made)
        return made

    def by_name(self) -> dict[str, type[T]]:
        """Return every class by its name: own, installed, added.

        Raises
        ------
        InputError
            When two have one name, or an installed package brings something else.
        """
        return self._named(dict.fromkeys((*self._own(), *self._installed, *self.added)))

    def others(self) -> tuple[type[T], ...]:
        """Return the classes that installed packages and this process brought.

        Raises
        ------
        InputError
            As `by_name`.
        """
        if self._installed:
            self.by_name()  # refuses a doubled name
        return tuple(dict.fromkeys((*self._installed, *self.added)))

    def _own(self) -> tuple[type[T], ...]:
        return self.own if isinstance(self.own, tuple) else self.own()

    @cached_property
    def _installed(self) -> tuple[type[T], ...]:
        return tuple(brought_classes(self.group, self.kind))

    def _named(self, kinds: Iterable[type[T]]) -> dict[str, type[T]]:
        found: dict[str, type[T]] = {}
        for kind in kinds:
            name = self.name_of(kind)
            if name in found:
                raise InputError(self.doubled.format(repr(name)))
            found[name] = kind
        return found


def _loaded(group: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # a package's own module may raise anything while it is imported
        raise InputError(
            f"{group}: {point.name} = {point.value} cannot be imported ({type(error).__name__}: {error})",
            remedy="correct the package, or uninstall it",
        ) from error


def _wrong(group: str, point: EntryPoint, kinds: tuple[type, ...]) -> InputError:
    wanted = " or ".join(kind.__name__ for kind in kinds)
    return InputError(
        f"{group}: {point.name} = {point.value} is not of the kind {wanted}", remedy="correct the package"
    )
