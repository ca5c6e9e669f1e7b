"""The command `stable-arena policy`: show the policy, change it, preview a change."""

import json
from operator import itemgetter
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from app.auth.keys import COMMAND_LINE
from app.cli.options import PrintedOption, ReasonOption, read_form
from app.cli.outputs import print_made, print_result
from app.cli.progress import showing_stages
from app.cli.session import changing, open_session, reading
from app.cli.tables import shown, table_of
from app.errors import BadInputError
from app.policy.changes import changed_settings, set_policy
from app.policy.presets import PRESETS, Preset
from app.policy.schemas import REMOVED, Policy, PolicyVersion
from app.policy.service import current_policy, policy_before
from app.rating.errors import counted
from app.refits.fit.process import FitResources
from app.review.previews import PolicyPreviews
from app.review.schemas import PolicyPreview

_LISTED = 20

Changes = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE…", help="Settings to change, as min_votes=20; null removes a limit."),
]
PresetOption = Annotated[
    Preset | None,
    typer.Option(
        help="Settings that go together. small-team: every vote counts, and no board and no rank is withheld."
    ),
]

policy = typer.Typer(invoke_without_command=True, add_completion=False)


@policy.callback()
def show_alone(context: typer.Context, output_format: PrintedOption = "table") -> None:
    """Show the policy in force, change it, or see what a change would do."""
    if context.invoked_subcommand is None:
        show(output_format)


@policy.command()
def show(output_format: PrintedOption = "table") -> None:
    """Show the policy in force, as `policy` alone does."""
    with reading() as conn:
        version = current_policy(conn)
    _print(version, output_format)


@policy.command()
def preview(changes: Changes = None, preset: PresetOption = None, output_format: PrintedOption = "table") -> None:
    """Show which annotators' standings and which ranks a change would move; change nothing."""
    with showing_stages() as stages, open_session(creates=False) as session:
        with session.database.read() as conn:
            settings = changed(current_policy(conn).settings, preset, changes)
        stages.stage("Fitting")
        previews = PolicyPreviews(session.database, FitResources.chosen(session.settings))
        try:
            found = previews.preview(settings)
        finally:
            previews.stop()
    print_result(output_format, found, [_sentences(found), *_annotators(found)])


@policy.command(name="set")
def put(
    reason: ReasonOption,
    changes: Changes = None,
    preset: PresetOption = None,
    output_format: PrintedOption = "table",
) -> None:
    """Change the policy from the next refit on; `policy preview` shows first what the change would do."""
    with changing(creates=True) as conn:
        settings = changed(current_policy(conn).settings, preset, changes)
        version = set_policy(conn, settings, reason=reason, created_by=COMMAND_LINE)
        replaced = policy_before(conn, version.version)
    print_made(output_format, version, _moved(replaced, version))


def changed(settings: Policy, preset: Preset | None, changes: list[str] | None) -> Policy:
    """Return the policy with a preset and then these settings, values written as JSON or as plain text.

    Raises BadInputError: nothing is given, a change is not NAME=VALUE, or names no setting, or a value is not allowed.
    """
    if preset is None and not changes:
        raise BadInputError("give NAME=VALUE, or a --preset")
    values: dict[str, Any] = settings.model_dump(mode="json") | dict(PRESETS[preset] if preset else {})
    for change in changes or ():
        name, equals, value = change.partition("=")
        if not equals:
            raise BadInputError(f"{change!r} is not NAME=VALUE")
        if name in REMOVED:
            raise BadInputError(f"{name} {REMOVED[name]}")
        if name not in values:
            raise BadInputError(f"there is no setting {name!r}; there are {', '.join(values)}")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return read_form(Policy, values)


def _moved(replaced: PolicyVersion | None, version: PolicyVersion) -> str:
    """Say in a line what the version changed."""
    assert replaced is not None  # noqa: S101  a change has a version before it
    changes = changed_settings(replaced.settings, version.settings)
    words = [f"{name} {json.dumps(old)} → {json.dumps(new)}" for name, (old, new) in changes.items()]
    return f"Version {replaced.version} → {version.version}: {', '.join(words) or 'the same settings'}"


def _print(version: PolicyVersion, output_format: str) -> None:
    table = table_of(
        version.settings.model_dump(mode="json").items(), ("Setting", itemgetter(0)),
        ("Value", lambda one: json.dumps(one[1])), ("", lambda one: Policy.model_fields[one[0]].description),
    )  # fmt: skip
    caption = f"Version {version.version}, set by {version.created_by}: {version.reason}"
    print_result(output_format, version, [table, caption])


def _sentences(found: PolicyPreview) -> str:
    counts = ", ".join(f"{number:,} {word.replace('_', ' ')}" for word, number in found.counts.items())
    lines = [
        found.basis,
        f"{found.votes_used:,} of {counted(found.votes_read, 'vote')} would count.",
        f"Standings that would change: {counts}.",
        *found.summary,
    ]
    if found.review_reason is not None:
        lines.append(f"The refit would wait for review: {found.review_reason}.")
    return "\n".join(lines)


def _annotators(found: PolicyPreview) -> list[RenderableType]:
    ability = ("Ability", lambda one: shown(one.shadow_ability if one.ability is None else one.ability, ".3f"))
    columns = ("Annotator=annotator", "Now=before", "Then=after", ability, "Votes=votes")
    left = sum(found.counts.values()) - _LISTED
    more = [f"… and {left:,} more"] if left > 0 else []
    return [table_of(found.annotators[:_LISTED], *columns, figures=["Ability"]), *more]
