"""What the demo shows: the board converging to the truth, and who was found."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from scipy.stats import spearmanr

from app.cli.demo.crowd import MODEL_NAMES, Crowd

SHOWN_ANNOTATORS = 16


@dataclass(frozen=True)
class View:
    """The service's answers at one moment: the board (None before the first) and the flagged annotators."""

    board: dict[str, Any] | None
    flagged: list[dict[str, Any]]


def agreement(view: View, crowd: Crowd) -> float:
    """Spearman correlation of the published with the true scores, over the models that have one."""
    if view.board is None:
        return float("nan")
    known = {row["model"]: row["score"] for row in view.board["models"] if row["score"] is not None}
    truth = [crowd.world.score[MODEL_NAMES.index(model)] for model in known]
    return float(spearmanr(list(known.values()), truth).statistic) if len(known) > 1 else float("nan")


def found(view: View, crowd: Crowd) -> tuple[Counter[str], Counter[str]]:
    """Count flagged annotators by their true role, and everybody by theirs."""
    flagged = Counter(crowd.role_of(row["annotator"]) for row in view.flagged)
    return flagged, Counter(str(role) for role in crowd.world.role)


def summary(view: View, crowd: Crowd) -> str:
    """Say in one line how far things are."""
    votes = f"{crowd.tally.sent:,} votes ({crowd.tally.per_second:.0f}/s)"
    if crowd.tally.refused:
        votes += f", {crowd.tally.refused} not accepted"
    if view.board is None:
        return f"{votes} · no leaderboard yet: the first takes half a minute after an installation"
    flagged, everybody = found(view, crowd)
    caught = sum(count for role, count in flagged.items() if role != "honest")
    bad = sum(count for role, count in everybody.items() if role != "honest")
    return (
        f"{votes} · snapshot {view.board['snapshot']['number']} · agreement with the truth {agreement(view, crowd):.3f}"
        f" · bad annotators flagged {caught} of {bad}, honest ones {flagged['honest']} of {everybody['honest']}"
    )


def draw(view: View, crowd: Crowd) -> RenderableType:
    """Lay out the board beside the flagged annotators."""
    if view.board is None:
        return Text(summary(view, crowd))
    return Group(Text(summary(view, crowd)), Columns([_board(view.board, crowd), _annotators(view, crowd)]))


def _board(board: dict[str, Any], crowd: Crowd) -> Table:
    true_rank = {MODEL_NAMES[i]: rank for rank, i in enumerate(np.argsort(-crowd.world.score), start=1)}
    table = Table(title="Leaderboard", title_justify="left")
    for heading in ("rank", "model", "score", "95 %", "votes", "true rank"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for row in board["models"]:
        score = "–" if row["score"] is None else f"{row['score']:.0f}"
        half = "" if row["se"] is None else f"± {(row['upper'] - row['lower']) / 2:.0f}"
        pushed = " ◂ pushed by the clique" if MODEL_NAMES.index(row["model"]) == crowd.world.target else ""
        rank, votes = str(row["rank"]), f"{row['votes']:,}"
        table.add_row(rank, row["model"] + pushed, score, half, votes, str(true_rank[row["model"]]))
    return table


def _annotators(view: View, crowd: Crowd) -> Table:
    table = Table(title="Flagged annotators", title_justify="left")
    for heading in ("annotator", "ability", "±", "votes", "truth"):
        table.add_column(heading, justify="left" if heading in ("annotator", "truth") else "right")
    for row in view.flagged[:SHOWN_ANNOTATORS]:
        ability, se = f"{row['ability']:.2f}", "" if row["se"] is None else f"{1.96 * row['se']:.2f}"
        table.add_row(row["annotator"], ability, se, f"{row['votes']:,}", crowd.role_of(row["annotator"]))
    if len(view.flagged) > SHOWN_ANNOTATORS:
        table.add_row(f"… {len(view.flagged) - SHOWN_ANNOTATORS} more", "", "", "", "")
    return table
