"""The command `stable-arena rate`: a leaderboard from a vote file, without a database."""

import math
import time
from collections.abc import Callable
from dataclasses import fields, replace
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
    PoolOption,
    PrefixOption,
    SchemaOption,
    VerdictOption,
    ZeroRankOption,
    given_files,
    prefix_of,
)
from app.cli.outputs import choose_format, write_json, write_output, write_tables
from app.cli.progress import showing_stages
from app.cli.tables import annotators_table, category_tables, elo_table, leaderboard_table, style_tables
from app.errors import BadInputError
from app.imports.formats.joining import join_models, read_aliases
from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import VoteFile, join_vote_files, read_vote_file
from app.leaderboard.row_files import ROW_FILES
from app.rating.errors import counted
from app.rating.settings import DEFINITIONS, FlagRule, Interval, LoopSettings, SettingError, check_settings
from app.votes.rules import OVERALL

if TYPE_CHECKING:
    from app.cli.rate.offline import OfflineRating

Format = Literal["table", "json", "csv", "parquet", "xlsx"]

DEFAULTS = LoopSettings()
PLAIN = replace(DEFAULTS, prior_sd=None, influence_limit=None)
MAX_SHUFFLES = 1_000_000


def of_fit(name: str, *declarations: str, none: str = "", **more: Any) -> Any:
    """Return the option of a setting of the fit; `none` is how the command says no value."""
    if none:
        more["show_default"] = str(getattr(DEFAULTS, name))
    return typer.Option(*declarations, help=DEFINITIONS[name].explain(none), **more)


