"""What `stable-arena leaderboard --confidence K` prints."""

from pathlib import Path
from typing import Literal, get_args

from rich.console import RenderableType

from app.cli.outputs import write_json, write_tables
from app.cli.session import reading
from app.cli.tables import make_table
from app.leaderboard.confidence.schemas import LeaderboardConfidence, MoreVotes
from app.leaderboard.confidence.service import describe_confidence
from app.leaderboard.service import choose_leaderboard
from app.rating.errors import counted

TableOrJson = Literal["table", "json"]
TABLE_OR_JSON: tuple[TableOrJson, ...] = get_args(TableOrJson)
_SHOWN = 10  # pairs in the table


def print_confidence(k: int, tag: str | None, snapshot: str | None, form: TableOrJson, output: Path | None) -> None:
    """Print whether the votes are enough to know the best k models, or write it to a file."""
    with reading() as conn:
        version = choose_leaderboard(conn, tag=tag, snapshot=snapshot)
        found = describe_confidence(conn, version.snapshot, k=k, tag=version.tag)
    if form == "json":
        write_json(found, output)
    else:
        write_tables(_parts(found), output)


def _parts(found: LeaderboardConfidence) -> list[RenderableType]:
    names = [f"P(best {found.k})"] if found.k > 1 else []
    table = make_table("Rank", "Model", "Score", "P(best)", *names, words=["Model"])
    for row in found.models:
        shares = [row.p_best, row.p_top_k][: 1 + len(names)]
        table.add_row(f"{row.rank}", row.model, f"{row.score:.1f}", *(f"{share:.3f}" for share in shares))
    parts: list[RenderableType] = [table]
    if found.undecided:
        pairs = make_table("Above", "Below", "Gap", "Needed", "More votes", words=["Above", "Below"], title="Undecided")
        for pair in found.undecided[:_SHOWN]:
            above, below = pair.above, pair.below
            pairs.add_row(above, below, f"{pair.gap:.1f}", f"{pair.half_width:.1f}", _range(pair.more_votes))
        parts += ["", pairs]
        if found.undecided_pairs > _SHOWN:
            parts.append(f"… and {counted(found.undecided_pairs - _SHOWN, 'pair')} more")
    return [*parts, "", found.sentence]


def _range(votes: MoreVotes) -> str:
    low, high = ("many" if end is None else f"{end:,}" for end in (votes.low, votes.high))
    return low if low == high else f"{low} to {high}"
