import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.policy.service import current_policy
from app.settings import Settings, WebhookSettings
from app.snapshots.staleness import announce_stale_leaderboard
from app.webhooks import delivery
from app.webhooks.delivery import MAX_ATTEMPTS, Deliverer, pause_after
from app.webhooks.queries import FIRST_PAUSE_SECONDS, MOST_STRETCHED

Ask = Callable[..., Any]


@dataclass
class Receiver:
    """Somebody who is told: answers with these statuses in turn (then 200), and keeps what came."""

    url: str
    statuses: list[int] = field(default_factory=list)
    messages: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def check_signature(self, secret: str, number: int = -1) -> None:
        headers, body = self.messages[number]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.messages.append(({key.lower(): value for key, value in self.headers.items()}, body))
            self.send_response(found.statuses.pop(0) if found.statuses else 200)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://localhost:{server.server_address[1]}/hook?a=1")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"webhooks": WebhookSettings(allow_private_addresses=True)})


@pytest.fixture
def deliverer(database: Database) -> Deliverer:
    return Deliverer(database, allow_private=True)


@pytest.fixture
def subscribe(ask: Ask, receiver: Receiver) -> Ask:
    """Subscribe the receiver to these events and return the webhook."""

    def make(*events: str) -> Any:
        made = ask("POST", "/webhooks", json={"url": receiver.url, "events": list(events)})
        assert made.status_code == 201, made.text
        return made.json()

    return make


