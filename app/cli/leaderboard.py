"""The commands `stable-arena leaderboard` and `diff`, and how `refit` prints a published leaderboard."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import typer
from rich.console import RenderableType
from rich.table import Table

from app.cli.options import OutputOption, Printed, PrintedOption
from app.cli.outputs import choose_format, print_result
from app.cli.session import reading
from app.cli.tables import AS_GOOD_AS_TIED, leaderboard_table, shown, table_of
from app.errors import BadInputError
from app.leaderboard.confidence import LeaderboardConfidence, MoreVotes, describe_confidence
from app.leaderboard.diff.schemas import SnapshotDiff
from app.leaderboard.diff.service import compare_snapshots
from app.leaderboard.formats import make_catalog
from app.leaderboard.schemas import Leaderboard
from app.leaderboard.service import read_leaderboard
from app.rating.errors import counted
from app.rating.settings import MOST_RANKS
from app.snapshots.schemas import LeaderboardMethod
from app.snapshots.service import find_snapshot
from app.snapshots.units import describe_counted

Format = Literal["table", "json", "csv", "parquet"]
_Asked = Literal["table", "json", "csv", "parquet", "arena-catalog"]
_PAIRS_SHOWN = 10
_METHODS: tuple[LeaderboardMethod, ...] = get_args(LeaderboardMethod)


def leaderboard(
    method: Annotated[
        LeaderboardMethod,
        typer.Option(
            help="am-elo weighs annotators by ability, m-elo does not, m-elo-all counts every annotator, "
            "elo depends on the order of votes."
        ),
    ] = "am-elo",
    tag: Annotated[
        str | None,
        typer.Option(
            help="The leaderboard of a category, such as language=fr, or a criterion, such as criterion=helpful."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="METHOD,…", help="Other methods of the snapshot to show beside, such as m-elo,m-elo-all."),
    ] = None,
    output_format: Annotated[
        _Asked | None, typer.Option("--format", help="By default what --output ends in, else table.")
    ] = None,
    output: OutputOption = None,
    snapshot: Annotated[str | None, typer.Option(help="Id or number of a snapshot; the newest by default.")] = None,
    confidence: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=1, max=MOST_RANKS, help="Say whether the votes are enough to know the best K models."
        ),
    ] = None,
) -> None:
    """Print a published leaderboard."""
    if confidence is not None:
        if method != "am-elo" or compare is not None:
            raise BadInputError("--confidence goes with neither --method nor --compare: it is of am-elo alone")
        plain = choose_format(_table_or_json(output_format), output, get_args(Printed))
        _print_confidence(confidence, tag, snapshot, plain, output)
        return
    form: _Asked = choose_format(output_format, output, get_args(Format))
    others = _methods(compare)
    if form == "arena-catalog":
        with reading() as conn:
            catalog = make_catalog(conn, find_snapshot(conn, snapshot), method, tag)
        print_result("json", catalog, output=output)
    else:
        with reading() as conn:
            published = read_leaderboard(conn, snapshot, method, tag, others)
        write_leaderboard(published, form, output)


def diff(
    before: Annotated[str, typer.Argument(help="The earlier snapshot, by number or id.")],
    after: Annotated[str, typer.Argument(help="The later snapshot, by number or id.")],
    method: Annotated[LeaderboardMethod, typer.Option(help="Which leaderboard.")] = "am-elo",
    output_format: PrintedOption = "table",
) -> None:
    """Say what moved between two snapshots, and why."""
    with reading() as conn:
        found = compare_snapshots(conn, before, after, method=method)
    print_result(output_format, found, [*(f"• {sentence}" for sentence in found.summary), "", _differences(found)])


def write_leaderboard(published: Leaderboard, form: Format, output: Path | None = None) -> None:
    """Print a published leaderboard, or write it to a file."""
    rows = published.rows()
    print_result(form, published, _board(published, rows), rows=rows, columns=published.columns(), output=output)


def _board(published: Leaderboard, rows: Sequence[dict[str, Any]]) -> Iterator[RenderableType]:
    yield leaderboard_table(rows)
    if any(row.compared for row in published.models):
        yield ""
        yield _comparison(published)
    yield from _caption(published)


def _table_or_json(form: _Asked | None) -> Printed | None:
    if form is None or form == "table" or form == "json":  # noqa: PLR1714  mypy narrows by these
        return form
    raise BadInputError("--confidence is printed as table or json")


def _methods(text: str | None) -> list[LeaderboardMethod]:
    """Return the methods of a list with commas between."""
    named = [] if text is None else [name.strip() for name in text.split(",")]
    unknown = [name for name in named if name not in _METHODS]
    if unknown:
        raise BadInputError(f"--compare: {unknown[0]!r} is none of {', '.join(_METHODS)}")
    return cast("list[LeaderboardMethod]", named)


def _comparison(published: Leaderboard) -> Table:
    """Return the models' places by each method: what knowing the annotators changes."""
    others = list(published.models[0].compared) if published.models else []
    columns = [(other, lambda row, other=other: _place(row.compared[other])) for other in others]
    figures = [published.method, *others]
    return table_of(
        published.models, "Model=model", (published.method, _place), *columns, title="Side by side", figures=figures
    )


