"""Groups of commands whose modules are imported when they are asked for, not before."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command


class LazyGroup(TyperGroup):
    """A group whose commands' modules are imported when they are run, or listed by --help.

    `table` maps a command to the module with the function or `typer.Typer` of that name, in the order of the help
    page; `module:name` where the command's own name cannot be one in Python.
    """

    table: ClassVar[Mapping[str, str]]

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002  typer's signature
        """Return the commands in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ARG002  typer's signature
        """Import the command's module and return the command; None where there is no such command."""
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name].partition(":")
        found = getattr(import_module(module), attribute or cmd_name)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(cmd_name)(found)
            found = single
        command = get_command(found)
        command.name = cmd_name  # a family has none of its own, and --help lists commands by it
        return command
