"""What a reader has chosen to see of a leaderboard: the parameters of the page's address."""

from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from app.pages.leaderboard.rows import Row
from app.snapshots.schemas import LeaderboardMethod

Sort = Literal["rank", "class", "model", "score", "votes", "win-rate", "organization", "license", "change", "other"]
Order = Literal["up", "down"]

_BEST_FIRST: frozenset[Sort] = frozenset({"score", "votes", "win-rate", "change"})


class Selection(BaseModel):
    """Which leaderboard, which of its models, and in which order.

    Attributes
    ----------
    snapshot : number or id; empty for the newest, which changes with each publication
    q : only models whose name, organization or licence has this text
    order : None for the column's usual order: numbers of which more is better downwards, all else upwards
    """

    model_config = ConfigDict(frozen=True)

    method: LeaderboardMethod = "am-elo"
    tag: str = ""
    snapshot: str = ""
    q: str = Field("", max_length=200)
    sort: Sort = "rank"
    order: Order | None = None

    def link(self, **changes: Any) -> str:
        """Return the page's address for this selection with some changes; what is usual is left out."""
        query = urlencode(self.model_copy(update=changes).unusual)
        return f"/?{query}" if query else "/"

    @property
    def unusual(self) -> dict[str, Any]:
        """What differs from the page without parameters."""
        return self.model_dump(exclude_defaults=True)

    def sort_link(self, sort: Sort) -> str:
        """Return the address of the same models in another order; that of the present column turns it round."""
        turned: Order | None = None
        if sort == self.sort:
            turned = "up" if self.downwards else "down"
        return self.link(sort=sort, order=turned)

    @property
    def downwards(self) -> bool:
        """Whether the highest value comes first."""
        return self.order == "down" if self.order else self.sort in _BEST_FIRST

    def choose(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that are searched for, in order. Rows without a value come last."""
        wanted = self.q.casefold().split()
        found = [row for row in rows if all(word in row.searched for word in wanted)]
        if self.sort == "rank" and not self.downwards:
            return found  # as they are
        known = [row for row in found if row.keys[self.sort] is not None]
        known.sort(key=lambda row: row.keys[self.sort], reverse=self.downwards)
        return known + [row for row in found if row.keys[self.sort] is None]
