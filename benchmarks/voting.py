"""A hundred people who vote at once: how long the next battle and a vote take, with answers that lie here and without.

Each asks for a battle, thinks, and votes. With answers they come by links, and prompt and answers are HTML; without,
an arena's backend asks for the pair. The rounds take turns; the ratios of neighbours are what to compare.
"""

import asyncio
import os
import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from app.auth.keys import create_key
from app.database.embedded.server import EmbeddedServer
from app.database.engine import Database
from app.database.schema import upgrade
from benchmarks.ingest import served
from benchmarks.size import sized

ROUNDS = int(os.environ.get("ROUNDS", sized("5", "1")))
SECONDS = float(os.environ.get("SECONDS", sized("10", "0.4")))
PEOPLE, THINKS = sized((100, 2.0), (10, 0.1))
PROMPTS, MODELS = sized(500, 100), 4
ANSWER = "\n\n".join(
    [
        "Some **words**, a table and code.",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "```python\nprint(1)\n```",
        "More words. " * 100,
    ]
)
Times = dict[str, list[float]]
Person = tuple[dict[str, str], dict[str, object]]
"""The headers and the body of someone's requests for battles."""


async def vote(
    client: httpx.AsyncClient, header: dict[str, str], body: dict[str, object], until: float, times: Times
) -> None:
    """Be one of the people until the time is over."""
    await asyncio.sleep(random.random() * THINKS)  # noqa: S311  no secret
    while time.monotonic() < until:
        began = time.perf_counter()
        drawn = await client.post("/api/v1/battles", json=body, headers=header)
        shown = time.perf_counter()
        drawn.raise_for_status()
        times["battle"].append(shown - began)
        await asyncio.sleep(random.uniform(0.5, 1.5) * THINKS)  # noqa: S311
        began = time.perf_counter()
        cast = await client.post(
            "/api/v1/votes", json={"token": drawn.json()["token"], "winner": "left"}, headers=KEYED
        )
        cast.raise_for_status()
        times["vote"].append(time.perf_counter() - began)


KEYED: dict[str, str] = {}
"""Votes are sent by the key in both, so that the limits of strangers play no part."""


async def run(address: str, people: list[Person]) -> Times:
    """Let all vote, and return the seconds of each battle and vote."""
    times: Times = {"battle": [], "vote": []}
    until = time.monotonic() + SECONDS
    async with httpx.AsyncClient(base_url=address, limits=httpx.Limits(max_connections=PEOPLE), timeout=60) as client:
        await asyncio.gather(*(vote(client, header, body, until, times) for header, body in people))
    return times


def p99(values: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return 1000 * statistics.quantiles(values, n=100)[-1]


def measure(address: str, key: str) -> None:
    KEYED["Authorization"] = f"Bearer {key}"
    links = []
    with httpx.Client(base_url=f"{address}/api/v1", headers=KEYED, timeout=60) as admin:
        for start in range(0, PROMPTS, 100):
            given = [
                {"prompt": f"Question {at}?", "model": f"m{model}", "answer": f"{at} {model} {ANSWER}"}
                for at in range(start, start + 100)
                for model in range(MODELS)
            ]
            admin.post("/answers", json={"answers": given}).raise_for_status()
        for at in range(PEOPLE):
            made = admin.post("/invitations", json={"annotator": f"link-{at}"}).json()
            links.append(made["link"].partition("#")[2])
    ways: dict[str, list[Person]] = {
        "without answers": [(KEYED, {"annotator": f"key-{at}"}) for at in range(PEOPLE)],
        "with answers": [({"Authorization": f"Bearer {link}"}, {}) for link in links],
    }
    rounds: dict[str, list[Times]] = {way: [] for way in ways}
    for _ in range(ROUNDS + 1):  # the first fills caches
        for way, people in ways.items():
            rounds[way].append(asyncio.run(run(address, people)))
    print(f"{'':18}{'battle p50':>12}{'p99 ms':>9}{'vote p50':>11}{'p99 ms':>9}")
    for way, found in rounds.items():
        figures = (
            statistics.median(of(each[what]) for each in found[1:])
            for what in ("battle", "vote")
            for of in (lambda values: 1000 * statistics.median(values), p99)
        )
        print("{:18}{:>12.1f}{:>9.1f}{:>11.1f}{:>9.1f}".format(way, *figures))
    for what in ("battle", "vote"):
        pairs = zip(rounds["with answers"][1:], rounds["without answers"][1:], strict=True)
        ratios = sorted(p99(one[what]) / p99(other[what]) for one, other in pairs)
        spread = f"{statistics.median(ratios):.2f} × ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"p99 of a {what}, with over without: {spread}")


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stable-arena-bench-")))
        folder.chmod(0o711)  # under root the server runs as another user
        server = EmbeddedServer(folder / "data")
        stack.callback(server.release)
        url = server.start()
        upgrade(url)
        with Database(url) as database, database.begin() as conn:
            key = create_key(conn, "benchmark", ["ingest", "admin"])[1]
        measure(stack.enter_context(served("service", url)), key)


if __name__ == "__main__":
    main()
