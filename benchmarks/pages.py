"""How long pages take and how large they are: `python -m benchmarks.pages`, in a scratch embedded database.

The service answers in a process of its own, over HTTP, with compression, as a browser asks. Each page is asked for
once, and then 20 times; the median of these is the time until the whole page is here. 500 models, 100,000 annotators.

`python -m benchmarks.pages --phone` opens pages of 338 models in 13 groups in Chromium, 390 px wide, with an empty
cache: bytes, requests, processor time until the first paint, and how tall the page is.
"""

import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from httpx import Client
from playwright.sync_api import Browser, CDPSession, sync_playwright

from app.annotators.service import list_annotators
from app.auth.keys import create_key
from app.database.engine import Database
from benchmarks.large_arena import publish_large_arena
from benchmarks.measure import ROOT
from benchmarks.reading import scratch_database
from benchmarks.size import sized

RUNS = sized(20, 2)
MOST_SECONDS, MOST_BYTES = sized(0.150, math.inf), 300_000
MOST_BUSY_SECONDS = 1.0

PUBLIC = (
    "/",
    "/?sort=model&q=provider",
    "/?method=m-elo",
    "/embed",
    "/models/provider-7/model-7-instruct",
    "/matchups",
    "/matchups?show=predicted&start=241",
    "/compare",
    f"/compare?a=provider-7/model-7-instruct&b=provider-10/model-{sized(410, 10)}-instruct",
    "/history",
    "/history/difference?before=11&after=12",
    "/method",
)
CONSOLE = (
    "/console/reviews",
    "/console/annotators",
    "/console/annotators?standing=flagged",
    "/console/annotators?q=annotator-7",
    "/console/annotators?q=annotator-77777",
    "/console/annotators/{flagged}?queue=true",
    "/console/annotators/{flagged}/votes",
    "/console/abilities",
    "/console/policy",
    "/console/refits",
    "/console/keys",
    "/console/audit",
    "/console/health",
)
"""Pages for visitors who are signed in; `{flagged}` is an annotator with an open flag."""

GROUPED = (
    "/",
    "/?rows=500&q=-",
    "/models/provider-7/model-7-instruct",
    "/matchups",
    "/compare",
    "/history",
    "/history/difference?before=11&after=12",
)


@contextmanager
def service(database: Database) -> Iterator[Client]:
    """Serve the database; yield a client."""
    url = database.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--no-worker"]
    environment = {**os.environ, "STABLE_ARENA_DATABASE_URL": url}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None  # noqa: S101  a pipe
        with Client(base_url=process.stdout.readline().strip(), timeout=120) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def measure(client: Client, path: str) -> bool:
    """Ask for a page and print how long it takes; return whether it is quick and small enough."""
    began = time.perf_counter()
    answer = client.get(path)
    cold, times = time.perf_counter() - began, []
    for _ in range(RUNS):
        began = time.perf_counter()
        client.get(path)
        times.append(time.perf_counter() - began)
    median, sent = statistics.median(times), answer.num_bytes_downloaded
    fine = answer.status_code == 200 and median <= MOST_SECONDS and sent <= MOST_BYTES
    print(
        f"{path:76} {answer.status_code}  {1000 * median:6.1f} ms  (fastest {1000 * min(times):6.1f}, first "
        f"{1000 * cold:6.1f})  {sent / 1000:6.1f} kB of {len(answer.content) / 1000:6.1f}  {'yes' if fine else 'NO'}",
        flush=True,
    )
    return fine


def measure_on_phone(browser: Browser, origin: str, path: str) -> bool:
    """Open a page five times and print what a phone gets; return whether the first paint is quick enough."""
    figures = [_open(browser, origin + path) for _ in range(5)]
    busy, sent, requests, height = map(statistics.median, zip(*figures, strict=True))
    print(
        f"{path:48} {1000 * busy:6.0f} ms busy  {sent / 1000:6.1f} kB  {requests:3.0f} requests  {height:6.0f} px",
        flush=True,
    )
    return float(busy) <= MOST_BUSY_SECONDS


def _open(browser: Browser, url: str) -> tuple[float, int, int, int]:
    """Return the processor time until the page is painted, bytes and number of all files, and the page's height."""
    with browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True) as context:
        page = context.new_page()
        devtools, sizes = context.new_cdp_session(page), list[int]()
        devtools.send("Performance.enable")
        devtools.send("Network.enable")
        devtools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        before = _busy(devtools)
        page.goto(url)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        busy = _busy(devtools) - before
        height: int = page.evaluate("document.documentElement.scrollHeight")
        return busy, sum(sizes), len(sizes), height


def _busy(devtools: CDPSession) -> float:
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def main_on_phone() -> int:
    """Measure pages of many groups in a browser; return how many are too slow."""
    with scratch_database() as database, sync_playwright() as playwright:
        publish_large_arena(database, models=338, groups=13)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with service(database) as client:
            origin = str(client.base_url).rstrip("/")
            return sum(not measure_on_phone(browser, origin, path) for path in GROUPED)


def main(paths: Sequence[str] = (*PUBLIC, *CONSOLE)) -> int:
    """Measure the pages; return how many are too slow or too large."""
    with scratch_database() as database:
        publish_large_arena(database)
        with database.begin() as conn:
            _, key = create_key(conn, "a benchmark", ["admin"])
            flagged = list_annotators(conn, limit=1, standing="flagged")[0].id
        with service(database) as client:
            origin = str(client.base_url).rstrip("/")
            client.post("/console/sign-in", data={"key": key}, headers={"Origin": origin})
            return sum(not measure(client, path.format(flagged=flagged)) for path in paths)


if __name__ == "__main__":
    sys.exit(main_on_phone() if sys.argv[1:] == ["--phone"] else main())
