"""The command `stable-arena lab`: experiments, each imported only when it is asked for.

To add one, write `app/cli/lab/<name>.py` with one function of that name and add its line to `EXPERIMENTS`.
"""

import typer

from app.cli.lazy import LazyGroup

EXPERIMENTS = {
    "prediction": "app.cli.lab.prediction",
    "consistency": "app.cli.lab.consistency",
    "perturb": "app.cli.lab.perturb",
    "order": "app.cli.lab.order",
    "transitivity": "app.cli.lab.transitivity",
    "attacks": "app.cli.lab.attacks",
    "fragility": "app.cli.lab.fragility",
    "budget": "app.cli.lab.budget",
    "wronged": "app.cli.lab.wronged",
}
"""Experiment → the module with the function of that name, in the order of the help page."""


class _Experiments(LazyGroup):
    table = EXPERIMENTS


lab = typer.Typer(cls=_Experiments, add_completion=False, no_args_is_help=True)


@lab.callback()
def about() -> None:
    """Repeat the field's experiments on a vote file or a simulated arena: docs/laboratory.md has the results."""
