"""The object of a row: a matrix, the matrices of one role, or the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from toposcope.core.types import Checkpoint, Diagram, Matrix, Role, Row, Scope, Status
from toposcope.store import KeptDiagram


@dataclass(frozen=True, slots=True)
class Label:
    """The identity columns of a row, apart from its feature and value."""

    name: str
    role: Role = Role.MODEL
    layer: int | None = None
    head: int | None = None
    scope: Scope = Scope.MODEL

    @classmethod
    def of(cls, matrix: Matrix) -> Label:
        """Return the label of a matrix."""
        return cls(matrix.name, matrix.role, matrix.layer, matrix.head, Scope.MATRIX)

    def rows(
        self,
        checkpoint: Checkpoint,
        probe: str,
        values: Mapping[str, float],
        *,
        filtration: str = "",
        draw: int | None = None,
        status: Status = Status.OK,
        note: str = "",
    ) -> list[Row]:
        """Return one row for each feature; NaN is marked degenerate."""
        return [
            Row(
                run=checkpoint.run,
                step=checkpoint.step,
                tokens=checkpoint.tokens,
                probe=probe,
                feature=feature,
                value=value,
                name=self.name,
                role=self.role,
                layer=self.layer,
                head=self.head,
                filtration=filtration,
                draw=draw,
                status=status if value == value else Status.DEGENERATE,
                note=note,
                scope=self.scope,
            )
            for feature, value in values.items()
        ]

    def keep(self, diagram: Diagram, draw: int | None = None) -> KeptDiagram:
        """Return `diagram` under this label."""
        return KeptDiagram(diagram, self.name, self.role, self.layer, self.head, draw, self.scope)


def groups(labels: Iterable[Label], whole: str) -> dict[Label, Callable[[Label], bool]]:
    """Return the labels of the aggregates over some matrices, each with the test for its members.

    There is one for the whole model, called `whole`, and one for each role that occurs.
    """
    roles = sorted({label.role for label in labels})
    groups_by_label: dict[Label, Callable[[Label], bool]] = {Label(whole): lambda _: True}
    for role in roles:
        groups_by_label[Label("role", role, scope=Scope.ROLE)] = lambda label, role=role: label.role == role  # type: ignore[misc]
    return groups_by_label
