"""The command `stable-arena`: a table of commands, each imported only when it is asked for.

To add a command, write `app/cli/<name>.py` with one function of that name (its docstring is the help, its
parameters the options) or, for a family such as `keys create` and `keys list`, a `typer.Typer` of that name; then
add its line to `COMMANDS`. The command raises what went wrong; `app.cli.failures` says it and exits.
"""

import sys
from collections.abc import Sequence
from typing import Any

import typer

import app
from app.cli.failures import run_guarded
from app.cli.lazy import LazyGroup

COMMANDS = {
    "demo": "app.cli.demo.command",
    "rate": "app.cli.rate.command",
    "worker": "app.cli.worker",
    "refit": "app.cli.refit",
    "leaderboard": "app.cli.leaderboard",
    "annotators": "app.cli.annotators",
    "policy": "app.cli.policy",
    "models": "app.cli.models",
    "audit": "app.cli.audit",
    "serve": "app.cli.serve",
    "migrate": "app.cli.migrate",
    "import": "app.cli.import_votes:import_votes",
    "export": "app.cli.export",
    "keys": "app.cli.keys",
    "lab": "app.cli.lab",
}
"""Command → the module with the function or Typer of that name, in the order of the help page."""


class _Commands(LazyGroup):
    table = COMMANDS

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command and exit, failures told in one line; no arguments at all show the help."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        extra["standalone_mode"] = False
        sys.exit(run_guarded(lambda: super(_Commands, self).main(words, *rest, **extra)))


application = typer.Typer(name="stable-arena", cls=_Commands, add_completion=False, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"stable-arena {app.__version__}")
        raise typer.Exit


@application.callback()
def stable_arena(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    """Turn arena votes into a leaderboard that stays put."""


def run() -> None:
    """Enter here: the console script."""
    application()
