import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection

from app.cli.boards import watched_console
from app.cli.failures import one_line
from app.cli.outputs import write_output
from app.cli.session import open_session
from app.cli.tables import render
from app.errors import BadInputError, FieldError
from app.models.changes import ModelChange, NewAlias, NewModel, add_alias, add_model, change_model
from app.models.service import Model, list_models

_ALL = 2**31 - 1
_BY = "command line"

Form = TypeVar("Form", bound=BaseModel)
Name = Annotated[str, typer.Argument(help="The model's name, or an alias.")]
Organization = Annotated[str | None, typer.Option(help="Who made it; empty forgets it.")]
License = Annotated[str | None, typer.Option(help="Under which terms it is available; empty forgets it.")]
Link = Annotated[str | None, typer.Option(help="Where to read more, http or https; empty forgets it.")]
Released = Annotated[str | None, typer.Option(help="When it was released, as 2026-01-31; empty forgets it.")]

models = typer.Typer(
    help="List, add, rename and archive models, and record facts about them.",
    add_completion=False,
    no_args_is_help=True,
)


@models.command("list")
def show(
    archived: Annotated[bool, typer.Option("--archived", help="The archived ones too.")] = False,
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print them.")] = "table",
) -> None:
    """List the models by name."""
    with open_session() as session, session.database.read() as conn:
        found = [one.public() for one in list_models(conn, limit=_ALL, archived=archived)]
    if output_format == "json":
        content = json.dumps({"models": [one.model_dump(mode="json") for one in found]}, indent=2, ensure_ascii=False)
        write_output((content + "\n").encode(), None)
    else:
        write_output(render([_table(found)], console=watched_console()).encode(), None)


@models.command()
def add(
    name: Annotated[str, typer.Argument(help="The new model's name.")],
    organization: Organization = None,
    license: License = None,  # noqa: A002  the option's public name
    link: Link = None,
    released: Released = None,
) -> None:
    """Add a model before any vote names it; where unknown models are refused, this is how they come in."""
    new = _form(NewModel, name=name, **_given(organization, license, link, released))
    with _changing() as conn:
        added = add_model(conn, new, added_by=_BY)
    typer.echo(one_line(f"{added.name} is on record."))


@models.command()
def rename(name: Name, new_name: Annotated[str, typer.Argument(help="What it is called from now on.")]) -> None:
    """Rename a model; the old name stays as an alias for good."""
    with _changing() as conn:
        renamed = change_model(conn, name, _form(ModelChange, name=new_name), changed_by=_BY)
    typer.echo(one_line(f"{name} is now {renamed.name}; votes may go on naming it as before."))


@models.command()
def archive(name: Name, undo: Annotated[bool, typer.Option("--undo", help="Show it on boards again.")] = False) -> None:
    """Leave a model out of boards; its votes count all the same."""
    with _changing() as conn:
        changed = change_model(conn, name, _form(ModelChange, archived=not undo), changed_by=_BY)
    typer.echo(one_line(f"{changed.name} is {'shown on boards again' if undo else 'archived'}."))


@models.command()
def alias(
    name: Name,
    alias: Annotated[str, typer.Argument(help="Another name of the model.")],
    valid_from: Annotated[str | None, typer.Option("--from", help="From when on, as 2026-01-31T00:00:00Z.")] = None,
    valid_until: Annotated[str | None, typer.Option("--until", help="Until before when.")] = None,
) -> None:
    """Give a model another name, for good or for a time."""
    new = _form(NewAlias, name=alias, valid_from=valid_from, valid_until=valid_until)
    with _changing() as conn:
        added = add_alias(conn, name, new, added_by=_BY)
    typer.echo(one_line(f"{added.name} means {name}{_period(added.valid_from, added.valid_until)}."))


@models.command("set")
def set_facts(
    name: Name,
    organization: Organization = None,
    license: License = None,  # noqa: A002  the option's public name
    link: Link = None,
    released: Released = None,
) -> None:
    """Say what is known of a model; what is not given stays."""
    given = _given(organization, license, link, released)
    if not given:
        raise BadInputError("nothing to set: give --organization, --license, --link or --released")
    with _changing() as conn:
        changed = change_model(conn, name, _form(ModelChange, **given), changed_by=_BY)
    typer.echo(one_line(f"{changed.name}: {', '.join(given)} {'is' if len(given) == 1 else 'are'} on record."))


@contextmanager
def _changing() -> Iterator[Connection]:
    with open_session() as session, session.database.begin() as conn:
        yield conn


def _given(
    organization: str | None, license_: str | None, link: str | None, released: str | None
) -> dict[str, str | None]:
    values = {"organization": organization, "license": license_, "link": link, "released": released}
    return {name: value or None for name, value in values.items() if value is not None}


def _form(kind: type[Form], **values: Any) -> Form:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        errors = tuple(
            FieldError("".join(f"{part}" for part in one["loc"]), one["msg"].removeprefix("Value error, "))
            for one in error.errors(include_url=False, include_input=False)
        )
        raise BadInputError("what was given is not valid", errors) from None


def _period(begin: datetime | None, end: datetime | None) -> str:
    parts = [f" from {begin:%Y-%m-%d %H:%M %Z}" if begin else "", f" until {end:%Y-%m-%d %H:%M %Z}" if end else ""]
    return "".join(parts) or " for good"


def _table(found: list[Model]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Model", "Organization", "License", "Link", "Released", "Archived"):
        table.add_column(column, overflow="fold")
    for one in found:
        texts = (one.name, one.organization or "", one.license or "", one.link or "")
        table.add_row(
            *(Text(one_line(value)) for value in texts),
            f"{one.released or ''}",
            f"{one.archived_at:%Y-%m-%d}" if one.archived_at else "",
        )
    return table
