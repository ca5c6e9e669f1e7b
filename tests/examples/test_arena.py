"""The example of an arena: its pool, and the command that starts it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx
import pytest

from app.answers.schemas import NewAnswer

ROOT = Path(__file__).parents[2]
POOL = ROOT / "examples/arena/pool.jsonl"


def test_the_pool_has_an_answer_of_each_model_to_each_prompt() -> None:
    pool = [NewAnswer.model_validate(json.loads(line)) for line in POOL.read_text(encoding="utf-8").splitlines()]
    prompts, models = {one.prompt for one in pool}, {one.model for one in pool}
    assert (len(prompts), sorted(models)) == (20, ["maple", "otter", "pixel", "quartz"])
    assert set(Counter((one.prompt, one.model) for one in pool).values()) == {1}
    assert len(pool) == 80
    assert {one.category for one in pool} == {"code", "everyday", "science", "writing"}
    assert not [one for one in pool if one.model in one.answer.lower()]


@pytest.mark.campaign
def test_the_command_starts_an_arena_and_ends_at_ctrl_c() -> None:
    command = [sys.executable, "-m", "examples.arena", "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STABLE_ARENA_")}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment, stdin=subprocess.DEVNULL
    ) as example:
        assert example.stdout is not None
        assert example.stdout.readline() == "80 answers recorded, 20 prompts new.\n"
        page = example.stdout.readline().split()[-1]
        with httpx.Client(base_url=page.removesuffix("/vote"), timeout=60) as visitor:
            entered = visitor.post("/vote", headers={"Origin": page.removesuffix("/vote")}, follow_redirects=True)
            token = re.search(r'token="(sav_[^"]+)"', entered.text)
            assert token is not None
            shown = {"Authorization": f"Bearer {token[1]}"}
            battle = visitor.post("/api/v1/battles", json={}, headers=shown).json()
            cast = visitor.post("/api/v1/votes", json={"token": battle["token"], "winner": "tie"})
            assert cast.status_code == 201
        example.send_signal(signal.SIGINT)
        rest = example.stdout.read()
    assert example.returncode == 0
    assert rest.endswith("The arena was stopped.\n")
