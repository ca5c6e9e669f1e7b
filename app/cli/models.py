"""The command `stable-arena models`: list, add, rename, merge and archive models."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated

import typer

from app.auth.keys import COMMAND_LINE
from app.cli.failures import one_line
from app.cli.options import ALL, PrintedOption, grouped, read_form
from app.cli.outputs import print_list
from app.cli.session import changing, reading
from app.database.timestamps import from_midnight
from app.errors import BadInputError
from app.models.merges import mark_changed, merge_model, unmark_changed, unmerge_model
from app.models.schemas import Merge, ModelChange, NewAlias, NewModel, NewVersion, Publication, Unmerge
from app.models.service import add_alias, add_model, change_model, list_models, publish_model

Name = Annotated[str, typer.Argument(help="The model's name, or an alias.")]


@dataclass(frozen=True)
class Facts:
    """What is on record of a model; what is not given stays."""

    organization: Annotated[str | None, typer.Option(help="Who made it; empty removes the entry.")] = None
    license: Annotated[str | None, typer.Option(help="Its licence; empty removes the entry.")] = None
    link: Annotated[str | None, typer.Option(help="Where to read more, http or https; empty removes the entry.")] = None
    released: Annotated[str | None, typer.Option(help="Release date, as 2026-01-31; empty removes the entry.")] = None
    price: Annotated[float | None, typer.Option(help="US dollars for a million tokens; 0 removes the entry.")] = None

    def given(self) -> dict[str, str | float | None]:
        """Return the facts that are given, None for those that are removed."""
        return {name: value or None for name, value in asdict(self).items() if value is not None}


Reason = Annotated[str | None, typer.Option(help="Why; name no person here, reasons are kept for ever.")]

models = typer.Typer(add_completion=False, no_args_is_help=True)


@models.command("list")
def show(
    archived: Annotated[bool, typer.Option("--archived", help="Also the archived ones.")] = False,
    output_format: PrintedOption = "table",
) -> None:
    """List the models by name."""
    with reading() as conn:
        found = list_models(conn, limit=ALL, archived=archived)
    facts = ("Organization=organization", "License=license", "Link=link", "Released=released", "Price=price")
    archived_on = ("Archived", lambda one: one.archived_at and one.archived_at.date())
    hidden = ("Unreleased", lambda one: "yes" if one.unreleased else None)
    print_list(output_format, "models", found, "Model=name", *facts, hidden, archived_on, "Merged into=merged_into")


@models.command()
@grouped
def add(
    name: Annotated[str, typer.Argument(help="The new model's name.")],
    facts: Facts,
    unreleased: Annotated[bool, typer.Option("--unreleased", help="A codename: nothing public names it yet.")] = False,
) -> None:
    """Add a model before the first vote names it; needed where votes on unknown models are refused."""
    new = read_form(NewModel, {"name": name, "unreleased": unreleased, **facts.given()})
    with changing(creates=True) as conn:
        added = add_model(conn, new, added_by=COMMAND_LINE)
    typer.echo(one_line(f"{added.name} was added."))


@models.command()
def rename(name: Name, new_name: Annotated[str, typer.Argument(help="The new name.")]) -> None:
    """Rename a model; the old name becomes an alias for good."""
    with changing() as conn:
        renamed = change_model(conn, name, read_form(ModelChange, {"name": new_name}), changed_by=COMMAND_LINE)
    typer.echo(one_line(f"{name} is now {renamed.name}; votes may still use the old name."))


@models.command()
def publish(
    name: Name,
    real: Annotated[str | None, typer.Option("--as", help="Its real name; the codename becomes an alias.")] = None,
) -> None:
    """Let the public know of an unreleased model; the next refit gives it a rank."""
    body = read_form(Publication, {"name": real})
    with changing() as conn:
        published = publish_model(conn, name, body, published_by=COMMAND_LINE)
    typer.echo(one_line(f"{published.name} is public, and ranked from the next refit on."))


@models.command()
def archive(
    name: Name,
    reason: Annotated[
        str | None, typer.Option(help="Why, for everyone to read; name no person here. Needed without --undo.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Show it on leaderboards again.")] = False,
) -> None:
    """Hide a model from the newest leaderboard and later ones; its votes still count."""
    if reason is None and not undo:
        raise BadInputError("say why with --reason: the page /governance shows it")
    if reason is not None and undo:
        raise BadInputError("--reason does not go with --undo")
    body = read_form(ModelChange, {"archived": False} if undo else {"archived": True, "reason": reason})
    with changing() as conn:
        changed = change_model(conn, name, body, changed_by=COMMAND_LINE)
    typer.echo(one_line(f"{changed.name} is {'shown on leaderboards again' if undo else 'archived'}."))


@models.command()
def merge(
    name: Name,
    into: Annotated[str, typer.Option(help="The model for which its votes are to count.")],
    reason: Reason = None,
) -> None:
    """Let a model's votes count for another model: two spellings of one model. Votes keep their names."""
    body = read_form(Merge, {"into": into, "reason": reason})
    with changing() as conn:
        merged = merge_model(conn, name, body, merged_by=COMMAND_LINE)
    typer.echo(one_line(f"Votes on {merged.name} count for {merged.merged_into} from the next refit on."))


