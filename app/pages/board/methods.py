"""The methods in words, and what modelling annotators changes."""

from collections.abc import Sequence

from app.leaderboard.schemas import LeaderboardRow
from app.monitoring.wording import plural
from app.pages.formatting import method_name
from app.snapshots.schemas import LeaderboardMethod

ABOUT: dict[LeaderboardMethod, str] = {
    "am-elo": "Estimates scores and annotators' abilities together: able annotators weigh more.",
    "m-elo": "Bradley-Terry on the same votes: every annotator weighs the same.",
    "m-elo-all": "Bradley-Terry on every vote, also those of annotators who do not count.",
    "elo": "The classic update after every vote, averaged over random orders of the same votes.",
}
"""What each method does, in a sentence."""


def compared_with(method: LeaderboardMethod) -> LeaderboardMethod:
    """Return the method that is shown beside another one."""
    return "m-elo" if method == "am-elo" else "am-elo"


def describe_difference(models: Sequence[LeaderboardRow], method: LeaderboardMethod) -> str:
    """Return in a sentence how many models modelling annotators moves, and which one the farthest."""
    other = compared_with(method)
    beside = method_name("m-elo" if method == "am-elo" else method)
    moves = []
    for model in models:
        place = model.compared.get(other)
        if place is None or place.rank is None or model.rank is None:
            continue
        without, modelled = (place.rank, model.rank) if method == "am-elo" else (model.rank, place.rank)
        moves.append((without, modelled, model.model))
    moved = [move for move in moves if move[0] != move[1]]
    if not moves:
        return ""
    if not moved:
        return f"Modelling annotators moves no model: am-ELO has the order of {beside}."
    without, modelled, name = max(moved, key=lambda move: (abs(move[0] - move[1]), -move[1]))
    return (
        f"Compared with {beside}, modelling annotators moves {plural(len(moved), 'model')} of {len(moves):,}; "
        f"the farthest is {name}, from rank {without} to {modelled}."
    )
