"""The commands `stable-arena leaderboard` and `diff`, and how `refit` prints a published leaderboard."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import typer
from rich.console import RenderableType
from rich.table import Table

from app.cli.options import OutputOption, Printed, PrintedOption
from app.cli.outputs import choose_format, print_result, write_json, write_output, write_tables
from app.cli.session import reading
from app.cli.tables import AS_GOOD_AS_TIED, leaderboard_table, make_table, number
from app.errors import BadInputError
from app.leaderboard.confidence import LeaderboardConfidence, MoreVotes, describe_confidence
from app.leaderboard.diff.schemas import SnapshotDiff
from app.leaderboard.diff.service import compare_snapshots
from app.leaderboard.formats import make_catalog
from app.leaderboard.row_files import ROW_FILES
from app.leaderboard.schemas import Leaderboard
from app.leaderboard.service import choose_leaderboard, read_leaderboard
from app.rating.errors import counted
from app.rating.settings import MOST_RANKS
from app.snapshots.schemas import LeaderboardMethod
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
        shown = choose_format(_table_or_json(output_format), output, get_args(Printed))
        _print_confidence(confidence, tag, snapshot, shown, output)
        return
    form: _Asked = choose_format(output_format, output, get_args(Format))
    others = _methods(compare)
    choose = partial(choose_leaderboard, method=method, tag=tag, compare=others, snapshot=snapshot)
    if form == "arena-catalog":
        with reading() as conn:
            catalog = make_catalog(conn, choose(conn))
        write_json(catalog, output)
    else:
        with reading() as conn:
            published = read_leaderboard(conn, choose(conn))
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
    print_result(output_format, found, *(f"• {sentence}" for sentence in found.summary), "", _differences(found))


def write_leaderboard(published: Leaderboard, form: Format, output: Path | None = None) -> None:
    """Print a published leaderboard, or write it to a file."""
    if form == "json":
        write_json(published, output)
    elif form != "table":
        write_output(ROW_FILES[form](published.rows(), published.columns()), output)
    else:
        parts: list[RenderableType] = [leaderboard_table(published.rows())]
        if any(row.compared for row in published.models):
            parts += ["", _comparison(published)]
        write_tables([*parts, *_caption(published)], output)


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
    rows: list[list[str]] = []
    for row in published.models:
        places: list[Any] = [row, *(row.compared[other] for other in others)]
        rows.append([row.model, *(_place(one.rank, one.score) for one in places)])
    return make_table("Model", published.method, *others, rows=rows, words=["Model"], title="Side by side")


def _place(rank: int | None, score: float | None) -> str:
    return f"{'–' if rank is None else rank} ({'–' if score is None else f'{score:.1f}'})"


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
    rows = [
        (
            one.model, one.kind, f"{one.rank_before or '–'}", f"{one.rank_after or '–'}",
            number(one.score_before, 1), number(one.score_after, 1), number(one.change, 1),
        )
        for one in found.models
    ]  # fmt: skip
    columns = ("Model", "What", f"Rank in {old}", f"in {new}", f"Score in {old}", f"in {new} ", "Change")
    return make_table(*columns, rows=rows, words=["Model", "What"])


def _print_confidence(k: int, tag: str | None, snapshot: str | None, form: Printed, output: Path | None) -> None:
    """Print whether the votes are enough to know the best k models, or write it to a file."""
    with reading() as conn:
        version = choose_leaderboard(conn, tag=tag, snapshot=snapshot)
        found = describe_confidence(conn, version.snapshot, k=k, tag=version.tag)
    if form == "json":
        write_json(found, output)
    else:
        write_tables(_confidence(found), output)


def _confidence(found: LeaderboardConfidence) -> list[RenderableType]:
    names = [f"P(best {found.k})"] if found.k > 1 else []
    rows = []
    for row in found.models:
        shares = [row.p_best, row.p_top_k][: 1 + len(names)]
        rows.append([f"{row.rank}", row.model, f"{row.score:.1f}", *(f"{share:.3f}" for share in shares)])
    columns = ("Rank", "Model", "Score", "P(best)", *names)
    parts: list[RenderableType] = [make_table(*columns, rows=rows, words=["Model"], title="Probabilities for one look")]
    if found.undecided:
        pairs = [
            (pair.above, pair.below, f"{pair.gap:.1f}", f"{pair.half_width:.1f}", _range(pair.more_votes))
            for pair in found.undecided[:_PAIRS_SHOWN]
        ]
        words = ("Above", "Below")
        parts += ["", make_table(*words, "Gap", "Needed", "More votes", rows=pairs, words=words, title="Undecided")]
        if found.undecided_pairs > _PAIRS_SHOWN:
            parts.append(f"… and {counted(found.undecided_pairs - _PAIRS_SHOWN, 'pair')} more")
    return [*parts, "", found.sentence]


def _range(votes: MoreVotes) -> str:
    low, high = ("many" if end is None else f"{end:,}" for end in (votes.low, votes.high))
    return low if low == high else f"{low} to {high}"
