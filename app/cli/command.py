"""The command `stable-arena`: a table of commands. A command's module is imported when the command runs.

To add a command, write `app/cli/<name>.py` with one function of that name (its docstring is the help, its
parameters are the options) or, for a family such as `keys create` and `keys list`, a `typer.Typer` of that name.
Then add its line to `_LINES`; a package of its own, such as the laboratory, is found by its entry point. A command
raises what went wrong; `app.cli.failures` prints it and sets the exit code.
"""

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import app
from app.cli.failures import run_guarded
from app.cli.stopping import end_as_at_ctrl_c
from app.errors import BadInputError

PLUGIN = "plugin"  # in the place of a command's module: the entry point of its name in the group below
PLUGINS = "stable_arena.commands"


class Listed(NamedTuple):
    """Where a command is, as `module:name`, and its line on the help page: the first of its own help."""

    place: str
    line: str


_PLACES = {
    "demo": "app.cli.demo.command:demo",
    "rate": "app.cli.rate.command:rate",
    "judges": "app.cli.judges.command:judges",
    "appeals": "app.cli.reviews:appeals",
    "impact": "app.cli.reviews:impact",
    "diff": "app.cli.leaderboard:diff",
    "migrate": "app.cli.installation:migrate",
    "backup": "app.cli.backups:backup",
    "restore": "app.cli.backups:restore",
    "compile": "app.cli.installation:compile_ahead",
    "import": "app.cli.imports:import_votes",
    "lab": PLUGIN,
}
"""Of commands that are not `app.cli.NAME:NAME`."""

_LINES = {
    "demo": "Start the service with a simulated crowd voting, and watch the leaderboard converge.",
    "rate": "Rate the models of a vote file: no database, votes in, a leaderboard out.",
    "judges": "Compare the judges of a vote file with its people, and rate the models by the judges alone.",
    "plot": "Draw a leaderboard that was rated or exported, as SVG, PNG or HTML.",
    "worker": "Run refits, imports and exports until it is stopped.",
    "refit": "Refit now and print the new leaderboard.",
    "leaderboard": "Print a published leaderboard.",
    "annotators": "List annotators, see the evidence, and decide on them.",
    "reviews": "List the open flags with their reasons, the strongest first.",
    "appeals": "List the appeals that wait for a decision.",
    "impact": "Show the newest leaderboard without an annotator, or with one who does not count.",
    "diff": "Say what moved between two snapshots, and why.",
    "battles": "See the battles that the service drew.",
    "policy": "Show the policy in force, change it, or see what a change would do.",
    "models": "List, add, rename, merge and archive models, and record facts about them.",
    "audit": "Show and verify the audit log.",
    "serve": "Run the HTTP service until it is stopped (Ctrl-C, SIGTERM or SIGHUP).",
    "migrate": "Bring the database to the schema of this version.",
    "doctor": "Say what is well, what is not, and what to do about it.",
    "backup": "Write the whole database to one file, while votes come in.",
    "restore": "Fill an empty database from a backup, and check it by a refit.",
    "compile": "Compile the numeric kernels once, so that the first fit need not.",
    "answers": "Import prompts and models' answers, for people to vote on; see what is there.",
    "invitations": "Open voting on the answers that lie here, by links or to everyone; see how many votes came.",
    "import": "Record the votes of a file.",
    "imports": "List the imports of vote files, and undo one as a whole.",
    "retractions": "List retractions, retract votes, and take a retraction back.",
    "export": "Write votes, annotators, the leaderboard or the answers to a file.",
    "webhooks": "List webhooks, add, pause, test and delete them, and see how their messages went.",
    "keys": "Make, list, rotate and revoke API keys.",
    "lab": "Repeat the field's experiments on a vote file or a simulated arena.",
}

COMMANDS = {name: Listed(_PLACES.get(name, f"app.cli.{name}:{name}"), line) for name, line in _LINES.items()}
"""The commands in the order of the help page."""


class LazyGroup(TyperGroup):
    """A group with the commands of `table` after its own; it imports their modules only to run them."""

    table: ClassVar[Mapping[str, Listed]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update({name: TyperCommand(name, help=listed.line) for name, listed in self.table.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        listed = self.table.get(str(name))
        return name, command if listed is None else load_command(str(name), listed), rest


def load_command(name: str, listed: Listed) -> Any:
    """Import a command: a function, or a `typer.Typer` with a family of them."""
    module, _, attribute = (find_plugin(name) if listed.place == PLUGIN else listed.place).partition(":")
    with importing_much():
        found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        found = single
    command = get_command(found)
    command.name, command.help = name, command.help or listed.line  # which a family lacks
    return command


@contextmanager
def importing_much() -> Iterator[None]:
    """Import modules without looking for garbage: they stay, and the searches took a tenth of a short command."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def find_plugin(name: str) -> str:
    """Return where a plugin's command is, as `module:name`.

    Raises BadInputError: the package that has it is not installed.
    """
    for point in entry_points(group=PLUGINS, name=name):
        return point.value
    raise BadInputError(
        f"`{name}` is a package of its own, stable-arena-{name}, and is not installed: "
        f"in a clone of Stable Arena run `pip install ./{name}`, or `make setup`"
    )


class _Commands(LazyGroup):
    table = COMMANDS

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command and exit; a failure is one line. Without arguments the help is shown."""
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
    # Fits use one thread of the linear algebra library (`app.rating.threads`). Its other threads would spin from
    # the import of numpy on, which took a fifth of the time of a short command.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    end_as_at_ctrl_c()
    application()