def rate(
    files: FilesArgument,
    method: Annotated[
        Literal["am-elo", "m-elo", "elo"],
        typer.Option(
            help="am-elo estimates annotators too; m-elo is Bradley-Terry; elo starts at --base and depends on the "
            "order of votes."
        ),
    ] = "am-elo",
    min_votes: Annotated[int, of_fit("min_votes")] = DEFAULTS.min_votes,
    min_ability: Annotated[float, of_fit("min_ability")] = DEFAULTS.min_ability,
    min_probability: Annotated[float, of_fit("min_probability")] = DEFAULTS.min_probability,
    flag_rule: Annotated[FlagRule, of_fit("flag_rule")] = DEFAULTS.flag_rule,
    exclude: Annotated[bool, of_fit("exclude", "--exclude")] = DEFAULTS.exclude,
    plain: Annotated[
        bool, typer.Option("--plain", help="The am-ELO paper's own estimator: no prior, no limit of influence.")
    ] = False,
    prior_sd: Annotated[str | None, of_fit("prior_sd", none="--plain", metavar="NUMBER|estimated")] = None,
    influence_limit: Annotated[float | None, of_fit("influence_limit", none="inf")] = None,
    interval: Annotated[
        Interval,
        typer.Option(help=DEFINITIONS["interval"].text),
    ] = DEFAULTS.interval,
    confidence: Annotated[float, of_fit("confidence")] = DEFAULTS.confidence,
    base: Annotated[float, of_fit("base")] = DEFAULTS.base,
    anchor: Annotated[
        str | None, typer.Option(metavar="MODEL=SCORE", help="Shift the scores so that MODEL has SCORE.")
    ] = None,
    inverse_propensity: Annotated[
        bool,
        typer.Option(
            "--inverse-propensity", help="Weigh each vote by 1/propensity, a column of the file: as of uniform pairs."
        ),
    ] = False,
    style: Annotated[
        str | None,
        typer.Option(
            metavar="FEATURE,…",
            help="Show a leaderboard with style control too: side, and columns such as length for length_a and "
            "length_b.",
        ),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="COLUMN", help="Show the scores by the categories in this column too.")
    ] = "",
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Dask scheduler (tcp://…) whose workers hold the votes; for files of many millions."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the shuffles of elo.")] = 0,
    shuffles: Annotated[
        int, typer.Option(min=2, max=MAX_SHUFFLES, help="Orders of the votes that elo averages over.")
    ] = 1000,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="By default what --output ends in, else table.")
    ] = None,
    annotators: Annotated[
        bool, typer.Option("--annotators", help="Show annotators too (table), or instead (csv, parquet, xlsx).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there instead of to standard output.")
    ] = None,
    schema: SchemaOption = None,
    columns: ColumnsOption = None,
    annotator_column: AnnotatorColumnOption = None,
    pool_annotators: PoolOption = False,
    annotator_prefix: PrefixOption = "",
    dates: DatesOption = None,
    verdict: VerdictOption = None,
    zero_rank: ZeroRankOption = None,
    criterion: Annotated[
        str, typer.Option(metavar="NAME", help="Rate by the votes on this question, of the column criterion.")
    ] = OVERALL,
    alias: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MODEL", help="Count the votes on one name for another model. Repeat it."),
    ] = None,
    skip_invalid: Annotated[
        bool,
        typer.Option("--skip-invalid", help="Leave out invalid votes and count them, instead of refusing the file."),
    ] = False,
) -> None:
    """Rate the models of a vote file: no database, votes in, a leaderboard out.

    The votes of several files count together.
    """
    robustness = {"prior_sd": prior_sd, "influence_limit": influence_limit}
    loop = replace(
        _robust({name: value for name, value in robustness.items() if value is not None}, plain=plain),
        method="m-elo" if method == "m-elo" else "am-elo",
        min_votes=min_votes,
        min_ability=min_ability,
        min_probability=min_probability,
        flag_rule=flag_rule,
        exclude=exclude,
        interval=interval,
        confidence=confidence,
        base=base,
    )
    try:
        check_settings(loop)
    except SettingError as error:
        raise BadInputError(f"--{error.name.replace('_', '-')} {error.detail}") from None
    form: Format = choose_format(output_format, output, get_args(Format))
    # the solver, which takes most of a second: neither the help nor a wrong option waits for it
    from app.cli.rate.offline import OfflineSettings, rate_votes  # noqa: PLC0415

    features = tuple(name for part in (style or "").split(",") if (name := part.strip()))
    settings = OfflineSettings(
        method=method,
        loop=loop,
        anchor=_anchor(anchor),
        shuffles=shuffles,
        seed=seed,
        inverse_propensity=inverse_propensity,
        scheduler=scheduler,
        features=features,
        by=by,
    )
    aliases = read_aliases(alias or ())
    reading = ReadOptions(
        schema,
        annotator_column,
        pool_annotators,
        columns,
        annotator_prefix,
        dates,
        tuple(verdict or ()),
        zero_rank,
        criterion=criterion,
        features=features,
        by=by,
    )
    with given_files(files) as given, showing_stages() as stages:
        stages.stage("reading")
        started = time.perf_counter()
        votes = join_vote_files([_read(file, reading, stages.share) for file in given])
        read_seconds = time.perf_counter() - started
        if votes.rejected and not skip_invalid:
            raise _refusal(votes)
        votes.require_category(by)
        votes = join_models(votes, aliases)
        rating = rate_votes(votes, settings, read_seconds=read_seconds, stage=stages.stage)
    for note in votes.notes:
        typer.echo(f"note: {note}", err=True)
    if votes.duplicates:
        left_out = counted(votes.duplicates, "vote")
        typer.echo(f"{left_out} left out: the annotator had voted in the same battle before", err=True)
    if form not in ("json", "table"):  # these two contain the warnings
        for notice in rating.diagnostics["warnings"]:
            typer.echo(f"warning: {notice['detail']} ({notice['code']})", err=True)
    if form == "json":
        document = {field.name: getattr(rating, field.name) for field in fields(rating)}
        write_json({name: part for name, part in document.items() if part is not None}, output)
    elif form == "table":
        write_tables(_tables(rating, annotators=annotators), output)
    else:
        rows = rating.annotators if annotators else rating.models
        write_output(ROW_FILES[form](rows), output)


