"""Starts Stable Arena on an embedded database, and a small arena that uses it: `python -m examples.arena`."""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from app.cli.demo.service import own_foreground
from examples.arena.backend import create_app, read_prompts

STABLE_ARENA = [sys.executable, "-m", "app.cli"]
SETTINGS = {
    "min_votes": 0, "refit_interval_seconds": 5, "min_board_annotators": 1, "min_board_votes": 1,
    "min_model_annotators": 1, "min_model_votes": 1, "max_interval_width": None,
}  # fmt: skip
"""One visitor is enough for a leaderboard here. In production 50 votes make an annotator count."""
STOP_SECONDS = 20


def main() -> None:
    """Run both until Ctrl-C. Nothing is kept: the database is in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m examples.arena", description=__doc__)
    parser.add_argument("--port", type=int, default=8080, help="of the arena; 0 for a free one")
    parser.add_argument("--service-port", type=int, default=0, help="of Stable Arena; 0 for a free one")
    chosen = parser.parse_args()
    try:
        with own_foreground(), _service(chosen.service_port) as (url, environment):
            key = _set_up(url, environment)
            asyncio.run(_serve(url, key, chosen.port))
    except KeyboardInterrupt:
        pass
    print("The arena was stopped.")


@contextmanager
def _service(port: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Run `stable-arena serve`; yield its address, and the environment in which commands find its database."""
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-example-"))
    folder.chmod(0o755)  # under root the database runs as another user, who must read it
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STABLE_ARENA_")}
    environment["STABLE_ARENA_DATA_DIR"] = str(folder / "data")
    command = [*STABLE_ARENA, "serve", "--host", "127.0.0.1", "--port", str(port)]
    log = folder / "service.log"
    try:
        with log.open("wb") as errors:
            # In a session of its own: Ctrl-C reaches this process alone, which then stops the service.
            service = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        try:
            assert service.stdout is not None  # noqa: S101  a pipe
            url = service.stdout.readline().strip()  # printed once the service answers
            if not url:
                sys.exit(f"Stable Arena did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")
            yield url, environment
        finally:
            _stop(service)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stop(service: subprocess.Popen[str]) -> None:
    service.terminate()
    try:
        service.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        service.communicate()


def _set_up(url: str, environment: dict[str, str]) -> str:
    """Add the models and set the policy, as an operator does once; return the key that the arena's backend needs."""
    made = subprocess.run(
        [*STABLE_ARENA, "keys", "create", "operator", "--scope", "admin", "--format", "json"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    with _client(url, json.loads(made.stdout)["key"]) as operator:
        for model in read_prompts()[0].answers:
            operator.post("/models", json={"name": model}).raise_for_status()
        settings = {**_answer(operator.get("/policy"))["settings"], **SETTINGS}
        reason = "an example has few votes"
        operator.put("/policy", json={"settings": settings, "reason": reason}).raise_for_status()
        key: str = _answer(operator.post("/keys", json={"name": "arena", "scopes": ["ingest"]}))["key"]
        return key


def _client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=30.0)


def _answer(response: httpx.Response) -> dict[str, Any]:
    content: dict[str, Any] = response.raise_for_status().json()
    return content


async def _serve(url: str, key: str, port: int) -> None:
    app = create_app(f"{url}/api/v1", key, read_prompts())
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", access_log=False))
    running = asyncio.create_task(server.serve())
    while not server.started and not running.done():
        await asyncio.wait([running], timeout=0.05)
    if server.started:
        port = server.servers[0].sockets[0].getsockname()[1]
        print(f"The arena:       http://127.0.0.1:{port}/")
        print(f"Its leaderboard: {url}/   (a few seconds after the first votes)")
        print("Press Ctrl-C to stop both.", flush=True)
    await running


if __name__ == "__main__":
    main()
