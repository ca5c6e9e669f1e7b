"""How the judges of the newest leaderboard follow its people: what the worker measured after the publication."""

from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import Connection, select

from app.annotators.schemas import Named
from app.database.tables import annotators, snapshot_fragility, snapshots
from app.schemas import FrozenModel


class AgreementByGap(BaseModel):
    """How often the verdicts are those of people, where the models are so many Elo points apart."""

    low: float
    high: float | None = Field(description="Null for no limit.")
    agreement: float | None
    compared: float | None


class JudgeByGap(AgreementByGap):
    """The same of a judge."""

    left_share: float | None


class JudgeByTag(BaseModel):
    """A judge's figures on the votes with a tag."""

    category: str
    ability: float | None
    ability_lower: float | None
    ability_upper: float | None
    agreement: float | None
    compared: float | None
    votes: int


class JudgeLiking(BaseModel):
    """What a standard deviation of a feature of the answers is worth, Elo points."""

    feature: str
    points: float | None
    points_lower: float | None
    points_upper: float | None


class ComparedJudge(Named):
    """A judge beside the people. An ability of 1 follows their order as they do, 0 is a coin."""

    ability: float | None
    ability_lower: float | None
    ability_upper: float | None
    side_lean: float | None = Field(description="Elo points by which the left answer gains; null where unknown.")
    side_lean_lower: float | None
    side_lean_upper: float | None
    left_share: float | None
    agreement: float | None = Field(description="Share of comparisons with the same outcome as a person's.")
    agreement_by: str = Field(description="battle, or pair where no battle is shared.")
    compared: float | None
    swap_consistency: float | None = Field(
        description="Share of battles with the same verdict on exchanged sides. The metadata of the two name the same "
        "question, or their ids differ in the order of their parts between slashes: q1/x/y and q1/y/x."
    )
    swapped_battles: float | None
    calibration_votes: int | None = Field(
        description="How many votes of people would tell the ability to ± 0.1; null where none would."
    )
    votes: int
    by_gap: list[JudgeByGap]
    by_category: list[JudgeByTag]
    style: list[JudgeLiking] = Field(description="What it likes in an answer, by the features of the policy.")


class ComparedPeople(BaseModel):
    """What the people reach among themselves."""

    annotators: int
    votes: float | None
    agreement: float | None
    agreement_by: str
    order_certainty: float | None = Field(description="Share of pairs that their own order is expected to have right.")
    by_gap: list[AgreementByGap]


class JudgesPanel(BaseModel):
    """Judges whose leaderboard is nearest to the people's order."""

    judges: list[str]
    agreement: float = Field(description="Share of pairs of models in the people's order.")
    right: float = Field(description="Share that they are expected to have right: the people's order is uncertain too.")


class WidthOfInterval(BaseModel):
    """The median width of an interval at a number of votes of people, Elo points."""

    people_votes: int
    people: float = Field(description="Of the people's leaderboard.")
    sharpened: float | None = Field(description="Of people and judges; null where judges have seen no more battles.")


class SharpenedPeople(BaseModel):
    """How judges sharpen the people's leaderboard."""

    people_votes: int
    people_votes_worth: int = Field(description="Votes of people alone that would tell as much.")
    curve: list[WidthOfInterval] = Field(
        description="From a quarter of today's votes of people to eight times as many."
    )


class ComparedJudges(FrozenModel):
    """The judges of a snapshot, the most able first; empty unless people and judges vote."""

    snapshot: int | None = Field(description="Its number; null before the first.")
    computed: bool = Field(
        description="False until the worker has measured it, after the publication, where judges vote."
    )
    people: ComparedPeople | None
    judges: list[ComparedJudge]
    panel: JudgesPanel | None = Field(description="The fewest that are as good as any panel, within the error.")
    sharpened: SharpenedPeople | None = Field(description="Null where judges do not sharpen the people's leaderboard.")


def read_judges_compared(conn: Connection) -> ComparedJudges:
    """Return the comparison of the newest snapshot, with the keys that annotators have now."""
    s, f = snapshots.c, snapshot_fragility.c
    statement = select(
        s.number, s.judges.label("of_judges"), s.diagnostics["sharpened"].label("sharpened"), f.snapshot_id, f.judges
    ).outerjoin_from(snapshots, snapshot_fragility, f.snapshot_id == s.id)
    row = conn.execute(statement.order_by(s.number.desc()).limit(1)).one_or_none()
    stored: dict[str, Any] = (row and row.judges) or {"people": None, "judges": [], "panels": {"tried": []}}
    c, numbers = annotators.c, [int(one["annotator"]) for one in stored["judges"]]
    rows = conn.execute(select(c.id, c.public_id, c.key).where(c.id.in_(numbers)))
    known = {str(row.id): {"id": row.public_id, "annotator": row.key} for row in rows}
    enough = next((one for one in stored["panels"]["tried"] if one["judges"] == stored["panels"]["enough"]), None)
    shown = {
        "snapshot": row and row.number,
        "computed": row is not None and (row.snapshot_id is not None or not row.of_judges),
        "people": stored["people"],
        "judges": [{**one, **known[one["annotator"]]} for one in stored["judges"]],
        "panel": enough and {**enough, "judges": [known[one]["annotator"] for one in enough["judges"]]},
        "sharpened": row and row.sharpened and {"curve": [], **row.sharpened},  # before the release of curves
    }
    return ComparedJudges.model_validate(shown)
