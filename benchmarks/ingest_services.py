"""What `benchmarks.ingest` puts load on: the service, and its peer that writes every vote by itself."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import uuid4

import psycopg
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.cli.logs import log_to_stderr
from app.cli.supervisor import tune_interpreter
from app.database.engine import Database
from app.database.ids import new_id
from app.guard.connections import ConnectionLimits
from app.main import create_app
from app.naming.known_names import KnownNames
from app.votes.rules import OUTCOMES
from app.votes.schemas import Vote, VoteReceipt
from app.votes.service import Sent, VoteQueue, look_up_names

_CONNECTIONS = 16
_INSERT = """
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at, tags, api_key_id)
VALUES (%b, %b, %b, %b, %b, %b, %b, %b, %b)
ON CONFLICT DO NOTHING
"""


def service() -> FastAPI:
    """Return the service as `serve` runs it."""
    log_to_stderr(logging.WARNING, for_good=True)
    app = create_app()
    tune_interpreter()
    return app


def bare() -> Starlette:
    """Return what any service costs: an endpoint that reads a vote, and answers as many bytes without a database."""

    async def answer(request: Request) -> JSONResponse:
        vote = await request.json()
        return JSONResponse({"status": "created", "id": str(uuid4()), "battle_id": vote["battle_id"]}, 201)

    async def ready(_: Request) -> Response:
        return Response()

    return Starlette(routes=[Route("/api/v1/votes", answer, methods=["POST"]), Route("/readyz", ready)])


def one_insert_each() -> FastAPI:
    """Return the service without its queue: the same authentication, validation and name cache, then one INSERT."""
    app = service()
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with inner(app) as state:
            process = app.state.process
            queue = process[VoteQueue]
            url = process[Database].url.set(drivername="postgresql").render_as_string(hide_password=False)
            connections = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(_CONNECTIONS)]
            process[VoteQueue] = _OneInsertEach(process[KnownNames], connections)
            yield state
            process[VoteQueue] = queue
            for connection in connections:
                await connection.close()

    app.router.lifespan_context = lifespan
    return app


class _OneInsertEach:
    def __init__(self, names: KnownNames, connections: list[psycopg.AsyncConnection[Any]]) -> None:
        self._names = names
        self._free: asyncio.LifoQueue[psycopg.AsyncConnection[Any]] = asyncio.LifoQueue()
        for connection in connections:
            self._free.put_nowait(connection)

    async def submit(self, sent: Sent) -> VoteReceipt:
        vote, caller = sent
        if not isinstance(vote, Vote):
            raise TypeError("the benchmark sends no rankings")
        known = look_up_names(self._names, [vote])  # all are on record
        vote_id = new_id()
        values = (
            vote_id,
            known.annotators[vote.annotator],
            known.models[vote.model_a],
            known.models[vote.model_b],
            OUTCOMES[vote.winner],
            vote.battle_id,
            vote.voted_at,
            vote.tags,
            caller.key_id,
        )
        connection = await self._free.get()
        try:
            await connection.execute(_INSERT, values)
        finally:
            self._free.put_nowait(connection)
        return VoteReceipt("created", vote_id)


def main() -> None:
    """Run one of them: its name, the port and the number of processes; with the connections that `serve` has."""
    name, port, processes = sys.argv[1:]
    uvicorn.run(
        f"benchmarks.ingest_services:{name}",
        factory=True,
        port=int(port),
        workers=int(processes),
        http=cast("Any", ConnectionLimits(None)),
        access_log=False,
        log_level="warning",
        ws="none",
        timeout_keep_alive=10,
    )


if __name__ == "__main__":
    main()
