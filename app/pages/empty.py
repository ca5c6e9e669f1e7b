"""A page with nothing to show yet, and what to do."""

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from app.pages.rendering import render
from app.policy.service import current_policy


def render_nothing_published(request: Request, conn: Connection, title: str) -> Response:
    """Return a page that says how the first leaderboard comes about."""
    policy = current_policy(conn).settings
    needs = {name: getattr(policy, name) for name in ("min_votes", "min_board_annotators", "min_board_votes")}
    return render(request, "templates/nothing_published.html", title=title, **needs)