def _place(one: Any) -> str:
    return f"{shown(one.rank, 'd')} ({shown(one.score, '.1f')})"


def _caption(published: Leaderboard) -> list[str]:
    snapshot = published.snapshot
    at = snapshot.published_at.strftime("%Y-%m-%d %H:%M:%S %Z")
    tag = f", tag {published.tag!r}" if published.tag is not None else ""
    stale = ", the leaderboard is stale" if published.stale else ""
    votes = describe_counted(snapshot.votes_used, snapshot.votes_read, published.diagnostics.get("rankings"))
    if snapshot.votes_sealed:
        votes += f", {snapshot.votes_sealed:,} of them sealed"
    since = f"{published.votes_not_in_board:,} arrived since{stale}"
    lines = [f"Snapshot {snapshot.number} ({published.method}{tag}), {at}: {votes}; {since}."]
    if published.about_category:
        lines.append(published.about_category)
    ties = sum(bool(row.tied) for row in published.models)
    if ties:
        lines.append(
            f"{AS_GOOD_AS_TIED} {counted(ties, 'model')} as good as tied with the model above: few votes decide."
        )
    if published.method == "am-elo" and published.tag is None and published.diagnostics.get("fragility", []) is None:
        lines.append("Which models are as good as tied is not computed yet: it follows soon after each refit.")
    return lines


def _differences(found: SnapshotDiff) -> Table:
    old, new = found.before.number, found.after.number
    ranks = (f"Rank in {old}=rank_before:d", f"in {new}=rank_after:d")
    scores = (f"Score in {old}=score_before:.1f", f"in {new} =score_after:.1f", "Change=change:.1f")
    return table_of(found.models, "Model=model", "What=kind", *ranks, *scores)


def _print_confidence(k: int, tag: str | None, snapshot: str | None, form: Printed, output: Path | None) -> None:
    """Print whether the votes are enough to know the best k models, or write it to a file."""
    with reading() as conn:
        found = describe_confidence(conn, find_snapshot(conn, snapshot), k=k, tag=tag or None)
    print_result(form, found, _confidence(found), output=output)


def _confidence(found: LeaderboardConfidence) -> list[RenderableType]:
    best = [f"P(best {found.k})=p_top_k:.3f"] if found.k > 1 else []
    columns = ("Rank=rank", "Model=model", "Score=score:.1f", "P(best)=p_best:.3f", *best)
    parts: list[RenderableType] = [table_of(found.models, *columns, title="Probabilities for one look")]
    if found.undecided:
        more = ("More votes", lambda pair: _range(pair.more_votes))
        pair = ("Above=above", "Below=below", "Gap=gap:.1f", "Needed=half_width:.1f")
        undecided = found.undecided[:_PAIRS_SHOWN]
        parts += ["", table_of(undecided, *pair, more, title="Undecided", figures=["More votes"])]
        if found.undecided_pairs > _PAIRS_SHOWN:
            parts.append(f"… and {counted(found.undecided_pairs - _PAIRS_SHOWN, 'pair')} more")
    return [*parts, "", found.sentence]


def _range(votes: MoreVotes) -> str:
    low, high = ("many" if end is None else f"{end:,}" for end in (votes.low, votes.high))
    return low if low == high else f"{low} to {high}"
