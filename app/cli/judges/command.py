"""The command `stable-arena judges`: which judges of a vote file follow the people, without a database."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.console import RenderableType
from rich.text import Text

from app.cli.inputs import FileOptions, FilesArgument, features_of, given_files, read_votes
from app.cli.options import OutputOption, Printed, grouped
from app.cli.outputs import choose_format, print_result
from app.cli.progress import showing_stages
from app.cli.tables import Column, leaderboard_table, make_table, shown, table_of
from app.errors import BadInputError
from app.imports.formats.measures import ARENA
from app.imports.formats.options import ReadOptions
from app.rating.errors import counted
from app.rating.settings import DEFINITIONS, LoopSettings, SettingError, check_settings

if TYPE_CHECKING:
    from app.cli.judges.report import JudgesReport
    from app.rating.judges.planning import Prices, VotePlan

DEFAULTS = LoopSettings()
Rows = list[RenderableType]


@grouped
def judges(
    files: FilesArgument,
    *,
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
            min=0, help="δ of the people's leaderboard: where 20 people have more votes, those count; else all do."
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
    soft: Annotated[
        bool, typer.Option("--soft", help="Count a verdict that is a probability as one, not as the likelier side.")
    ] = False,
    plan: Annotated[
        float | None,
        typer.Option(
            metavar="WIDTH",
            help="Say how many votes of people alone, and beside judges, make the median interval so many Elo points "
            "wide from end to end.",
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="people=P,judge=P", help="Price of a vote of each, for the cheapest plan: people=0.5,judge=0.01."
        ),
    ] = None,
    output_format: Annotated[
        Printed | None, typer.Option("--format", help="By default what --output ends in, else table.")
    ] = None,
    output: OutputOption = None,
    read: FileOptions,
) -> None:
    """Compare the judges of a vote file with its people, and rate the models by the judges alone.

    model_a is the answer on the left. Votes with the same battle_id, or question, and models are of one battle; those
    of a judge on it count as one. Where people saw a random part of the judges' battles, judges sharpen the people's
    leaderboard.
    """
    settings = replace(DEFAULTS, min_votes=min_votes, confidence=confidence)
    try:
        check_settings(settings)
    except SettingError as error:
        raise BadInputError(f"--{error.name.replace('_', '-')} {error.detail}") from None
    planned = _plan(plan, price)
    form: Printed = choose_format(output_format, output, get_args(Printed))
    from app.cli.judges.report import compare_judges  # noqa: PLC0415  the solver takes most of a second to import

    features = features_of(style)
    options = read.reading(
        ReadOptions, judged=True, soft=soft, features=features or tuple(ARENA), by="" if by == "tags" else by
    )
    with given_files(files) as given, showing_stages() as stages:
        stages.stage("reading")
        votes = read_votes(given, options, stages.share)
        votes.require_valid(votes.path)
        votes.require_category("" if by in ("category", "tags") else by)
        report = compare_judges(
            votes,
            people=[name for name in (people or "").split(",") if name],
            families=_families(family or []),
            settings=settings,
            style=features,
            plan=planned,
            stage=stages.stage,
        )
    for note in votes.notes:
        typer.echo(f"note: {note}", err=True)
    print_result(form, report, _tables(report), output=output)


def _families(texts: list[str]) -> Mapping[str, str]:
    """Split NAME=FAMILY at the last equals sign: names may contain others."""
    parts = [text.rpartition("=") for text in texts]
    for name, _, family in parts:
        if not name or not family:
            raise BadInputError(f"--family must be NAME=FAMILY, is {name or family!r}")
    return {name: family for name, _, family in parts}


def _plan(width: float | None, price: str | None) -> "tuple[float, Prices | None] | None":
    """Return the width to plan for, and the prices of votes."""
    from app.rating.judges.planning import Prices  # noqa: PLC0415  as the report, it loads the mathematics

    if width is None:
        if price is not None:
            raise BadInputError("--price is for a plan: give --plan WIDTH too")
        return None
    if not (math.isfinite(width) and width > 0.0):
        raise BadInputError(f"--plan must be a number of Elo points above 0, is {width:g}")
    if price is None:
        return width, None
    given = dict(part.strip().rpartition("=")[::2] for part in price.split(","))
    try:
        prices = {name: float(text) for name, text in given.items()}
    except ValueError:
        prices = {}
    if prices.keys() != {"people", "judge"} or not all(0.0 < one < math.inf for one in prices.values()):
        raise BadInputError(f"--price must be such as people=0.5,judge=0.01, both above 0, is {price!r}")
    return width, Prices(**prices)


def _tables(report: "JudgesReport") -> Iterator[RenderableType]:
    people = report.people
    families = {
        title: name
        for title, name in (("Own family", "own_family"), ("By judges", "own_family_by_judges"))
        if any(row[name] is not None for row in report.judges)
    }
    costs = any(row["cost"] is not None for row in report.judges)
    shares = ("Left=left_share:%", "Agrees=agreement:%", "Close=agreement_close:%", "Swapped=swap_consistency:%")
    more: list[Column] = [(title, partial(_with_ends, name=name, digits=0)) for title, name in families.items()]
    more += ["Cost=cost:.2f"] * costs
    columns: list[Column] = [
        ("Slope", lambda row: _with_ends(row, "ability", 2)), ("Lean", lambda row: _with_ends(row, "side_lean", 0)),
        *shares, "Votes=votes", *more,
    ]  # fmt: skip
    blank = dict.fromkeys(("side_lean", "left_share", "swap_consistency", *families.values(), "cost"), "")
    theirs = [{**people, **blank, "annotator": "people", "ability": "1", "votes": round(people["votes"])}]
    rows = [*report.judges, *(theirs if people["annotators"] else ())]
    yield table_of(rows, "Judge=annotator", *columns, figures=["Slope", "Lean", *families])
    yield ""
    yield from _breakdowns(report)
    yield from ["The judges' own leaderboard", leaderboard_table(report.models), ""]
    yield from _sharpened(report)
    by = "the same battles" if people["agreement_by"] == "battle" else "the same pairs of models"
    slope, agrees = "Slope: 1 follows the people's order as they do. ", f" Agrees: on {by}."
    units = "Lean, own family, likes: Elo points."
    yield f"{slope}{units}{agrees}" if people["annotators"] else units
    yield from _panel_lines(report)
    for one in report.warnings:
        yield Text(f"warning: {one['board']}: {one['detail']} ({one['code']})", style="yellow")


def _sharpened(report: "JudgesReport") -> Iterator[RenderableType]:
    """Yield the people's leaderboard beside that of people and judges, how they were put together, and the plan."""
    if report.sharpened is not None:
        alone = {row["model"]: row for row in report.people_models}
        columns: list[Column] = [
            ("Together", _score),
            ("People alone", lambda row: _score(alone[row["model"]])),
        ]
        yield "People and judges together"
        yield table_of(report.sharpened, "Model=model", *columns, figures=["Together", "People alone"])
        about, votes, worth = report.sharpening, report.people_votes, report.people_votes_worth or 0.0
        saw = f"{about['people_battles']:,} of the {about['judged_battles']:,} that judges saw"
        weighed = ", by the inverse of their propensities" if about["by_propensity"] else ""
        yield f"People and judges together: your {counted(round(votes), 'vote')} of people count like {worth:,.0f}."
        yield (
            f"This holds if people's battles, {saw}, are a random part{weighed}; "
            f"no test says otherwise (p = {about['random_part_p']:.2g})."
        )
        yield ""
    if report.plan is not None:
        yield from [*_plan_lines(report.plan), ""]


