"""Every route of the HTTP interface: a new router is one line here."""

from fastapi import APIRouter, Depends, FastAPI

from app.api import (
    annotators,
    appeals,
    audit,
    exports,
    health,
    imports,
    keys,
    leaderboard,
    matchups,
    metrics,
    models,
    policy,
    refits,
    retractions,
    reviews,
    rewards,
    snapshots,
    vote_batches,
    votes,
    webhooks,
)
from app.api.bodies import json_content
from app.api.direct import DirectEndpoint
from app.api.paths import PREFIX

DIRECT_ENDPOINTS: dict[tuple[str, str], DirectEndpoint] = {
    ("POST", f"{PREFIX}/votes"): votes.post_vote_directly,
    ("POST", f"{PREFIX}/votes/batch"): vote_batches.post_vote_batch_directly,
}
"""Routes that are also installed below, and served before the framework looks for them."""


def install_routes(app: FastAPI) -> None:
    """Give the application its routes."""
    api = APIRouter(prefix=PREFIX, dependencies=[Depends(json_content)])
    for part in (
        votes,
        vote_batches,
        retractions,
        refits,
        leaderboard,
        matchups,
        models,
        snapshots,
        reviews,  # before annotators, whose keys may hold slashes
        appeals,
        annotators,
        rewards,
        audit,
        policy,
        keys,
        exports,
        webhooks,
    ):
        api.include_router(part.router)
    app.include_router(api)
    app.include_router(imports.router, prefix=PREFIX)  # bodies of every kind
    app.include_router(health.router)
    app.include_router(metrics.router)
