"""What the options of several commands have in common."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer
from pydantic import BaseModel, ValidationError

from app.errors import BadInputError, FieldError, validation_message

LONGEST_REASON = 2000


def check_reason(text: str) -> str:
    """Return what --reason says, without space around it.

    Raises BadInputError: it is blank or too long.
    """
    reason = text.strip()
    if not 1 <= len(reason) <= LONGEST_REASON:
        raise BadInputError(f"--reason must have 1 to {LONGEST_REASON} characters")
    return reason


Printed = Literal["table", "json"]
PrintedOption = Annotated[Printed, typer.Option("--format", help="How to print the result.")]
LimitOption = Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")]
ReasonOption = Annotated[str, typer.Option(callback=check_reason, help="Why; it stays on record.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write there instead of to standard output.")
]

ALL = 2**31 - 1
"""The limit of a list that is not cut."""

Form = TypeVar("Form", bound=BaseModel)


def read_time(option: str, text: str | None) -> datetime | None:
    """Return the time that an option names; a time without an offset is in UTC.

    Raises BadInputError: the text is not an ISO 8601 time.
    """
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise BadInputError(f"{option} must be a time such as 2026-01-31T12:00:00Z, is {text!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def read_form(kind: type[Form], values: Mapping[str, Any]) -> Form:
    """Return the values as the model that the API checks too.

    Raises BadInputError: a value is not allowed; one field error for each.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        errors = tuple(
            FieldError(".".join(map(str, one["loc"])) or kind.__name__, validation_message(one))
            for one in error.errors(include_url=False, include_input=False)
        )
        raise BadInputError("a value is not valid", errors) from None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters of a dataclass type are replaced by an option for each field of the dataclass.

    typer takes one parameter for each option. A command that has many takes those that belong together as one object.
    """
    parameters, groups = list[Parameter](), dict[str, Any]()
    for name, one in signature(command, eval_str=True).parameters.items():
        if not is_dataclass(one.annotation):
            parameters.append(one.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(one.annotation, include_extras=True)
        groups[name] = one.annotation
        parameters += [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
            for field in fields(one.annotation)
        ]

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    return run
