"""What the demo shows: the leaderboard beside the true ranking, and the flagged annotators beside their true roles."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.cli.demo.voters import MODEL_NAMES, Voters
from app.cli.tables import table_of
from app.rating.errors import counted

SHOWN_ANNOTATORS = 16


@dataclass(frozen=True)
class View:
    """The service's answers at one time: the leaderboard (None before the first) and the flagged annotators."""

    leaderboard: dict[str, Any] | None
    flagged: list[dict[str, Any]]


def agreement(view: View, voters: Voters) -> float:
    """Return Spearman's rank correlation of the published and the true scores, over the models with a score."""
    if view.leaderboard is None:
        return float("nan")
    known = {row["model"]: row["score"] for row in view.leaderboard["models"] if row["score"] is not None}
    truth = [voters.world.score[MODEL_NAMES.index(model)] for model in known]
    if len(known) < 2:  # noqa: PLR2004  a correlation needs two points
        return float("nan")
    published_rank, true_rank = (np.argsort(np.argsort(scores)) for scores in (list(known.values()), truth))
    return float(np.corrcoef(published_rank, true_rank)[0, 1])


def found(view: View, voters: Voters) -> tuple[Counter[str], Counter[str]]:
    """Count the flagged annotators, and all annotators, by their true role."""
    flagged = Counter(voters.role_of(row["annotator"]) for row in view.flagged)
    return flagged, Counter(str(role) for role in voters.world.role)


def summary(view: View, voters: Voters) -> str:
    """Return one line: votes, snapshot, agreement with the truth, flagged annotators."""
    votes = f"{counted(voters.tally.sent, 'vote')} ({voters.tally.per_second:.0f}/s)"
    if voters.tally.refused:
        votes += f", {voters.tally.refused} not accepted"
    if view.leaderboard is None:
        return f"{votes} · no leaderboard yet"
    flagged, all_of_them = found(view, voters)
    caught = sum(count for role, count in flagged.items() if role != "honest")
    bad = sum(count for role, count in all_of_them.items() if role != "honest")
    return " · ".join(
        (
            votes,
            f"snapshot {view.leaderboard['snapshot']['number']}",
            f"rank correlation with the truth {agreement(view, voters):.3f}",
            f"bad annotators flagged {caught} of {bad}, honest ones {flagged['honest']} of {all_of_them['honest']}",
        )
    )


def draw(view: View, voters: Voters) -> RenderableType:
    """Return the leaderboard and the flagged annotators, side by side."""
    if view.leaderboard is None:
        return Text(summary(view, voters))
    return Group(
        Text(summary(view, voters)), Columns([_leaderboard(view.leaderboard, voters), _annotators(view, voters)])
    )


def _leaderboard(leaderboard: dict[str, Any], voters: Voters) -> Table:
    true_rank = {MODEL_NAMES[i]: rank for rank, i in enumerate(np.argsort(-voters.world.score), start=1)}
    target = MODEL_NAMES[voters.world.target]
    return table_of(
        leaderboard["models"], "rank=rank:d",
        ("model", lambda row: row["model"] + (" ◂ pushed by the clique" if row["model"] == target else "")),
        "score=score:.0f",
        ("95 %", lambda row: "" if row["se"] is None else f"± {(row['upper'] - row['lower']) / 2:.0f}"),
        "votes=votes", ("true rank", lambda row: true_rank[row["model"]]), title="Leaderboard", figures=["95 %"],
    )  # fmt: skip


def _annotators(view: View, voters: Voters) -> RenderableType:
    table = table_of(
        view.flagged[:SHOWN_ANNOTATORS], "annotator=annotator", "ability=ability:.2f",
        ("±", lambda row: "" if row["se"] is None else f"{1.96 * row['se']:.2f}"), "votes=votes",
        ("truth", lambda row: voters.role_of(row["annotator"])), title="Flagged annotators", figures="±",
    )  # fmt: skip
    more = len(view.flagged) - SHOWN_ANNOTATORS
    return Group(table, f"… {more} more") if more > 0 else table