def _score(row: Mapping[str, Any]) -> str:
    """Show a score with its interval, – without one."""
    score, lower, upper = (shown(row[name], ".0f") for name in ("score", "lower", "upper"))
    return score if row["score"] is None else f"{score} ({lower} to {upper})"


def _plan_lines(plan: "VotePlan") -> list[str]:
    if plan.people_alone is None:
        return ["No plan: the people's leaderboard has no intervals."]
    line = f"Intervals {plan.width:g} points wide take {counted(plan.people_alone, 'vote')} of people alone"
    if plan.people_with_judges is not None:
        line += f", {plan.people_with_judges:,} beside the judges' battles so far"
    lines = [f"{line}.", f"Now the median interval is {plan.people_width:.0f} points wide."]
    if (best := plan.cheapest) is not None:
        judged = f"{counted(best.judge_votes, 'vote')} of judges on {counted(best.judged_battles, 'battle')}"
        with_judges = f" and {judged}" if best.judge_votes else ", and no judge"
        lines.append(f"Cheapest: {counted(best.people_votes, 'vote')} of people{with_judges}, {best.cost:,.2f} in all.")
    return lines


def _breakdowns(report: "JudgesReport") -> Iterator[RenderableType]:
    """Yield a table each of agreement by the gap between the models, of categories, and of style."""
    rows = [*report.judges, {**report.people, "annotator": "people"}]
    ends = [one["low"] for one in report.people["by_gap"]]
    gaps = [*(f"{low:.0f} to {high:.0f}" for low, high in pairwise(ends)), f"from {ends[-1]:.0f}"]
    by_gap = [[row["annotator"], *(shown(one["agreement"], "%") for one in row["by_gap"])] for row in rows]
    yield from _table_of(["Agrees by gap"], gaps, by_gap)
    by_category = [
        [one["category"], row["annotator"], _with_ends(one, "ability", 2), shown(one["agreement"], "%")]
        for row in rows
        for one in row["by_category"]
    ]
    yield from _table_of(["Category", "Judge"], ["Slope", "Agrees"], sorted(by_category, key=itemgetter(0)))
    features = [one["feature"] for one in max((row["style"] for row in rows), key=len)]
    by_style = [
        [row["annotator"], *(_with_ends(liked.get(name, {}), "points", 0) for name in features)]
        for row in rows
        for liked in [{one["feature"]: one for one in row["style"]}]
    ]
    yield from _table_of(["Likes"], features, by_style)


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
        f"{row['annotator']}: {counted(row['calibration_votes'], 'vote')} of people would tell the slope to ± 0.1."
        for row in report.judges
        if row["calibration_votes"] is not None
    ]
    return lines


def _with_ends(row: Mapping[str, Any], name: str, digits: int) -> str:
    value, lower, upper = (shown(row.get(f"{name}{end}"), f".{digits}f") for end in ("", "_lower", "_upper"))
    return f"{value} ({lower} to {upper})" if isinstance(row.get(name), float) else value