def _robust(given: dict[str, Any], *, plain: bool) -> LoopSettings:
    """Return the settings with the prior and the limit of influence that are given; --plain has neither.

    Raises BadInputError: the prior's spread is neither a number nor "estimated"; or --plain, and one of them is given.
    """
    if plain and given:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise BadInputError(f"--plain means no prior and no limit of influence: leave out {options}")
    sd = given.get("prior_sd", "estimated")
    if sd != "estimated":
        try:
            given["prior_sd"] = float(sd)
        except ValueError:
            raise BadInputError(f"--prior-sd must be a number or 'estimated', is {sd!r}") from None
    if given.get("influence_limit") == math.inf:
        given["influence_limit"] = None
    return replace(PLAIN if plain else DEFAULTS, **given)


def _anchor(text: str | None) -> tuple[str, float] | None:
    """Split MODEL=SCORE at the last equals sign: names may contain others."""
    if text is None:
        return None
    model, _, score = text.rpartition("=")
    try:
        points = float(score)
    except ValueError:
        points = math.nan
    if not model or not math.isfinite(points):
        raise BadInputError(f"--anchor must be MODEL=SCORE, a finite number, is {text!r}")
    return model, points


def _read(file: Path, options: ReadOptions, share: Callable[[float], None] | None) -> VoteFile:
    own = replace(options, annotator_prefix=prefix_of(options.annotator_prefix, file))
    return read_vote_file(file, own, progress=share)


def _refusal(votes: VoteFile) -> BadInputError:
    return BadInputError(
        f"{votes.path}: {votes.rejected:,} of {votes.rows_read:,} votes are not valid (--skip-invalid leaves them out)"
        f"{votes.unknown_words}",
        tuple(votes.faults),
        n_errors=votes.rejected,
    )


def _tables(rating: "OfflineRating", *, annotators: bool) -> list[RenderableType]:
    parts = [elo_table(rating.models) if rating.method == "elo" else leaderboard_table(rating.models)]
    if rating.style is not None:
        parts += ["", *style_tables(rating.style, rating.models)]
    if rating.categories is not None:
        parts += ["", *category_tables(rating.categories)]
    if annotators:
        parts += ["", annotators_table(rating.annotators)]
    counts, diagnostics = rating.votes, rating.diagnostics
    unit = "row" if counts["used"] > counts["read"] and not counts["rankings"] else "vote"  # rows with weights
    footer = f"{counted(counts['read'], unit)} read, {counts['votes_used' if counts['rankings'] else 'used']:,} used"
    if counts["rankings"]:
        footer += f", as {counts['used']:,} of {counted(counts['pairs_read'], 'pair')}"
    if counts["rejected"]:
        footer += f", {counts['rejected']:,} rejected"
    if diagnostics["log_likelihood"] is not None:
        iterations = counted(diagnostics["iterations"], "iteration")
        footer += f" · log-likelihood {diagnostics['log_likelihood']:.3f} in {iterations}"
    flagged = sum(row["standing"] in ("flagged", "excluded") for row in rating.annotators)
    if flagged:
        footer += f" · {flagged} of {counted(len(rating.annotators), 'annotator')} flagged or excluded (--annotators)"
    per = [f"{name} {_spread(each)}" for name, each in counts["per"].items()]
    warnings = [
        Text(f"warning: {notice['detail']} ({notice['code']})", style="yellow") for notice in diagnostics["warnings"]
    ]
    unit = "pairs" if counts["rankings"] else "votes"
    spread = f"{unit} per {', per '.join(per)}"
    if counts["rankings"]:
        each = counts["votes_per_annotator"]
        spread = f"votes per annotator {_spread(each)}; {spread}; a ranking of n models is one vote and n(n−1)/2 pairs"
    return [*parts, "", footer, spread, *warnings]


def _spread(each: dict[str, float]) -> str:
    return f"{each['mean']:,.1f} (median {each['median']:,g}, {each['least']:,g} to {each['most']:,g})"