@models.command()
def unmerge(name: Name, reason: Reason = None) -> None:
    """Take a merge back: the model's votes count for itself again."""
    with changing() as conn:
        found = unmerge_model(
            conn, name, reason=read_form(Unmerge, {"reason": reason}).reason, unmerged_by=COMMAND_LINE
        )
    typer.echo(one_line(f"Votes on {found.name} count for itself from the next refit on."))


@models.command()
def changed(
    name: Name,
    at: Annotated[str, typer.Option(help="When it changed, as 2026-11-01 (UTC) or 2026-11-01T12:00:00Z.")],
    reason: Reason = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back: the votes before count for it again.")] = False,
) -> None:
    """Say that a model changed at some time: the votes before it count for a model of their own."""
    body = read_form(NewVersion, {"at": from_midnight(at), "reason": reason})
    with changing() as conn:
        if undo:
            found = unmark_changed(conn, name, body, unmarked_by=COMMAND_LINE)
            said = f"Votes before {at} count for {found.name} from the next refit on."
        else:
            version = mark_changed(conn, name, body, marked_by=COMMAND_LINE)
            said = f"Votes on {version.model} before {at} count for {version.before} from the next refit on."
    typer.echo(one_line(said))


@models.command()
def alias(
    name: Name,
    alias: Annotated[str, typer.Argument(help="Another name of the model.")],
    valid_from: Annotated[
        str | None, typer.Option("--from", help="First time at which it is valid, as 2026-01-31T00:00:00Z.")
    ] = None,
    valid_until: Annotated[str | None, typer.Option("--until", help="Time from which it is no longer valid.")] = None,
) -> None:
    """Give a model another name, for good or for a period."""
    new = read_form(NewAlias, {"name": alias, "valid_from": valid_from, "valid_until": valid_until})
    with changing() as conn:
        added = add_alias(conn, name, new, added_by=COMMAND_LINE)
    typer.echo(one_line(f"{added.name} means {name}{_period(added.valid_from, added.valid_until)}."))


@models.command("set")
@grouped
def set_facts(name: Name, facts: Facts) -> None:
    """Record facts about a model; what is not given stays."""
    given = facts.given()
    if not given:
        raise BadInputError("nothing to set: give --organization, --license, --link, --released or --price")
    with changing() as conn:
        changed = change_model(conn, name, read_form(ModelChange, given), changed_by=COMMAND_LINE)
    typer.echo(one_line(f"{changed.name}: recorded {', '.join(given)}."))


def _period(begin: datetime | None, end: datetime | None) -> str:
    parts = [f" from {begin:%Y-%m-%d %H:%M %Z}" if begin else "", f" until {end:%Y-%m-%d %H:%M %Z}" if end else ""]
    return "".join(parts) or " for good"
