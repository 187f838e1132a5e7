"""What installed packages bring: the objects that their entry points name, each checked for its type.

A package that fails, or ends the program while it is imported, is named and left out: it ends no command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from toposcope.core.errors import InputError

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


_TOLD: set[str] = set()


def leave_out(why: str) -> None:
    """Say once, on the stream of messages, why something that an installed package offers is left out."""
    if why not in _TOLD:
        _TOLD.add(why)
        print(f"problem: {why}", file=sys.stderr)


def spared(call: Callable[..., R], instead: S, *arguments: object) -> R | S:
    """Return the answer of a function or method that may be an installed package's.

    If such a one fails, lacks memory or ends the program, `instead` is returned, with a message. Ours may
    raise, and so may every error of input.
    """
    return call(*arguments) if is_ours(call) else _tried(call, call, instead, *arguments)


def _tried(call: Callable[..., R], named: object, instead: S, *arguments: object) -> R | S:
    """Return the answer of a package's function; if it fails, name it, and return `instead`."""
    try:
        return call(*arguments)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        owner = getattr(named, "__self__", None)  # what it inherits from ours is the package's, too
        kind = named if owner is None else owner if isinstance(owner, type) else type(owner)
        name = f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', named)}"
        name += "" if owner is None else f".{getattr(named, '__name__', '')}"
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        leave_out(
            f"{name} of an installed package failed ({why}), and its answer is left out; correct the package"
        )
        return instead


def spared_all(
    call: Callable[..., Iterable[R]], kind: type[R], *arguments: object, copied: bool = False
) -> Iterable[R]:
    """Return the objects of a kind that such a function answers with; none if a package's has another one.

    An error of input is one of the package here. If it may write into its arguments, it gets them `copied`.
    """
    if is_ours(call):
        return call(*arguments)

    def listed(*given: object) -> list[R]:
        try:
            answer = list(call(*(map(deepcopy, given) if copied else given)))
        except InputError as error:
            raise RuntimeError(str(error)) from error
        for answer_part in answer:
            if not isinstance(answer_part, kind):
                raise TypeError(f"it answered with {answer_part!r:.60}, which is no {kind.__name__}")
        return answer

    return _tried(listed, call, [], *arguments)


def is_ours(call: object) -> bool:
    """Return whether a function, a class, or an object with its method, is of this package.

    A method that a class of another package inherits from one of ours is not.

    >>> is_ours(leave_out), is_ours(Extensible), is_ours(str.upper)
    (True, True, False)
    """
    owner = getattr(call, "__self__", None)
    kinds = [call] if owner is None else [call, owner if isinstance(owner, type) else type(owner)]
    return all(str(getattr(kind, "__module__", "")).startswith("toposcope.") for kind in kinds)


def loaded(group: str, point: EntryPoint) -> Any:
    """Return what an entry point names; None, with a message, if its package fails or ends the program."""
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # a package's own module may do anything while it is imported
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        leave_out(
            f"{group}: {point.name} = {point.value} is left out, because it cannot be imported ({why}); "
            "correct the package, or uninstall it"
        )
        return None


def brought(group: str, *kinds: type[T]) -> Iterator[T]:
    """Yield what installed packages offer under the entry points of a group: objects of one of the kinds."""
    return (part for _, part in brought_with_names(group, *kinds))


def brought_with_names(group: str, *kinds: type[T]) -> Iterator[tuple[str, T]]:
    """Yield the same with names; what cannot be imported, or is of another kind, is left out and named."""
    for point in entry_points(group=group):
        part = loaded(group, point)
        if isinstance(part, kinds):
            yield point.name, part
        elif part is not None:
            _leave_out_kind(group, point, kinds)


def brought_classes(group: str, kind: type[T]) -> Iterator[type[T]]:
    """Yield the classes derived from `kind` that installed packages offer, as `brought` does objects."""
    for point in entry_points(group=group):
        part = loaded(group, point)
        if isinstance(part, type) and issubclass(part, kind):
            yield part
        elif part is not None:
            _leave_out_kind(group, point, (kind,))


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
            When one of this process has the name of another.
        """
        return self._named(dict.fromkeys((*self._own(), *self._installed, *self.added)))

    def others(self) -> tuple[type[T], ...]:
        """Return the classes that installed packages and this process brought."""
        return tuple(dict.fromkeys((*self._installed, *self.added)))

    def _own(self) -> tuple[type[T], ...]:
        return self.own if isinstance(self.own, tuple) else self.own()

    @cached_property
    def _installed(self) -> tuple[type[T], ...]:
        """The classes of installed packages; one whose name is taken is left out with a message."""
        kinds = tuple(brought_classes(self.group, self.kind))
        taken = {self.name_of(kind) for kind in self._own()} if kinds else set()  # ours are loaded only then
        kinds_by_name: dict[str, type[T]] = {}
        for kind in kinds:
            try:
                name = self.name_of(kind)
            except Exception as error:
                leave_out(f"{self.group}: {kind.__name__} has no name ({error}); correct the package")
                continue
            if name in taken or kinds_by_name.setdefault(name, kind) is not kind:
                leave_out(f"{self.group}: {self.doubled.format(repr(name))}; that of a package is left out")
        return tuple(kinds_by_name.values())

    def _named(self, kinds: Iterable[type[T]]) -> dict[str, type[T]]:
        kinds_by_name: dict[str, type[T]] = {}
        for kind in kinds:
            name = self.name_of(kind)
            if name in kinds_by_name:
                raise InputError(self.doubled.format(repr(name)))
            kinds_by_name[name] = kind
        return kinds_by_name


def _leave_out_kind(group: str, point: EntryPoint, kinds: tuple[type, ...]) -> None:
    wanted = " or ".join(kind.__name__ for kind in kinds)
    leave_out(
        f"{group}: {point.name} = {point.value} is left out, because it is not of the kind {wanted}; "
        "correct the package"
    )
