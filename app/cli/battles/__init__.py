"""The command `stable-arena battles`: each of its commands is imported only when it runs."""

import typer

from app.cli.command import LazyGroup, Listed

COMMANDS = {
    "list": Listed("app.cli.battles.listing:list_battles", "List battles, the newest first."),
    "show": Listed("app.cli.battles.listing:show", "Show a battle: what was drawn, from which models, how it ended."),
    "exposure": Listed(
        "app.cli.battles.exposure:exposure",
        "Report which battles were offered, how they ended, and what the policy intended: by default of the last day.",
    ),
    "simulate": Listed(
        "app.cli.battles.simulate:simulate",
        "Simulate an arena like yours under every battle policy: how many votes its ranking takes.",
    ),
}
"""The commands in the order of the help page."""


class _Commands(LazyGroup):
    table = COMMANDS


battles = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True)


@battles.callback()
def about() -> None:
    """See the battles that the service drew, and simulate other ways to draw them.

    docs/battles.md says how it draws them.
    """
