"""What a reader has chosen to see of a leaderboard: the parameters of the page's address."""

from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import Field

from app.leaderboard.formats import MOST_MODELS
from app.leaderboard.groups import ModelGroup
from app.pages.leaderboard.rows import Row
from app.schemas import FrozenModel
from app.snapshots.schemas import LeaderboardMethod

Sort = Literal["rank", "class", "model", "score", "votes", "win-rate", "organization", "license", "change", "other"]
Order = Literal["up", "down"]

ROWS = 100
"""How many models a page shows unless asked for more: with each of 500 a browser would be busy for seconds."""

_BEST_FIRST: frozenset[Sort] = frozenset({"score", "votes", "win-rate", "change"})


class Board(FrozenModel):
    """Which leaderboard, and which group of it.

    Attributes
    ----------
    group : name or number of the models that votes link; empty for those with the most votes
    snapshot : number or id; empty for the newest, which changes with each publication
    """

    method: LeaderboardMethod = "am-elo"
    tag: str = ""
    group: str = ""
    snapshot: str = ""


class Selection(Board):
    """Which leaderboard, which of its models, and in which order.

    Attributes
    ----------
    q : only models whose name, organization or licence has this text, of every group
    order : None for the column's usual order: numbers of which more is better downwards, all else upwards
    rows : how many models the page shows at most
    """

    q: str = Field("", max_length=200)
    sort: Sort = "rank"
    order: Order | None = None
    rows: int = Field(ROWS, ge=1, le=MOST_MODELS)

    def link(self, **changes: Any) -> str:
        """Return the page's address for this selection with some changes; what is usual is left out."""
        query = urlencode(self.model_copy(update=changes).unusual)
        return f"/?{query}" if query else "/"

    def browse(self, **changes: Any) -> str:
        """Return the address of another leaderboard or group, whole and in the usual order."""
        return self.link(**{"q": "", "sort": "rank", "order": None, "rows": ROWS, "group": "", **changes})

    def picture(self, form: str, snapshot: str = "") -> str:
        """Return the address of a picture of this group, by default in the same snapshot: png or svg."""
        return f"/card.{form}{self.browse(group=self.group, snapshot=snapshot or self.snapshot)[1:]}"

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

    def choose(self, rows: Iterable[Row], group: ModelGroup) -> list[Row]:
        """Return the rows of a group, or those that are searched for, in order. Rows without a value come last."""
        if wanted := self.q.casefold().split():
            found = [row for row in rows if all(word in row.searched for word in wanted)]
        else:
            found = [row for row in rows if row.group == group]
        if self.sort == "rank" and not self.downwards:
            return found  # as they are
        known = [row for row in found if row.keys[self.sort] is not None]
        known.sort(key=lambda row: row.keys[self.sort], reverse=self.downwards)
        return known + [row for row in found if row.keys[self.sort] is None]
