"""How this arena is run."""

from fastapi import Request, Response

from app.api.dependencies import ReadView
from app.leaderboard.governance.service import describe_governance
from app.pages.rendering import public_router, render

router = public_router()

_POLICIES = {
    "uniform": "all pairs alike",
    "balanced": "models with few votes more often",
    "lmarena": "pairs by Chatbot Arena's rule",
    "information": "pairs that tell most of all scores",
    "top_k": "pairs that tell the best models from the others",
    "mixed": "pairs that tell most of all scores, in half of the battles those that tell the best models apart",
}


@router.get("/governance")
def get_governance(request: Request, conn: ReadView) -> Response:
    """Show what battles showed, what was removed, whose variants there are, and who may exclude."""
    found = describe_governance(conn)
    several = [
        one
        for one in found.organizations
        if one.best is not None or one.unreleased or (one.organization and one.variants > 1)
    ]
    return render(
        request, "governance/page.html", found=found, several=several, battle_policy=_POLICIES[found.battle_policy]
    )
