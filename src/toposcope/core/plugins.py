"""What installed packages bring: the objects that their entry points name, each checked for its type."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

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
