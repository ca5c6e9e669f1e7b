"""The command `stable-arena rate`: a leaderboard from a vote file, without a database."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from rich.console import RenderableType
from rich.text import Text

from app.cli.command import importing_much
from app.cli.inputs import FilesArgument, PeopleFileOptions, given_files, read_votes
from app.cli.options import OutputOption, grouped
from app.cli.outputs import choose_format, print_result
from app.cli.progress import showing_stages
from app.cli.rate.options import FitOptions
from app.cli.tables import annotators_table, category_tables, elo_table, leaderboard_table, style_tables
from app.errors import BadInputError
from app.imports.formats.joining import join_models, read_aliases
from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import VoteFile
from app.rating.errors import counted
from app.votes.rules import OVERALL

Format = Literal["table", "json", "csv", "parquet", "xlsx"]


@dataclass(frozen=True)
class RatedFileOptions(PeopleFileOptions):
    """How the files are read, and which of their votes count."""

    criterion: Annotated[
        str, typer.Option(metavar="NAME", help="Rate by the votes on this question, of the column criterion.")
    ] = OVERALL
    prompts: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="What the models were asked: votes on one prompt err together.",
            show_default="prompt, prompt_id, question_id, item or instruction",
        ),
    ] = ""
    alias: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MODEL", help="Count the votes on one name for another model. Repeat it."),
    ] = None
    soft: Annotated[
        bool,
        typer.Option(
            "--soft", help="Count graded verdicts as they are: a probability as one, a strength (A>>B: 3) so often."
        ),
    ] = False
    skip_invalid: Annotated[
        bool,
        typer.Option("--skip-invalid", help="Leave out invalid votes and count them, instead of refusing the file."),
    ] = False


@grouped
def rate(
    files: FilesArgument,
    *,
    fit: FitOptions,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="By default what --output ends in, else table.")
    ] = None,
    annotators: Annotated[
        bool, typer.Option("--annotators", help="Show annotators too (table), or instead (csv, parquet, xlsx).")
    ] = False,
    output: OutputOption = None,
    read: RatedFileOptions,
) -> None:
    """Rate the models of a vote file: no database, votes in, a leaderboard out.

    The votes of several files count together. A folder of Parquet files is read by the workers of --scheduler.
    """
    form: Format = choose_format(output_format, output, get_args(Format))
    if len(files) == 1 and files[0].is_dir():
        with importing_much():
            from app.cli.rate.folder import rate_votes_in  # noqa: PLC0415  as below

        wanted = annotators and ("table" if form in ("json", "table") else "rows")
        with showing_stages() as stages:
            rating = rate_votes_in(files[0], fit, read, annotators=wanted or "", stage=stages.stage)
    else:
        rating = _rate_files(files, fit, read)
    if form not in ("json", "table"):  # these two contain the warnings
        for notice in rating["diagnostics"]["warnings"]:
            typer.echo(f"warning: {notice['detail']} ({notice['code']})", err=True)
    rows = rating["annotators" if annotators else "models"]
    print_result(form, rating, _tables(rating, annotators=annotators), rows=rows, output=output)


def _rate_files(files: Sequence[Path], fit: FitOptions, read: RatedFileOptions) -> dict[str, Any]:
    aliases = read_aliases(read.alias or ())
    options = read.reading(ReadOptions, features=fit.features, by=fit.by)
    if fit.by_criterion:
        options = replace(options, by="", criterion="")
    with given_files(files) as given, showing_stages() as stages:
        stages.stage("reading")
        started = time.perf_counter()
        with ThreadPoolExecutor(1) as beside:  # which polars leaves to the interpreter for the most part
            loading = beside.submit(_load_solver)
            votes = read_votes(given, options, stages.share)
        rate_votes, read_seconds = loading.result(), time.perf_counter() - started
        if votes.rejected and not read.skip_invalid:
            raise _refusal(votes)
        votes.require_category(options.by)
        every = votes = join_models(votes, aliases)
        if fit.by_criterion:
            votes = every.by_criterion(read.criterion)
        rating = rate_votes(votes, fit, every=every, read_seconds=read_seconds, stage=stages.stage)
    for note in votes.notes:
        typer.echo(f"note: {note}", err=True)
    if votes.duplicates:
        left_out = counted(votes.duplicates, "vote")
        typer.echo(f"{left_out} left out: the annotator had voted in the same battle before", err=True)
    return rating


def _load_solver() -> Callable[..., dict[str, Any]]:
    """Import the solver, which takes most of a second: neither the help nor a wrong option waits for it."""
    with importing_much():
        from app.cli.rate.offline import load_kernels, rate_votes  # noqa: PLC0415  beside the reading

        load_kernels()
    return rate_votes


def _refusal(votes: VoteFile) -> BadInputError:
    return BadInputError(
        f"{votes.path}: {votes.rejected:,} of {votes.rows_read:,} votes are not valid (--skip-invalid leaves them out)"
        f"{votes.unknown_words}",
        tuple(votes.faults),
        n_errors=votes.rejected,
    )


def _tables(rating: dict[str, Any], *, annotators: bool) -> Iterator[RenderableType]:
    models, everyone = rating["models"], rating["annotators"]
    yield elo_table(models) if rating["method"] == "elo" else leaderboard_table(models)
    if "style" in rating:
        yield ""
        yield from style_tables(rating["style"], models)
    if "categories" in rating:
        yield ""
        yield from category_tables(rating["categories"])
    if annotators:
        yield ""
        yield annotators_table(everyone)
    counts, diagnostics = rating["votes"], rating["diagnostics"]
    unit = "row" if counts["used"] > counts["read"] and not counts["rankings"] else "vote"  # rows with weights
    footer = f"{counted(counts['read'], unit)} read, {counts['votes_used' if counts['rankings'] else 'used']:,} used"
    if counts["rankings"]:
        footer += f", as {counts['used']:,} of {counted(counts['pairs_read'], 'pair')}"
    footer += "".join(f", {counts[name]:,} {name}" for name in ("skipped", "rejected") if counts[name])
    if diagnostics.get("prompts"):
        footer += f", on {counted(diagnostics['prompts'], 'prompt')}"
    standings = rating.get("standings") or Counter(row["standing"] for row in everyone)
    if flagged := sum(standings.get(standing, 0) for standing in ("flagged", "excluded")):
        number = counted(sum(standings.values()), "annotator")
        footer += f" · {flagged} of {number} flagged or excluded (--annotators)"
    per = [f"{name} {_spread(each)}" for name, each in counts["per"].items()]
    unit = "pairs" if counts["rankings"] else "votes"
    spread = f"{unit} per {', per '.join(per)}"
    if counts["rankings"]:
        each = counts["votes_per_annotator"]
        spread = f"votes per annotator {_spread(each)}; {spread}; a ranking of n models is one vote and n(n−1)/2 pairs"
    yield from ("", footer, spread)
    for notice in diagnostics["warnings"]:
        yield Text(f"warning: {notice['detail']} ({notice['code']})", style="yellow")


def _spread(each: dict[str, float]) -> str:
    return f"{each['mean']:,.1f} (median {each['median']:,g}, {each['least']:,g} to {each['most']:,g})"
