from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from app.schemas import FrozenModel
from app.snapshots.schemas import Freshness, LeaderboardMethod, SnapshotHead
from app.wording import plural

LeaderboardFormat = Literal["json", "csv", "parquet"]
Whose = Literal["people", "judges", "all"]
TAG = (
    "Of a category, such as language=fr, or a criterion, such as criterion=helpful. Where a category has few votes, "
    "its scores are drawn to those of all votes."
)


class Place(FrozenModel):
    """A model's place on another leaderboard of the same snapshot; null where it has none or has no score."""

    rank: int | None = None
    score: float | None = None


def _only_the_name_is_sure(schema: dict[str, Any]) -> None:
    schema["required"] = ["model"]


def _without_diagnostics(schema: dict[str, Any]) -> None:
    schema["required"].remove("diagnostics")


class LeaderboardRow(BaseModel):
    """One model on the leaderboard. A request that names `fields` gets those alone, and `model`."""

    model_config = ConfigDict(frozen=True, json_schema_extra=_only_the_name_is_sure)

    model: str
    score: float | None = Field(description="Elo points; null where the votes do not determine it.")
    se: float | None = Field(description="Standard error of the score; for elo, over the orders of the votes.")
    lower: float | None = Field(description="Lower end of the interval; null where the votes give none.")
    upper: float | None = Field(description="Upper end of the interval; null where the votes give none.")
    rank: int | None = Field(
        description="1 is best, within the component; a model without a score has the place that its wins and "
        "losses give it. Null for a provisional model, and without intervals for a model without a score."
    )
    best_rank: int | None = Field(
        description="1 + the number of models that are certainly above it, by the interval of each difference; null "
        "without a rank."
    )
    worst_rank: int | None = Field(description="The number of models less those that are certainly below it.")
    rank_set_best: int | None = Field(
        description="Best rank of the model's rank set: the sets of all models hold their true ranks together. Null "
        "without intervals, and in snapshots from before rank sets were published."
    )
    rank_set_worst: int | None = Field(description="Worst rank of the model's rank set.")
    class_rank: int | None = Field(
        description="1 is the best class, within the component: the leader and every model that it is not certainly "
        "above, by the interval of the difference. The next class is made in the same way from the models without "
        "one. Null without intervals, and in snapshots from before classes were published."
    )
    votes: int
    wins: int
    ties: int
    losses: int
    component: int = Field(description="Models compare only within a component; component 0 has the most votes.")
    identified: bool = Field(description="Whether the votes determine the score.")
    provisional: bool = Field(
        False,
        description="Whether it has too few votes or annotators, or too wide an interval, for a rank: the policy's "
        "min_model_votes, min_model_annotators and max_interval_width. The others are ranked without it.",
    )
    organization: str | None = Field(description="Who made the model, where known.")
    license: str | None
    link: str | None
    tied: bool | None = Field(
        None,
        description="Whether a handful of votes decides the order with the model above. Null for the first model, on "
        "every leaderboard except am-elo of all votes, and until it is computed, soon after the publication.",
    )
    tied_with: str | None = Field(None, description="The model above, where `tied`.")
    compared: dict[LeaderboardMethod, Place] = Field(
        {}, description="The model's place on the leaderboards that `compare` names."
    )


class PublishedLeaderboard(BaseModel):
    """A leaderboard as published.

    It never changes, except for what is known of its models, and for `tied`, which follows after the publication.
    """

    model_config = ConfigDict(frozen=True, json_schema_extra=_without_diagnostics)

    snapshot: SnapshotHead
    method: LeaderboardMethod
    tag: str | None = Field(description=f"{TAG} Null for the leaderboard of all votes.")
    of: Whose = Field(description="Whose votes: of people, of judges (LLMs), or of all.")
    models: list[LeaderboardRow]
    archived: int = Field(description="Archived models, which are not in `models`; ranks count them.")
    diagnostics: dict[str, Any] = Field(
        description="How the fit went; `GET /snapshots/{reference}` has it too. Absent where `fields` does not name it."
    )

    @property
    def about_category(self) -> str:
        """What to know of the scores of a category, in a sentence; empty for other leaderboards."""
        found = self.diagnostics.get("categories", {}).values()
        votes = next((one["votes"][self.tag] for one in found if self.tag in one["votes"]), None)
        if votes is None:
            return ""
        return f"The category has {plural(votes, 'vote')}; where they are few, scores are drawn to those of all votes."

    @staticmethod
    def columns() -> list[str]:
        """Return the columns that every table of this leaderboard has, in order."""
        return [*(name for name in LeaderboardRow.model_fields if name != "compared"), "method", "tag"]

    def rows(self) -> list[dict[str, Any]]:
        """Return the models as rows of a table; the compared leaderboards' columns come last."""
        return [
            {
                **row.model_dump(exclude={"compared"}),
                "method": self.method,
                "tag": self.tag,
                **_flattened(row.compared),
            }
            for row in self.models
        ]


class Leaderboard(PublishedLeaderboard, Freshness):
    """A published leaderboard, how it was made, and how fresh it is."""


class CatalogRating(FrozenModel):
    """One model's score; the ends of the interval are null where the votes give none."""

    rating: float
    rating_q975: float | None
    rating_q025: float | None


Category = dict[str, CatalogRating]


class ArenaCatalog(RootModel[dict[str, Category]]):
    """Category to model to rating: the shape of LMArena's arena-catalog, which other programs read."""


def _flattened(compared: dict[LeaderboardMethod, Place]) -> dict[str, Any]:
    return {
        f"{method.replace('-', '_')}_{name}": value
        for method, place in compared.items()
        for name, value in place.model_dump().items()
    }
