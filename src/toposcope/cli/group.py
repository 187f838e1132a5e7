"""A command with subcommands: for an unknown one it suggests the nearest."""

from __future__ import annotations

import click

from toposcope.core.errors import did_you_mean


class SuggestingGroup(click.Group):
    """A group whose error for an unknown subcommand suggests the nearest."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand at the start of `args`."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], names)}")
        return super().resolve_command(ctx, args)
