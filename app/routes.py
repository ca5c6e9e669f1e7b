"""Every route of the HTTP interface: a new router is one line here."""

from fastapi import Depends, FastAPI

from app.admin import endpoints as admin
from app.annotators import endpoints as annotators
from app.answers import endpoints as answers
from app.battles import endpoints as battles
from app.battles.schemas import NewBattle
from app.exports import endpoints as exports
from app.guard.bodies import require_json
from app.guard.refusals import PREFIX
from app.imports import endpoints as imports
from app.invitations import endpoints as invitations
from app.leaderboard import endpoints as leaderboard
from app.leaderboard.diff import endpoints as diff
from app.leaderboard.governance import endpoints as governance
from app.models import endpoints as models
from app.monitoring import endpoints as monitoring
from app.pages.categories import endpoints as categories_page
from app.pages.compare import endpoints as compare_page
from app.pages.console.abilities import endpoints as abilities_page
from app.pages.console.annotators import endpoints as annotators_page
from app.pages.console.answers import endpoints as answers_page
from app.pages.console.appeals import endpoints as appeals_page
from app.pages.console.audit import endpoints as audit_page
from app.pages.console.health import endpoints as health_page
from app.pages.console.imports import endpoints as imports_page
from app.pages.console.invitations import endpoints as invitations_page
from app.pages.console.judges import endpoints as judges_page
from app.pages.console.keys import endpoints as keys_page
from app.pages.console.merges import endpoints as merges_page
from app.pages.console.models import endpoints as models_page
from app.pages.console.policy import endpoints as policy_page
from app.pages.console.refits import endpoints as refits_page
from app.pages.console.retractions import endpoints as retractions_page
from app.pages.console.reviews import endpoints as reviews_page
from app.pages.console.sessions import endpoints as sessions_page
from app.pages.console.sign_in import endpoints as sign_in_page
from app.pages.console.start import endpoints as start_page
from app.pages.console.votes import endpoints as votes_page
from app.pages.console.webhooks import endpoints as webhooks_page
from app.pages.files import endpoints as page_files
from app.pages.governance import endpoints as governance_page
from app.pages.history import endpoints as history_page
from app.pages.leaderboard import endpoints as leaderboard_page
from app.pages.matchups import endpoints as matchups_page
from app.pages.method import endpoints as method_page
from app.pages.model import endpoints as model_page
from app.pages.vote import endpoints as vote_page
from app.policy import endpoints as policy
from app.refits import endpoints as refits
from app.review import endpoints as review
from app.review.groups import endpoints as review_groups
from app.review.me import endpoints as me
from app.snapshots import endpoints as snapshots
from app.votes import endpoints as votes
from app.votes.retractions import endpoints as retractions
from app.votes.schemas import RankedVote, SealedVoteBody, Vote, VoteBatch
from app.webhooks import endpoints as webhooks

BODIES = (Vote, RankedVote, VoteBatch, SealedVoteBody, NewBattle)
"""Bodies that their endpoints parse themselves: FastAPI does not see them."""


def install_routes(app: FastAPI) -> None:
    """Give the application its routes."""
    # Directly: FastAPI takes twice as long to find a route of an included router, and votes come thousands a second.
    for quick in (votes.router, battles.quick_router):
        app.router.routes.extend(quick.routes)
    for router in (
        retractions.router,
        battles.router,
        battles.exposure_router,
        answers.router,
        invitations.router,
        refits.router,
        leaderboard.router,
        diff.router,
        governance.router,
        models.router,
        leaderboard.models_router,  # after models: names may hold slashes, and its GET /models/{name} matches them all
        snapshots.router,
        me.router,  # before annotators: the key of an annotator may be `me`, who then has to be given by id
        annotators.router,
        review_groups.router,
        review.router,  # after annotators, for the same reason
        admin.audit_router,
        policy.router,
        review.policy_router,
        admin.keys_router,
        exports.router,
        webhooks.router,
    ):
        app.include_router(router, prefix=PREFIX, dependencies=[Depends(require_json)])
    app.include_router(imports.router, prefix=PREFIX)  # bodies of every kind
    app.include_router(monitoring.router)
    for router in (
        page_files.router,
        leaderboard_page.router,
        model_page.router,
        matchups_page.router,
        categories_page.router,
        compare_page.router,
        history_page.router,
        method_page.router,
        governance_page.router,
        vote_page.router,
        sign_in_page.router,
        sessions_page.router,
        start_page.router,
        abilities_page.router,
        judges_page.router,
        policy_page.router,
        refits_page.router,
        imports_page.router,
        health_page.router,
        answers_page.router,
        invitations_page.router,
        keys_page.router,
        retractions_page.router,
        votes_page.router,
        models_page.router,
        merges_page.router,
        webhooks_page.router,
        audit_page.router,
        reviews_page.router,
        appeals_page.router,
        annotators_page.router,
    ):
        app.include_router(router)
