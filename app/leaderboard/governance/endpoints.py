from fastapi import APIRouter

from app.api.dependencies import OptionalReader, ReadView
from app.api.kept_answers import PublicRoute
from app.leaderboard.governance.schemas import Governance
from app.leaderboard.governance.service import describe_governance

router = APIRouter(tags=["leaderboard"], route_class=PublicRoute)


@router.get("/governance")
def get_governance(_reader: OptionalReader, conn: ReadView) -> Governance:
    """Show how the arena is run: what battles showed, what was removed and why, and who may exclude.

    It has the variants of each organization, unreleased ones as a number, with the score of the best one once the
    choice is allowed for; the hash of the votes; and the head of the audit log. It names no annotator and no unreleased
    model. It is made anew with each snapshot, and when a model changes. Public, unless the service is set to require
    scope `read`.
    """
    return describe_governance(conn)
