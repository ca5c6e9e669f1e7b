"""What people do in a browser while a tutorial is followed: they vote, and open a page."""

import json
import re
from collections.abc import Callable, Mapping, Sequence

import httpx

from tests.tutorials.reader import Reader

VERDICTS = {"ada": ("ash", "ash"), "bob": ("ash", "birch"), "cyd": ("ash", "birch"), "dee": ("ash", "ash")}
"""Which model each prefers, prompt by prompt."""
WORDS = {"ash": ("Air scatters", "1,024"), "birch": ("It mirrors", "About a thousand")}


def four_people_vote(reader: Reader) -> None:
    """Two vote by their links and two by the open door; each has a battle on each of the two prompts."""
    listed, _ = reader.run("stable-arena invitations list --format json")
    links = {one["annotator"]: one["link"].partition("#")[2] for one in json.loads(listed)["invitations"]}
    for name, preferred in VERDICTS.items():
        with httpx.Client(base_url=f"http://{reader.address}", timeout=60) as browser:
            shown = {"Authorization": f"Bearer {links.get(name) or _enter(browser)}"}
            for _ in preferred:
                _vote(browser, shown, preferred)


def _enter(browser: httpx.Client) -> str:
    page = browser.post("/vote", headers={"Origin": str(browser.base_url).rstrip("/")}, follow_redirects=True)
    token = re.search(r'token="(sav_[^"]+)"', page.text)
    assert token is not None, page.text
    return token[1]


def _vote(browser: httpx.Client, shown: Mapping[str, str], preferred: Sequence[str]) -> None:
    """Vote for the model that is preferred for the prompt that comes, known by words of its answer.

    Which prompt comes first is random. The names come with the vote.
    """
    battle = browser.post("/api/v1/battles", json={}, headers=shown).json()
    ((side, model),) = (
        (side, model)
        for side in ("left", "right")
        for place, model in enumerate(preferred)
        if WORDS[model][place] in json.dumps(battle[f"{side}_answer"])
    )
    cast = browser.post("/api/v1/votes", json={"token": battle["token"], "winner": side}).json()
    assert (cast[side], {cast["left"], cast["right"]}) == (model, set(WORDS))


def load_the_script(reader: Reader) -> None:
    """Open the page as far as a test without a browser can: its script is there."""
    page = (reader.folder / "page.html").read_text(encoding="utf-8")
    (address,) = re.findall(r'src="([^"]+)"', page)
    answer = httpx.get(address, timeout=60)
    assert answer.status_code == 200
    assert "javascript" in answer.headers["content-type"]


DEEDS: Mapping[str, Callable[[Reader], None]] = {
    "four-people-vote": four_people_vote,
    "load-the-script": load_the_script,
}
