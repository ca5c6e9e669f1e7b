"""Which model is good at what: the scores in the categories of a dimension."""

from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.dependencies import ReadView
from app.errors import NotFoundError
from app.leaderboard.categories import CategoryTable, tabulate_categories
from app.pages.formatting import dimension_name
from app.pages.rendering import public_router, render, render_nothing_published
from app.snapshots.service import NoSnapshotError, find_snapshot

router = public_router()

SIZE = 20
"""How many models the page shows."""


@router.get("/categories")
def get_categories(
    request: Request,
    conn: ReadView,
    by: str = "",
    q: Annotated[str, Query(max_length=200)] = "",
    start: Annotated[int, Query(ge=1, le=10_000)] = 1,
    snapshot: str = "",
) -> Response:
    """Show the scores of some models in the categories of a dimension, and which stand out."""
    try:
        table = tabulate_categories(conn, find_snapshot(conn, snapshot or None))
    except NoSnapshotError:
        return render_nothing_published(request, conn, "Categories")
    return render(request, "categories/page.html", asked=snapshot, q=q, **view_categories(table, by, q, start))


def view_categories(table: CategoryTable, by: str, q: str, start: int) -> dict[str, Any]:
    """Return what the template shows: one dimension, by default the first, with its categories of most votes first.

    Raises NotFoundError: there is no such dimension.
    """
    if by and by not in table.dimensions:
        raise NotFoundError(f"there is no dimension {by!r}; there are {', '.join(table.dimensions) or 'none'}")
    names = dict(sorted((one, dimension_name(f"{one}=")) for one in table.dimensions))
    chosen = by or next(iter(names), "")
    votes = table.dimensions[chosen].votes if chosen else {}
    tags = sorted((tag for tag in votes if tag), key=lambda tag: (-votes[tag], tag))
    found = [row for row in table.models if all(word in row.model.casefold() for word in q.casefold().split())]
    shown = found[start - 1 : start - 1 + SIZE]
    return {
        "table": table,
        "chosen": chosen,
        "dimension": table.dimensions.get(chosen),
        "names": names,
        "tags": tags,
        "rows": shown,
        "found": len(found),
        "start": start,
        "end": start + len(shown) - 1,
        "before": max(start - SIZE, 1) if start > 1 else None,
        "after": start + SIZE if start + SIZE <= len(found) else None,
        "outliers": sum(one.stands_out for row in table.models for tag in tags if (one := row.categories.get(tag))),
    }