def due_now(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE webhook_deliveries SET next_attempt_at = now()"))


def test_decisions_and_appeals_are_announced(
    ask: Ask, crowd: list[str], subscribe: Ask, receiver: Receiver, deliverer: Deliverer
) -> None:
    subscribe("annotator.decided", "appeal.submitted")
    appeal = ask("POST", f"/annotators/{crowd[0]}/appeals", json={"note": "a private word"}).json()
    body = {"action": "exclude", "reason": "a private reason"}
    assert ask("POST", f"/annotators/{crowd[0]}/decisions", json=body).status_code == 201
    assert deliverer.deliver_due() == 2
    decided, appealed = sorted((json.loads(sent) for _, sent in receiver.messages), key=lambda one: one["type"])
    assert appealed["type"] == "appeal.submitted"
    assert appealed["data"]["appeal"] == appeal["id"]
    assert decided["type"] == "annotator.decided"
    assert decided["data"]["action"] == decided["data"]["standing"].replace("excluded", "exclude") == "exclude"
    assert decided["data"]["id"] == appealed["data"]["id"]
    sent = b"".join(body for _, body in receiver.messages)
    assert b"private" not in sent
    assert crowd[0].encode() not in sent


def test_merges_and_changes_of_models_are_announced(
    ask: Ask, subscribe: Ask, receiver: Receiver, deliverer: Deliverer
) -> None:
    subscribe("model.merged", "model.changed")
    for name in ("GPT4", "GPT-4"):
        ask("POST", "/models", json={"name": name})
    merged, changed = {"into": "GPT-4", "reason": "a private reason"}, {"at": "2026-01-31T00:00:00Z"}
    for act, body in (
        ("merge", merged),
        ("merge", merged),
        ("unmerge", {}),
        ("unmerge", {}),
        ("changed", changed),
        ("changed", changed),
        ("unchanged", changed),
        ("unchanged", changed),
    ):
        assert ask("POST", f"/models/GPT4/{act}", json=body).status_code == 200
    assert deliverer.deliver_due() == 4, "an act that changes nothing is none"
    sent = [json.loads(body) for _, body in receiver.messages]
    told = sorted(((one["type"], one["timestamp"], one["data"]) for one in sent), key=lambda one: one[:2])
    at = "2026-01-31T00:00:00+00:00"
    assert [(event, data) for event, _, data in told] == [
        ("model.changed", {"model": "GPT4", "at": at, "before": "GPT4 (before 2026-01-31)"}),
        ("model.changed", {"model": "GPT4", "at": at, "before": None}),
        ("model.merged", {"model": "GPT4", "into": "GPT-4"}),
        ("model.merged", {"model": "GPT4", "into": None}),
    ]


@pytest.mark.usefixtures("crowd")
def test_a_publication_is_told_of(
    refit: Ask, subscribe: Ask, receiver: Receiver, deliverer: Deliverer, ask: Ask
) -> None:
    hook = subscribe("snapshot.published", "annotators.flagged")
    done = refit()
    assert deliverer.deliver_due() == 2
    flagged, published = sorted((json.loads(body) for _, body in receiver.messages), key=lambda one: one["type"])
    assert (published["type"], published["data"]["snapshot"]) == ("snapshot.published", done["snapshot_id"])
    assert (flagged["type"], flagged["data"]["count"]) == ("annotators.flagged", 2)
    listed = {one["id"] for one in ask("GET", "/annotators?standing=flagged").json()["items"]}
    assert {one["id"] for one in flagged["data"]["annotators"]} == listed
    assert b"flip" not in b"".join(body for _, body in receiver.messages)  # no keys
    for number in range(2):
        receiver.check_signature(hook["secret"], number)
    refit()
    assert deliverer.deliver_due() == 1  # nobody is newly flagged
    deliveries = ask("GET", f"/webhooks/{hook['id']}/deliveries").json()["items"]
    assert [one["status"] for one in deliveries] == ["delivered"] * 3
    assert {one["detail"] for one in deliveries} == {"answered 200"}


@pytest.mark.usefixtures("crowd")
def test_messages_wait_while_a_webhook_is_paused(
    refit: Ask, subscribe: Ask, receiver: Receiver, deliverer: Deliverer, ask: Ask
) -> None:
    hook = subscribe("snapshot.published")
    paused = ask("POST", f"/webhooks/{hook['id']}/pause").json()
    assert paused["paused_at"] is not None
    assert ask("POST", f"/webhooks/{hook['id']}/pause").json() == paused, "again changes nothing"
    refit()
    assert (deliverer.deliver_due(), receiver.messages) == (0, [])
    assert ask("POST", f"/webhooks/{hook['id']}/resume").json()["paused_at"] is None
    assert (deliverer.deliver_due(), len(receiver.messages)) == (1, 1)
    entries = ask("GET", "/audit", params={"subject": hook["id"]}).json()["items"]
    assert [entry["action"] for entry in entries] == ["webhook.resume", "webhook.pause", "webhook.create"]


@pytest.mark.usefixtures("crowd")
def test_a_refit_that_waits_is_told_of(
    refit: Ask, change_policy: Ask, subscribe: Ask, receiver: Receiver, deliverer: Deliverer
) -> None:
    subscribe("refit.failed", "annotators.excluded")
    change_policy(on_low_ability="exclude", max_excluded_share=0.1)
    assert refit()["state"] == "needs_review"
    assert deliverer.deliver_due() == 1
    told = json.loads(receiver.messages[0][1])
    assert (told["type"], told["data"]["state"]) == ("refit.failed", "needs_review")
    refit(accept_exclusions=True)
    assert deliverer.deliver_due() == 1
    assert json.loads(receiver.messages[1][1])["data"]["count"] == 2


@pytest.mark.usefixtures("crowd")
def test_a_stale_board_is_told_of_once(
    database: Database, refit: Ask, vote: Ask, subscribe: Ask, receiver: Receiver, deliverer: Deliverer
) -> None:
    subscribe("board.stale")
    refit()

    def stale(seconds: float) -> bool:
        with database.begin() as conn:
            policy = current_policy(conn).settings.model_copy(update={"stale_after_seconds": seconds})
            return announce_stale_leaderboard(conn, policy)

    assert not stale(1e-6)  # nothing waits
    vote()
    assert not stale(3600)
    assert stale(1e-6)
    assert not stale(1e-6)
    assert deliverer.deliver_due() == 1
    assert json.loads(receiver.messages[0][1])["data"]["votes_not_in_board"] == 1


@pytest.mark.usefixtures("crowd")
def test_a_first_board_that_is_late_is_told_of_once(
    database: Database, subscribe: Ask, receiver: Receiver, deliverer: Deliverer
) -> None:
    subscribe("board.stale")

    def stale(**changes: float) -> bool:
        with database.begin() as conn:
            return announce_stale_leaderboard(conn, current_policy(conn).settings.model_copy(update=changes))

    assert not stale(stale_after_seconds=3600)
    assert not stale(stale_after_seconds=1e-6, min_votes=10_000)  # the schedule waits, too
    assert stale(stale_after_seconds=1e-6)
    assert not stale(stale_after_seconds=1e-6)
    assert deliverer.deliver_due() == 1
    told = json.loads(receiver.messages[0][1])["data"]
    assert (told["snapshot"], told["votes_not_in_board"]) == (None, 1680)


def test_it_is_sent_again_until_it_is_taken(
    ask: Ask, database: Database, subscribe: Ask, receiver: Receiver, deliverer: Deliverer
) -> None:
    receiver.statuses = [500, 302, 204]
    hook = subscribe("board.stale")
    message = ask("POST", f"/webhooks/{hook['id']}/test").json()["id"]
    for attempt, (status, detail) in enumerate([("waiting", "500"), ("waiting", "302"), ("delivered", "204")], 1):
        assert deliverer.deliver_due() == 1
        assert deliverer.deliver_due() == 0  # not due yet
        if status == "waiting":
            pause = FIRST_PAUSE_SECONDS * 4 ** (attempt - 1)
            assert 0 < (deliverer.next_in_seconds or 0) <= MOST_STRETCHED * pause
        else:
            assert deliverer.next_in_seconds is None
        (seen,) = ask("GET", f"/webhooks/{hook['id']}/deliveries").json()["items"]
        assert (seen["id"], seen["attempts"], seen["status"], seen["detail"]) == (
            message,
            attempt,
            status,
            f"answered {detail}",
        )
        assert (seen["next_attempt_at"] is None) == (seen["ended_at"] is not None) == (status == "delivered")
        due_now(database)
    assert deliverer.deliver_due() == 0
    assert len(receiver.messages) == 3  # the redirect was not followed
    assert len({headers["webhook-id"] for headers, _ in receiver.messages}) == 1
    assert receiver.messages[0][0]["host"] == receiver.url.split("/")[2]


def test_it_is_given_up(ask: Ask, database: Database, subscribe: Ask, receiver: Receiver, deliverer: Deliverer) -> None:
    hook = subscribe("board.stale")
    receiver.statuses = [410]
    ask("POST", f"/webhooks/{hook['id']}/test")
    assert deliverer.deliver_due() == 1
    due_now(database)
    assert deliverer.deliver_due() == 0
    ask("POST", f"/webhooks/{hook['id']}/test")
    with database.begin() as conn:
        conn.execute(
            text("UPDATE webhook_deliveries SET attempts = :n WHERE status = 'waiting'"), {"n": MAX_ATTEMPTS - 1}
        )
    receiver.statuses = [500]
    assert deliverer.deliver_due() == 1
    ended = ask("GET", f"/webhooks/{hook['id']}/deliveries").json()["items"]
    assert {(one["status"], one["next_attempt_at"]) for one in ended} == {("given_up", None)}


def test_nobody_there(ask: Ask, receiver: Receiver, deliverer: Deliverer) -> None:
    made = ask("POST", "/webhooks", json={"url": "http://127.0.0.1:1/", "events": ["board.stale"]}).json()
    ask("POST", f"/webhooks/{made['id']}/test")
    assert deliverer.deliver_due() == 1
    (seen,) = ask("GET", f"/webhooks/{made['id']}/deliveries").json()["items"]
    assert seen["status"] == "waiting"
    assert "ConnectError" in seen["detail"]


def test_a_deleted_webhook_is_told_nothing(
    ask: Ask, assert_problem: Ask, subscribe: Ask, receiver: Receiver, deliverer: Deliverer
) -> None:
    hook = subscribe("board.stale")
    assert ask("GET", "/webhooks").json()["items"] == [{k: v for k, v in hook.items() if k != "secret"}]
    ask("POST", f"/webhooks/{hook['id']}/test")
    assert ask("DELETE", f"/webhooks/{hook['id']}").status_code == 204
    assert deliverer.deliver_due() == 0
    assert receiver.messages == []
    assert ask("GET", "/webhooks").json()["items"] == []
    for method, path in (("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
        assert_problem(ask(method, f"/webhooks/{hook['id']}{path}"), 404, "not-found")
    assert [one["action"] for one in ask("GET", "/audit").json()["items"]] == ["webhook.delete", "webhook.create"]


@pytest.mark.parametrize(
    "body",
    [
        {"url": "nonsense", "events": ["board.stale"]},
        {"url": "https://example.org/", "events": []},
        {"url": "https://example.org/", "events": ["board.fresh"]},
        {"events": ["board.stale"]},
    ],
)
def test_what_is_no_webhook(ask: Ask, assert_problem: Ask, body: dict[str, Any]) -> None:
    assert_problem(ask("POST", "/webhooks", json=body), 422, "invalid")


def test_who_may(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", "/webhooks", scope=None), 401, "not-authenticated")
    assert_problem(ask("POST", "/webhooks", scope="review", json={}), 403, "scope-missing")


def test_one_that_breaks_does_not_keep_the_others_waiting(
    ask: Ask, receiver: Receiver, deliverer: Deliverer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo

    def break_once(host: Any, *args: Any, **rest: Any) -> Any:
        if host == "broken.example.org":
            raise UnicodeError("label empty or too long")
        return look_up(host, *args, **rest)

    hooks = [
        ask("POST", "/webhooks", json={"url": url, "events": ["board.stale"]}).json()["id"]
        for url in ("https://broken.example.org/", receiver.url)
    ]
    for hook in hooks:
        assert ask("POST", f"/webhooks/{hook}/test").status_code == 202
    monkeypatch.setattr(socket, "getaddrinfo", break_once)
    assert deliverer.deliver_due() == 2
    assert len(receiver.messages) == 1
    (waiting,) = ask("GET", f"/webhooks/{hooks[0]}/deliveries").json()["items"]
    assert (waiting["status"], waiting["detail"]) == ("waiting", "UnicodeError: label empty or too long")


@pytest.mark.parametrize(("attempts", "ahead", "tried"), [(0, 3600, 1), (3, 3600, 1), (3, 85, 0), (7, 20_400, 0)])
def test_a_message_does_not_wait_for_a_clock_that_was_ahead(
    ask: Ask, database: Database, subscribe: Ask, deliverer: Deliverer, attempts: int, ahead: int, tried: int
) -> None:
    """The pause after three attempts is 80 seconds and up to a tenth more, after seven 20,480 seconds."""
    hook = subscribe("board.stale")
    ask("POST", f"/webhooks/{hook['id']}/test")
    with database.begin() as conn:
        later = text("UPDATE webhook_deliveries SET attempts = :n, next_attempt_at = now() + make_interval(secs => :s)")
        conn.execute(later, {"n": attempts, "s": ahead})
    assert deliverer.deliver_due() == tried


def test_pauses_grow_to_a_day() -> None:
    pauses = [pause_after(n) for n in range(1, MAX_ATTEMPTS)]
    for n, pause in enumerate(pauses):
        assert min(5 * 4**n, 86_400) <= pause <= 1.1 * min(5 * 4**n, 86_400)


def test_an_attempt_that_lost_its_claim_gives_nothing_up(
    ask: Ask,
    subscribe: Ask,
    receiver: Receiver,
    deliverer: Deliverer,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process claims the message while the first is frozen, and its attempt is the one that counts."""
    really = delivery.attempt_delivery

    async def freeze(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(delivery, "attempt_delivery", really)
        due_now(database)
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(Deliverer(database, allow_private=True).deliver_due).result() == 1
        return await really(*arguments, **options)

    hook = subscribe("board.stale")
    ask("POST", f"/webhooks/{hook['id']}/test")
    receiver.statuses = [503, 410]
    monkeypatch.setattr(delivery, "attempt_delivery", freeze)
    assert deliverer.deliver_due() == 1
    found = ask("GET", f"/webhooks/{hook['id']}/deliveries").json()["items"][0]
    assert (found["status"], found["attempts"], found["detail"]) == ("waiting", 2, "answered 503")
    due_now(database)
    assert deliverer.deliver_due() == 1
    assert ask("GET", f"/webhooks/{hook['id']}/deliveries").json()["items"][0]["status"] == "delivered"
