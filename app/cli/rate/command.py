"""The command `stable-arena rate`: a leaderboard from a vote file, without a database."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

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
    given_files,
    prefix_of,
)
from app.cli.outputs import choose_format, write_json, write_output, write_tables
from app.cli.progress import showing_stages
from app.cli.rate.loading import loading_solver
from app.cli.rate.records import OfflineMethod, OfflineRating, OfflineSettings
from app.cli.tables import annotators_table, elo_table, leaderboard_table
from app.errors import BadInputError
from app.imports.formats import ReadOptions, VoteFile, join_vote_files, read_vote_file
from app.leaderboard.row_files import ROW_FILES
from app.rating.errors import counted
from app.rating.settings import LEAST_CAP, FlagRule, Interval, LoopSettings

Format = Literal["table", "json", "csv", "parquet", "xlsx"]


DEFAULTS = LoopSettings()
MAX_SHUFFLES = 1_000_000


def rate(
    files: FilesArgument,
    method: Annotated[
        OfflineMethod,
        typer.Option(
            help="am-elo estimates annotators too; m-elo is Bradley-Terry; elo depends on the order of votes."
        ),
    ] = "am-elo",
    min_votes: Annotated[
        int, typer.Option(min=0, help="Only annotators with more votes than this count.")
    ] = DEFAULTS.min_votes,
    min_ability: Annotated[
        float, typer.Option(help="Annotators with this ability or less are flagged; 1 is typical.")
    ] = DEFAULTS.min_ability,
    flag_rule: Annotated[
        FlagRule,
        typer.Option(
            help="How annotators are flagged: by tests on their votes, then by --min-ability (evidence); by "
            "--min-ability alone, the paper's rule (threshold)."
        ),
    ] = DEFAULTS.flag_rule,
    exclude: Annotated[bool, typer.Option("--exclude", help="Rate again without the flagged annotators.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="The am-ELO paper's own estimator: no prior, no cap.")] = False,
    prior_sd: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|estimated",
            help="Spread of the abilities' prior around 1, or estimated from the votes.",
            show_default=str(DEFAULTS.prior_sd),
        ),
    ] = None,
    ability_cap: Annotated[
        float | None,
        typer.Option(help="Largest ability; inf for no cap.", show_default=str(DEFAULTS.ability_cap)),
    ] = None,
    influence_limit: Annotated[
        float | None,
        typer.Option(
            help="An annotator's votes on a model that count in full, times its mean judge's; inf for no limit.",
            show_default=str(DEFAULTS.influence_limit),
        ),
    ] = None,
    bias_correction: Annotated[
        bool, typer.Option(help="Correct scores and abilities for the first-order bias of few votes per annotator.")
    ] = DEFAULTS.bias_correction,
    interval: Annotated[Interval, typer.Option(help="How the intervals are computed.")] = DEFAULTS.interval,
    confidence: Annotated[float, typer.Option(help="Coverage of the intervals.")] = DEFAULTS.confidence,
    base: Annotated[float, typer.Option(help="The models' mean score; where elo starts.")] = DEFAULTS.base,
    anchor: Annotated[
        str | None, typer.Option(metavar="MODEL=SCORE", help="Shift the scores so that MODEL has SCORE.")
    ] = None,
    inverse_propensity: Annotated[
        bool,
        typer.Option(
            "--inverse-propensity", help="Weigh each vote by 1/propensity, a column of the file: as of uniform pairs."
        ),
    ] = False,
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
    skip_invalid: Annotated[
        bool,
        typer.Option("--skip-invalid", help="Leave out invalid votes and count them, instead of refusing the file."),
    ] = False,
) -> None:
    """Rate the models of a vote file: no database, votes in, a leaderboard out.

    The votes of several files count together.
    """
    prior, cap = _robustness(plain=plain, prior_sd=prior_sd, ability_cap=ability_cap)
    settings = OfflineSettings(
        method=method,
        loop=LoopSettings(
            method="m-elo" if method == "m-elo" else "am-elo",
            min_votes=min_votes,
            min_ability=_finite("--min-ability", min_ability),
            flag_rule=flag_rule,
            exclude=exclude,
            prior_sd=prior,
            ability_cap=cap,
            influence_limit=_influence_limit(influence_limit, plain=plain),
            seek_higher=True,
            bias_correction=bias_correction,
            interval=interval,
            confidence=_share("--confidence", confidence),
            base=_finite("--base", base),
        ),
        anchor=_anchor(anchor),
        shuffles=shuffles,
        seed=seed,
        inverse_propensity=_of_likelihood(inverse_propensity, method, interval),
        scheduler=_of_am_elo(scheduler, method),
    )
    form: Format = choose_format(output_format, output, get_args(Format))
    reading = ReadOptions(schema, annotator_column, pool_annotators, columns, annotator_prefix, dates)
    with loading_solver(settings.loop) as rate_votes, given_files(files) as given, showing_stages() as stages:
        stages.stage("reading")
        started = time.perf_counter()
        votes = join_vote_files([_read(file, reading, stages.share) for file in given])
        read_seconds = time.perf_counter() - started
        if votes.rejected and not skip_invalid:
            raise _refusal(votes)
        rating = rate_votes.result()(votes, settings, read_seconds=read_seconds, stage=stages.stage)
    for note in votes.notes:
        typer.echo(f"note: {note}", err=True)
    if votes.duplicates:
        left_out = counted(votes.duplicates, "vote")
        typer.echo(f"{left_out} left out: the annotator had voted in the same battle before", err=True)
    if form not in ("json", "table"):  # these two contain the warnings
        for notice in rating.diagnostics["warnings"]:
            typer.echo(f"warning: {notice['detail']} ({notice['code']})", err=True)
    if form == "json":
        write_json(rating, output)
    elif form == "table":
        write_tables(_tables(rating, annotators=annotators), output)
    else:
        rows = rating.annotators if annotators else rating.models
        write_output(ROW_FILES[form](rows), output)


def _read(file: Path, options: ReadOptions, share: Callable[[float], None] | None) -> VoteFile:
    own = replace(options, annotator_prefix=prefix_of(options.annotator_prefix, file))
    return read_vote_file(file, options=own, progress=share)


def _finite(option: str, value: float) -> float:
    if not math.isfinite(value):
        raise BadInputError(f"{option} must be a finite number, is {value}")
    return value


def _share(option: str, value: float) -> float:
    if not 0 < value < 1:
        raise BadInputError(f"{option} must lie between 0 and 1, is {value}")
    return value


def _of_am_elo(scheduler: str | None, method: OfflineMethod) -> str | None:
    if scheduler is not None and method != "am-elo":
        raise BadInputError(f"--scheduler is for am-elo; {method} needs one machine whatever the number of votes")
    return scheduler


def _of_likelihood(inverse_propensity: bool, method: OfflineMethod, interval: Interval) -> bool:
    if inverse_propensity and method == "elo":
        raise BadInputError("--inverse-propensity is for am-elo and m-elo; elo has no weights")
    if inverse_propensity and interval not in ("clustered", "none"):
        raise BadInputError(f"--inverse-propensity needs --interval clustered or none, not {interval}")
    return inverse_propensity


def _robustness(
    *, plain: bool, prior_sd: str | None, ability_cap: float | None
) -> tuple[float | Literal["estimated"] | None, float | None]:
    """Return the prior's spread and the cap; --plain has neither."""
    if plain:
        if prior_sd is not None or ability_cap is not None:
            raise BadInputError("--plain means no prior and no cap: leave out --prior-sd and --ability-cap")
        return None, None
    spread = DEFAULTS.prior_sd if prior_sd is None else _spread(prior_sd)
    if ability_cap == math.inf:
        return spread, None
    if ability_cap is not None and not _finite("--ability-cap", ability_cap) >= LEAST_CAP:
        raise BadInputError(f"--ability-cap must be {LEAST_CAP} or more, times the typical ability, is {ability_cap}")
    return spread, DEFAULTS.ability_cap if ability_cap is None else ability_cap


