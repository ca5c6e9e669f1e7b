"""The command `stable-arena demo`."""

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.live import Live

from app.cli.demo.screen import View, draw, summary
from app.cli.demo.service import DemoFailedError, Service, demo_service, last_log_line, own_foreground
from app.cli.demo.voters import MODEL_NAMES, Voters
from app.cli.stopping import stop_signals

POLICY = {"refit_interval_seconds": 3, "min_votes": 10}
"""What the demo changes, so that there is a leaderboard after a few seconds of votes."""
REFRESH_SECONDS = 1.0
DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def read_duration(text: str) -> float:
    """Read `90`, `60s`, `2m` or `1h` as seconds."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration such as 60s or 2m")
    return float(match[1]) * UNIT[match[2]]


def demo(
    length: Annotated[
        str | None, typer.Option("--for", help="End after this time (60s, 2m); otherwise at Ctrl-C.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")] = 0,
    rate: Annotated[float, typer.Option(min=1.0, max=2000.0, help="Votes a second.")] = 200.0,
    seed: Annotated[int, typer.Option(help="Seed of the simulated world.")] = 3,
) -> None:
    """Start the service with a simulated crowd voting, and watch the leaderboard converge.

    40 honest annotators of different ability begin. Some seconds later 15 others join: 4 who answer at random, 4 who
    vote against the truth, 3 who always vote tie, and a clique of 4 who push one model. Open the address that is
    printed to see the leaderboard, and the console in which they are flagged. Nothing is kept: the database is in a
    temporary folder.
    """
    seconds = None if length is None else read_duration(length)
    try:
        with own_foreground(), demo_service(port) as service:
            asyncio.run(_run(service, seconds=seconds, rate=rate, seed=seed))
    except KeyboardInterrupt:
        typer.echo("The demo was stopped.")


async def _run(service: Service, *, seconds: float | None, rate: float, seed: int) -> None:
    console = Console()
    headers = {"Authorization": f"Bearer {service.key}"}
    async with httpx.AsyncClient(base_url=f"{service.url}/api/v1", headers=headers, timeout=10.0) as client:
        await _set_up(client)
        voters = Voters(client, seed=seed, votes_per_second=rate)
        _introduce(console, service, seconds)
        stop = asyncio.Event()
        for name in stop_signals():
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        voting = asyncio.create_task(voters.vote_until_cancelled())
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(contextlib.suppress(TimeoutError))
                await stack.enter_async_context(asyncio.timeout(seconds))
                await _show(console, client, voters, service, stop)
        finally:
            voting.cancel()
            await asyncio.gather(voting, return_exceptions=True)
        view = await _look(client, service)
        console.print(draw(view, voters))
        console.print("The demo is over; stopping the service.")


async def _set_up(client: httpx.AsyncClient) -> None:
    """Add the models that battles may show, and set the policy."""
    for name in MODEL_NAMES:
        (await client.post("/models", json={"name": name})).raise_for_status()
    settings = (await client.get("/policy")).raise_for_status().json()["settings"]
    change = {"settings": {**settings, **POLICY}, "reason": "the demo has few votes and refits every few seconds"}
    (await client.put("/policy", json=change)).raise_for_status()


def _introduce(console: Console, service: Service, seconds: float | None) -> None:
    end = "Press Ctrl-C to end the demo" if seconds is None else f"The demo ends after {seconds:g} s"
    console.print(f"[bold]Stable Arena demo[/bold]: a simulated crowd votes, and attackers join it soon. {end}.\n")
    console.print(f"  Open   [bold]{service.sign_in}[/bold]", soft_wrap=True, highlight=False)
    console.print("         The link signs you in once. The leaderboard renews itself, and Console has the flags.")
    console.print(f"  API    {service.url}/docs with the key {service.key}\n", soft_wrap=True, highlight=False)


async def _show(
    console: Console, client: httpx.AsyncClient, voters: Voters, service: Service, stop: asyncio.Event
) -> None:
    """Redraw every second on a terminal; elsewhere print a line for every new snapshot."""
    last_snapshot = None
    with Live(console=console, auto_refresh=False, transient=True) if sys.stdout.isatty() else _no_live() as live:
        async for _ in _ticks(stop):
            if service.process.poll() is not None:
                raise DemoFailedError(f"the service stopped: {last_log_line(service.log)}")
            view = await _look(client, service)
            if live is not None:
                live.update(draw(view, voters), refresh=True)
                continue
            snapshot = view.leaderboard and view.leaderboard["snapshot"]["number"]
            if snapshot != last_snapshot:
                console.print(summary(view, voters), soft_wrap=True, highlight=False)
                last_snapshot = snapshot


async def _ticks(stop: asyncio.Event) -> AsyncIterator[None]:
    while not stop.is_set():
        yield
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), REFRESH_SECONDS)


def _no_live() -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


async def _look(client: httpx.AsyncClient, service: Service) -> View:
    try:
        answer = await client.get("/leaderboard")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return View(None, [])
        leaderboard = answer.raise_for_status().json()
        flagged = await client.get("/annotators", params={"standing": "flagged", "limit": 100})
        return View(leaderboard, flagged.raise_for_status().json()["items"])
    except httpx.HTTPError as error:
        raise DemoFailedError(f"the service does not answer: {error} ({last_log_line(service.log)})") from None
