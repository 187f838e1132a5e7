"""A command with subcommands: for an unknown one it suggests the nearest."""

from __future__ import annotations

import click

from toposcope.core.errors import did_you_mean


class SuggestingGroup(click.Group):
    """A group whose error for an unknown subcommand suggests the nearest."""

    def has_command(self, ctx: click.Context, name: str) -> bool:
        """Return whether a subcommand is known."""
        return name in self.list_commands(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand at the start of `args`."""
        if args and not args[0].startswith("-") and not self.has_command(ctx, args[0]):
            names = self.list_commands(ctx)
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], names)}")
        return super().resolve_command(ctx, args)