def _influence_limit(limit: float | None, *, plain: bool) -> float | None:
    if plain and limit is not None:
        raise BadInputError("--plain limits no influence: leave out --influence-limit")
    if plain or limit == math.inf:
        return None
    if limit is not None and not _finite("--influence-limit", limit) > 0:
        raise BadInputError(f"--influence-limit must be more than 0, is {limit}")
    return DEFAULTS.influence_limit if limit is None else limit


def _spread(text: str) -> float | Literal["estimated"]:
    if text == "estimated":
        return "estimated"
    try:
        spread = _finite("--prior-sd", float(text))
    except ValueError:
        raise BadInputError(f"--prior-sd must be a number or 'estimated', is {text!r}") from None
    if spread <= 0:
        raise BadInputError(f"--prior-sd must be greater than 0, is {spread}")
    return spread


def _anchor(text: str | None) -> tuple[str, float] | None:
    """Split MODEL=SCORE at the last equals sign: names may contain others."""
    if text is None:
        return None
    model, _, score = text.rpartition("=")
    try:
        points = float(score)
    except ValueError:
        model = ""
    if not model:
        raise BadInputError(f"--anchor must be MODEL=SCORE, is {text!r}")
    return model, _finite("--anchor's score", points)


def _refusal(votes: VoteFile) -> BadInputError:
    return BadInputError(
        f"{votes.path}: {votes.rejected:,} of {votes.rows_read:,} votes are not valid (--skip-invalid leaves them out)",
        tuple(votes.faults),
        n_errors=votes.rejected,
    )


def _tables(rating: OfflineRating, *, annotators: bool) -> list[RenderableType]:
    parts = [elo_table(rating.models) if rating.method == "elo" else leaderboard_table(rating.models)]
    if annotators:
        parts += ["", annotators_table(rating.annotators)]
    counts, diagnostics = rating.votes, rating.diagnostics
    footer = f"{counted(counts['read'], 'vote')} read, {counts['used']:,} used"
    if counts["rejected"]:
        footer += f", {counts['rejected']:,} rejected"
    if diagnostics["log_likelihood"] is not None:
        iterations = counted(diagnostics["iterations"], "iteration")
        footer += f" · log-likelihood {diagnostics['log_likelihood']:.3f} in {iterations}"
    flagged = sum(row["standing"] in ("flagged", "excluded") for row in rating.annotators)
    if flagged:
        footer += f" · {flagged} of {counted(len(rating.annotators), 'annotator')} flagged or excluded (--annotators)"
    warnings = [
        Text(f"warning: {notice['detail']} ({notice['code']})", style="yellow") for notice in diagnostics["warnings"]
    ]
    return [*parts, "", footer, *warnings]
