import json
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from app.cli.boards import watched_console
from app.cli.outputs import write_output
from app.cli.progress import showing_stages
from app.cli.reasons import check_reason
from app.cli.session import open_session
from app.cli.tables import render
from app.errors import BadInputError, FieldError
from app.policy.schemas import Policy, PolicyVersion
from app.policy.service import current_policy, set_policy
from app.review.previews.schemas import PolicyPreview
from app.review.previews.service import PolicyPreviews
from app.worker.assembly import fit_limits

_LISTED = 20

Format = Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")]
Changes = Annotated[
    list[str],
    typer.Argument(metavar="NAME=VALUE…", help="Settings to change, for example min_votes=20; null for none."),
]

policy = typer.Typer(invoke_without_command=True, add_completion=False)


@policy.callback()
def show_alone(context: typer.Context, output_format: Format = "table") -> None:
    """Show the policy in force, change it, or see what a change would do."""
    if context.invoked_subcommand is None:
        show(output_format)


@policy.command()
def show(output_format: Format = "table") -> None:
    """Show the policy in force, as `policy` alone does."""
    with open_session() as session, session.database.read() as conn:
        version = current_policy(conn)
    _print(version, output_format)


@policy.command()
def preview(changes: Changes, output_format: Format = "table") -> None:
    """Say who would be flagged, excluded, pending, back in or cleared, and how the board would move; change nothing."""
    with showing_stages() as stages, open_session() as session:
        with session.database.read() as conn:
            settings = changed(current_policy(conn).settings, changes)
        stages.stage("Fitting")
        found = PolicyPreviews(session.database, fit_limits(session.settings)).preview(settings)
    if output_format == "json":
        write_output((found.model_dump_json(indent=2) + "\n").encode(), None)
    else:
        write_output(render([Text(_sentences(found)), _annotators(found)], console=watched_console()).encode(), None)


@policy.command(name="set")
def put(
    changes: Changes,
    reason: Annotated[str, typer.Option(help="Why; kept with the policy for ever.")],
    output_format: Format = "table",
) -> None:
    """Put a changed policy in force, from the next refit on; `policy preview` shows first what it would do."""
    reason = check_reason(reason)
    with open_session() as session, session.database.begin() as conn:
        settings = changed(current_policy(conn).settings, changes)
        version = set_policy(conn, settings, reason=reason, created_by="command line")
    _print(version, output_format)


def changed(settings: Policy, changes: list[str]) -> Policy:
    """Return the policy with these settings changed, values written as JSON or as bare words.

    Raises
    ------
    BadInputError
        A change is not NAME=VALUE, or names no setting, or the value is not allowed.
    """
    values: dict[str, Any] = settings.model_dump(mode="json")
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise BadInputError(f"{change!r} is not NAME=VALUE")
        if name not in values:
            raise BadInputError(f"there is no setting {name!r}; there are {', '.join(values)}")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    try:
        return Policy.model_validate(values)
    except ValidationError as error:
        errors = (
            FieldError(".".join(map(str, e["loc"])) or "policy", e["msg"]) for e in error.errors(include_input=False)
        )
        raise BadInputError("the policy is not valid", tuple(errors)) from None


def _print(version: PolicyVersion, output_format: str) -> None:
    if output_format == "json":
        write_output((version.model_dump_json(indent=2) + "\n").encode(), None)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Setting")
    table.add_column("Value")
    table.add_column("", overflow="fold")
    for name, value in version.settings.model_dump(mode="json").items():
        table.add_row(name, json.dumps(value), Policy.model_fields[name].description)
    caption = Text(f"Version {version.version}, set by {version.created_by}: {version.reason}")
    write_output(render([table, caption], console=watched_console()).encode(), None)


def _sentences(found: PolicyPreview) -> str:
    counts = ", ".join(f"{number:,} {word.replace('_', ' ')}" for word, number in found.counts.items())
    lines = [
        f"{found.votes_used:,} of {found.votes_read:,} votes would count.",
        f"Standings that would change: {counts}.",
        *found.summary,
    ]
    if found.review_reason is not None:
        lines.append(f"The refit would wait for review: {found.review_reason}.")
    return "\n".join(lines)


def _annotators(found: PolicyPreview) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Annotator", "Now", "Then", "Ability", "Votes"):
        table.add_column(column, justify="right" if column in ("Ability", "Votes") else "left", overflow="fold")
    for one in found.annotators[:_LISTED]:
        ability = one.ability if one.ability is not None else one.shadow_ability
        shown = "–" if ability is None else f"{ability:.3f}"
        table.add_row(Text(one.annotator), one.before, one.after, shown, f"{one.votes:,}")
    left = sum(found.counts.values()) - _LISTED
    if left > 0:
        table.add_row(f"… and {left:,} more", "", "", "", "")
    return table
