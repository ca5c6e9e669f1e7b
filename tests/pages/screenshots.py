"""Writes a picture of every page to docs/images: light, dark, and on a phone. Run by make screenshots.

It opens the pages as the browser's tests do, so it fails like them on an error in a page's console.
"""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client
from playwright.sync_api import Page, expect

from app.database.engine import Database
from app.leaderboard.charts import draw_newest
from tests.fixtures.arena import Arena
from tests.fixtures.browser import NewPage, PageProblems

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1240, "height": 860}, "device_scale_factor": 1.5},
    "dark": {"viewport": {"width": 1240, "height": 860}, "device_scale_factor": 1.5, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True},
}
_TALLEST = 1500
_AS_WEBP = """
    async (png) => {
        const picture = new Image();
        picture.src = `data:image/png;base64,${png}`;
        await picture.decode();
        const canvas = new OffscreenCanvas(picture.width, picture.height);
        canvas.getContext("2d").drawImage(picture, 0, 0);
        const blob = await canvas.convertToBlob({ type: "image/webp", quality: 0.86 });
        return new Promise((resolve) => {
            const reader = new FileReader();
            reader.onload = () => resolve(reader.result.split(",")[1]);
            reader.readAsDataURL(blob);
        });
    }
"""


def addresses(arena: Arena, client: Client, keys: dict[str, str]) -> dict[str, str]:
    """Return the address of each page, by the name of its picture; those of the console begin with `console-`."""
    admin = {"Authorization": f"Bearer {keys['admin']}"}
    flagged = client.get("/api/v1/reviews", headers=admin).json()["items"][0]["id"]
    refit = client.get("/api/v1/refits", headers=admin).json()["items"][0]["id"]
    hook = client.post(
        "/api/v1/webhooks",
        json={"url": "https://192.0.2.1/hook", "events": ["snapshot.published"]},
        headers=admin,
    )
    assert hook.status_code in (201, 422)
    pair = f"a={quote('Meridian 4')}&b={quote('Halcyon Pro')}"
    return {
        "leaderboard": "/",
        "leaderboard-tag": "/?tag=code",
        "leaderboard-method": "/?method=m-elo",
        "model": f"/models/{quote('Halcyon Pro')}",
        "matchups": "/matchups",
        "compare": f"/compare?{pair}",
        "history": "/history",
        "difference": "/history/difference?before=2&after=4",
        "method": "/method",
        "governance": "/governance",
        "embed": "/embed",
        "error": "/nothing-here",
        "console-sign-in": "/console/sign-in",
        "console-reviews": "/console/reviews",
        "console-case": f"/console/annotators/{flagged}",
        "console-votes": f"/console/annotators/{flagged}/votes",
        "console-appeals": "/console/appeals",
        "console-annotators": "/console/annotators",
        "console-abilities": "/console/abilities",
        "console-judges": "/console/judges",
        "console-policy": "/console/policy?min_ability=0.3",
        "console-policy-version": "/console/policy/versions/2",
        "console-refits": "/console/refits",
        "console-refit": f"/console/refits/{refit}",
        "console-imports": "/console/imports",
        "console-keys": "/console/keys",
        "console-webhooks": "/console/webhooks",
        "console-retractions": "/console/retractions",
        "console-start": "/console/start",
        "console-models": "/console/models",
        "console-pair": f"/console/votes?{pair}",
        "console-merges": "/console/merges",
        "console-audit": "/console/audit",
        "console-audit-verified": "/console/audit/verify",
        "console-health": "/console/health",
        "console-sessions": "/console/sessions",
    }


@pytest.mark.browser
@pytest.mark.arena
@pytest.mark.parametrize("look", LOOKS)
def test_pictures(
    look: str,
    arena: Arena,
    client: Client,
    keys: dict[str, str],
    database: Database,
    new_page: NewPage,
    console: Callable[[Page], None],
    page_problems: PageProblems,
) -> None:
    draw_newest(database)
    IMAGES.mkdir(exist_ok=True)
    page_problems.expect("status of 404")
    page, blank = new_page(**LOOKS[look]), new_page()
    blank.goto("/static/none")  # a page of this service may read the pictures it is given
    signed_in = False
    for name, address in addresses(arena, client, keys).items():
        if name.startswith("console-") and name != "console-sign-in" and not signed_in:
            console(page)
            signed_in = True
        page.goto(address)
        expect(page.locator("[hx-trigger^=load]")).to_have_count(0)  # what loads by itself is there
        height = min(page.evaluate("document.documentElement.scrollHeight"), _TALLEST)
        size = {**LOOKS[look]["viewport"], "height": max(height, LOOKS[look]["viewport"]["height"])}
        png = page.screenshot(clip={"x": 0, "y": 0, **size}, full_page=True)
        webp = blank.evaluate(_AS_WEBP, base64.b64encode(png).decode())
        (IMAGES / f"{name}-{look}.webp").write_bytes(base64.b64decode(webp))
