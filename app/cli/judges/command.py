"""The command `stable-arena judges`: which judges of a vote file follow the people, without a database."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from rich.console import RenderableType
from rich.text import Text

from app.cli.inputs import (
    AnnotatorColumnOption,
    ColumnsOption,
    DatesOption,
    FilesArgument,
    PrefixOption,
    SchemaOption,
    VerdictOption,
    given_files,
    prefix_of,
)
from app.cli.outputs import choose_format, write_json, write_tables
from app.cli.progress import showing_stages
from app.cli.tables import leaderboard_table, make_table, number
from app.errors import BadInputError
from app.imports.formats.measures import ARENA
from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import join_vote_files, read_vote_file
from app.rating.errors import counted
from app.rating.settings import DEFINITIONS, LoopSettings, SettingError, check_settings

if TYPE_CHECKING:
    from app.cli.judges.report import JudgesReport

Format = Literal["table", "json"]
DEFAULTS = LoopSettings()
Rows = list[RenderableType]


def judges(
    files: FilesArgument,
    people: Annotated[
        str | None,
        typer.Option(
            metavar="ANNOTATOR,…",
            help="Who is a person, by name or pattern ('rater-*'); without it the column annotator_kind says it.",
        ),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FAMILY",
            help="Family of a model or a judge, by name or pattern: 'gpt-*=openai'. Repeat it.",
        ),
    ] = None,
    min_votes: Annotated[
        int,
        typer.Option(
            min=0, help="δ of the people's leaderboard: am-ELO of those with more votes where they are 20, else m-ELO."
        ),
    ] = DEFAULTS.min_votes,
    confidence: Annotated[float, typer.Option(help=DEFINITIONS["confidence"].text)] = DEFAULTS.confidence,
    style: Annotated[
        str | None,
        typer.Option(
            metavar="FEATURE,…",
            help="What judges may like, and their leaderboard takes out: length for length_a and length_b. By default "
            "length, headers, lists and bold are shown, and left in.",
        ),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column with the category of a vote; without it, the tags.")
    ] = "category",
    output_format: Annotated[
        Format | None, typer.Option("--format", help="By default what --output ends in, else table.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there instead of to standard output.")
    ] = None,
    schema: SchemaOption = None,
    columns: ColumnsOption = None,
    annotator_column: AnnotatorColumnOption = None,
    annotator_prefix: PrefixOption = "",
    dates: DatesOption = None,
    verdict: VerdictOption = None,
) -> None:
    """Compare the judges of a vote file with its people, and rate the models by the judges alone.

    model_a is the answer on the left. Votes with the same battle_id, or question, and models are of one battle.
    """
    settings = replace(DEFAULTS, min_votes=min_votes, confidence=confidence)
    try:
        check_settings(settings)
    except SettingError as error:
        raise BadInputError(f"--{error.name.replace('_', '-')} {error.detail}") from None
    form: Format = choose_format(output_format, output, get_args(Format))
    from app.cli.judges.report import compare_judges  # noqa: PLC0415  the solver takes most of a second to import

    features = tuple(name for part in (style or "").split(",") if (name := part.strip()))
    reading = ReadOptions(
        schema, annotator_column, False, columns, annotator_prefix, dates, tuple(verdict or ()), judged=True,
        features=features or tuple(ARENA), by="" if by == "tags" else by,
    )  # fmt: skip
    with given_files(files) as given, showing_stages() as stages:
        stages.stage("reading")
        votes = join_vote_files(
            [
                read_vote_file(
                    file, replace(reading, annotator_prefix=prefix_of(annotator_prefix, file)), progress=stages.share
                )
                for file in given
            ]
        )
        votes.require_valid()
        votes.require_category("" if by in ("category", "tags") else by)
        report = compare_judges(
            votes,
            people=[name for name in (people or "").split(",") if name],
            families=_families(family or []),
            settings=settings,
            style=features,
            stage=stages.stage,
        )
    for note in votes.notes:
        typer.echo(f"note: {note}", err=True)
    if form == "json":
        write_json(report, output)
    else:
        write_tables(_tables(report), output)


def _families(texts: list[str]) -> Mapping[str, str]:
    """Split NAME=FAMILY at the last equals sign: names may contain others."""
    parts = [text.rpartition("=") for text in texts]
    for name, _, family in parts:
        if not name or not family:
            raise BadInputError(f"--family must be NAME=FAMILY, is {name or family!r}")
    return {name: family for name, _, family in parts}


def _tables(report: "JudgesReport") -> Rows:
    people, families = report.people, any(row["own_family"] is not None for row in report.judges)
    costs = any(row["cost"] is not None for row in report.judges)
    more = (["Own family"] if families else []) + (["Cost"] if costs else [])
    table = make_table(
        "Judge", "Ability", "Lean", "Left", "Agrees", "Close", "Swapped", "Votes", *more, words=["Judge"]
    )  # fmt: skip
    for row in report.judges:
        shares = (_percent(row[one]) for one in ("left_share", "agreement", "agreement_close", "swap_consistency"))
        rest = [_with_ends(row, "own_family", 0)] * families + [number(row["cost"], 2)] * costs
        ability, lean = _with_ends(row, "ability", 2), _with_ends(row, "side_lean", 0)
        table.add_row(row["annotator"], ability, lean, *shares, f"{row['votes']:,}", *rest)
    agree = (_percent(people[one]) for one in ("agreement", "agreement_close"))
    table.add_row("people", "1", "", "", *agree, "", f"{people['votes']:,.0f}", *("" for _ in more))
    by = "the same battles" if people["agreement_by"] == "battle" else "the same pairs of models"
    footer = [
        f"Ability: 1 follows the people's order as they do. Lean, own family, likes: Elo points. Agrees: on {by}.",
        *_panel_lines(report),
    ]
    warnings = [
        Text(f"warning: {one['board']}: {one['detail']} ({one['code']})", style="yellow") for one in report.warnings
    ]
    parts = [table, "", *_breakdowns(report)]
    return [*parts, "The judges' own leaderboard", leaderboard_table(report.models), "", *footer, *warnings]


def _breakdowns(report: "JudgesReport") -> Rows:
    """Return a table each of agreement by the gap between the models, of categories, and of style."""
    rows, parts = [*report.judges, {**report.people, "annotator": "people"}], list[RenderableType]()
    ends = [one["low"] for one in report.people["by_gap"]]
    gaps = [*(f"{low:.0f} to {high:.0f}" for low, high in pairwise(ends)), f"from {ends[-1]:.0f}"]
    by_gap = [[row["annotator"], *(_percent(one["agreement"]) for one in row["by_gap"])] for row in rows]
    parts += _table_of(["Agrees by gap"], gaps, by_gap)
    by_category = [
        [one["category"], row["annotator"], _with_ends(one, "ability", 2), _percent(one["agreement"])]
        for row in rows
        for one in row["by_category"]
    ]
    parts += _table_of(["Category", "Judge"], ["Ability", "Agrees"], sorted(by_category, key=itemgetter(0)))
    features = [one["feature"] for one in max((row["style"] for row in rows), key=len)]
    by_style = [
        [row["annotator"], *(_with_ends(liked.get(name, {}), "points", 0) for name in features)]
        for row in rows
        for liked in [{one["feature"]: one for one in row["style"]}]
    ]
    return [*parts, *_table_of(["Likes"], features, by_style)]


def _table_of(words: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]]) -> Rows:
    """Return a table of the rows that have a figure, and an empty line; nothing without such a row."""
    known = [row for row in rows if any(text != "–" for text in row[len(words) :])]
    return [make_table(*words, *numbers, rows=known, words=words), ""] if known else []


def _panel_lines(report: "JudgesReport") -> list[str]:
    panels, tried = report.panels, {tuple(one["judges"]): one for one in report.panels["tried"]}
    if not tried:
        return []
    enough = tried[tuple(panels["enough"])]
    certain = f"{100 * report.people['order_certainty']:.1f} % of {panels['pairs']:,} pairs"
    agrees = f"{100 * enough['agreement']:.1f} % of the pairs are in the same order"
    lines = [f"Enough judges: {', '.join(panels['enough'])}. {agrees}; the people's own order is right in {certain}."]
    lines += [
        f"{row['annotator']}: {counted(row['calibration_votes'], 'vote')} of people would tell the ability to ± 0.1."
        for row in report.judges
        if row["calibration_votes"] is not None
    ]
    return lines


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _with_ends(row: Mapping[str, Any], name: str, digits: int) -> str:
    value, lower, upper = (row.get(f"{name}{end}") for end in ("", "_lower", "_upper"))
    if value is None:
        return "–"
    return f"{number(value, digits)} ({number(lower, digits)} to {number(upper, digits)})"
