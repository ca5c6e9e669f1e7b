"""Every route of the HTTP interface: a new router is one line here."""

from fastapi import APIRouter, Depends, FastAPI

from app.api import annotators, appeals, audit, health, leaderboard, policy, refits, rewards, snapshots, votes, webhooks
from app.api.bodies import json_content

PREFIX = "/api/v1"


def install_routes(app: FastAPI) -> None:
    """Give the application its routes."""
    api = APIRouter(prefix=PREFIX, dependencies=[Depends(json_content)])
    for part in (votes, refits, leaderboard, snapshots, annotators, appeals, rewards, audit, policy, webhooks):
        api.include_router(part.router)
    app.include_router(api)
    app.include_router(health.router)
