"""Starts Stable Arena on an embedded database, with a small pool of answers to vote on: `python -m examples.arena`."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from app.cli.demo.service import Service, demo_service, own_foreground
from app.cli.stopping import end_as_at_ctrl_c
from app.policy.presets import PRESETS

POOL = Path(__file__).parent / "pool.jsonl"
SETTINGS = {**PRESETS["small-team"], "refit_interval_seconds": 5}
"""One visitor is enough for a leaderboard here. In production 50 votes make an annotator count."""


def main() -> None:
    """Run it until Ctrl-C, SIGTERM or SIGHUP. Nothing is kept: the database is in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m examples.arena", description=__doc__)
    parser.add_argument("--port", type=int, default=8080, help="0 for a free one")
    parser.add_argument("--answers", type=Path, default=POOL, help="a file of answers of your own")
    chosen = parser.parse_args()
    end_as_at_ctrl_c()
    try:
        with own_foreground(), demo_service(chosen.port) as service:
            _set_up(service, chosen.answers)
            print(f"Vote:        {service.url}/vote")
            print(f"Leaderboard: {service.url}/   (a few seconds after the first votes)")
            print(f"Console:     {service.sign_in.partition('&')[0]}")
            print("Press Ctrl-C to stop.", flush=True)
            service.process.wait()
    except KeyboardInterrupt:
        pass
    print("The arena was stopped.")


def _set_up(service: Service, answers: Path) -> None:
    """Record the answers, set the policy, and open voting to everyone, as an operator does once."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STABLE_ARENA_")}
    environment["STABLE_ARENA_DATA_DIR"] = str(service.data_dir)
    command = [sys.executable, "-m", "app.cli", "answers", "import", str(answers)]
    if subprocess.run(command, env=environment, check=False).returncode:
        sys.exit(2)  # the command has said what is wrong
    admin = {"Authorization": f"Bearer {service.key}"}
    with httpx.Client(base_url=f"{service.url}/api/v1", headers=admin, timeout=30.0) as operator:
        settings = {**_answer(operator.get("/policy"))["settings"], **SETTINGS}
        _answer(operator.put("/policy", json={"settings": settings, "reason": "an example has few votes"}))
        _answer(operator.post("/invitations", json={"everyone": True}))


def _answer(response: httpx.Response) -> dict[str, Any]:
    content: dict[str, Any] = response.raise_for_status().json()
    return content


if __name__ == "__main__":
    main()
