"""Raw keys in the database, the log and the answers: none with pseudonyms, none after an erasure."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from httpx import Client
from pydantic import SecretStr
from sqlalchemy import text

from app.database.engine import Database
from app.exports import runner as exports_runner
from app.exports.runner import ExportRunner
from app.imports.runner import ImportRunner
from app.refits.runner import RefitRunner
from app.settings import Settings
from tests.fixtures.application import Assemble

Ask = Callable[..., Any]
Private = Callable[..., Any]

RAW = "mabel.marker@example.org"
SECRET = SecretStr("a secret of at least 32 characters")
VOTE = {"model_a": "ant", "model_b": "bee", "winner": "model_a", "annotator": RAW, "battle_id": "battle"}
WHY = {"reason": "asked for by mail"}


def holders(database: Database, needle: str = RAW) -> list[str]:
    """Return the tables with a row that holds the text, in whatever column and of whatever type."""
    with database.read() as conn:
        tables = conn.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all()
        found = []
        for table in tables:
            rows = conn.execute(text(f"SELECT t::text FROM {table} AS t")).scalars()
            if any(needle in row or needle.encode().hex() in row for row in rows):
                found.append(table)
    return sorted(found)


@pytest.fixture
def private(settings: Settings, serving: Callable[..., Any], assemble: Assemble, keys: dict[str, str]) -> Private:
    """Serve with a pseudonym secret (others by version before it); a context manager that yields how to ask."""

    @contextmanager
    def serve(
        version: int = 1, previous: dict[int, SecretStr] | None = None, secret: SecretStr = SECRET
    ) -> Iterator[Ask]:
        changes = {"pseudonym_key": secret, "pseudonym_key_version": version, "pseudonym_previous_keys": previous or {}}
        app = assemble(settings.model_copy(update=changes))
        headers = {"Authorization": f"Bearer {keys['admin']}"}
        with serving(app) as url, Client(base_url=f"{url}/api/v1", headers=headers, timeout=120) as client:
            yield client.request

    return serve


def test_raw_keys_appear_nowhere(
    private: Private, database: Database, capfd: pytest.CaptureFixture[str], assert_problem: Ask
) -> None:
    answers = []
    with private() as ask:
        headers = {"Idempotency-Key": '"one"'}
        answers += [ask("POST", "/votes", json={**VOTE, "metadata": {"turn": 1}}, headers=headers) for _ in range(2)]
        answers += [
            ask("POST", "/votes", json=change) for change in (VOTE, {**VOTE, "winner": "tie"}, {**VOTE, "x": 1})
        ]
        batch = {"votes": [VOTE, {**VOTE, "winner": "?"}, {**VOTE, "annotator": [RAW]}, {**VOTE, "battle_id": None}]}
        answers.append(ask("POST", "/votes/batch", json=batch))
        assert [response.status_code for response in answers] == [201, 201, 200, 409, 422, 200]
        assert len({answers[i].json()["id"] for i in (0, 1, 2, 3)}) == 1
        (listed,) = ask("GET", "/annotators").json()["items"]
        assert listed["annotator"].startswith("p1_")
        for reference in (RAW, listed["annotator"], listed["id"]):
            found = ask("GET", f"/annotators/{reference}")
            assert (found.status_code, found.json()["id"]) == (200, listed["id"])
            decision = {"action": "trust", "reason": "a test"}
            answers += [found, ask("POST", f"/annotators/{reference}/decisions", json=decision)]
            assert answers[-1].status_code == 201
        answers.append(ask("GET", "/annotators", params={"annotator": RAW}))
        assert [one["id"] for one in answers[-1].json()["items"]] == [listed["id"]]
        retraction = {"target": "annotator", "id": RAW, "reason": "a test"}
        answers += [ask("POST", "/retractions", json=retraction), ask("GET", "/retractions")]
        assert answers[-2].json()["votes"] == 2
        for path in (f"/annotators/{RAW}x/history", f"/annotators/{RAW}/no/such", f"/annotators/{RAW}/decisions"):
            answers.append(ask("GET", path))
            assert answers[-1].status_code in (404, 405)
            assert answers[-1].json()["instance"].startswith("/api/v1/annotators/-")
    assert holders(database) == []
    assert [response.text for response in answers if RAW in response.text] == []
    log = capfd.readouterr()
    assert "/annotators/-" in log.err
    assert RAW not in log.out + log.err
    assert SECRET.get_secret_value() not in log.out + log.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (f"{RAW},ant,bee,model_a\nother,ant,bee,model_b\n", "found: model_a, 3 unknown"),
        (f"{RAW},{RAW},bee,model_a\n", "line 1: repeated columns 1 unknown"),
    ],
)
def test_a_file_without_a_header_names_nobody(
    private: Private, database: Database, capfd: pytest.CaptureFixture[str], content: str, told: str
) -> None:
    with private() as ask:
        sent = ask("POST", "/imports", params={"filename": "votes.csv"}, content=content)
        assert sent.status_code == 202, sent.text
        ImportRunner(database, lease_seconds=30).run_next()
        found = ask("GET", f"/imports/{sent.json()['id']}").json()
    assert (found["state"], told in found["detail"]) == ("failed", True), found
    assert holders(database) == []
    assert RAW not in capfd.readouterr().err


def test_a_pseudonym_is_not_a_key_to_vote_by(private: Private, database: Database) -> None:
    with private() as ask:
        ask("POST", "/votes", json=VOTE)
        shown = ask("GET", f"/annotators/{RAW}").json()["annotator"]
        assert ask("POST", "/votes", json={**VOTE, "annotator": shown}).json()["status"] == "created"
        assert len(ask("GET", "/annotators").json()["items"]) == 2


def test_a_new_secret_recognises_whom_the_old_one_named(private: Private) -> None:
    with private() as ask:
        first = ask("POST", "/votes", json=VOTE).json()["id"]
    other = SecretStr("another secret of at least 32 characters")
    with private(version=2, previous={1: SECRET}, secret=other) as ask:
        assert ask("POST", "/votes", json=VOTE).json() == {"id": first, "status": "duplicate"}
        ask("POST", "/votes", json={**VOTE, "annotator": "new"})
        assert ask("GET", f"/annotators/{RAW}").json()["annotator"].startswith("p1_")
        assert ask("GET", "/annotators/new").json()["annotator"].startswith("p2_")
    with private(version=2, secret=other) as ask:
        assert ask("POST", "/votes", json=VOTE).json()["status"] == "created", "without the old secret a stranger"


def test_raw_keys_on_record_stop_new_annotators(
    private: Private, ask: Ask, database: Database, assert_problem: Ask
) -> None:
    ask("POST", "/votes", json=VOTE)
    with private() as ask_private:
        problem = assert_problem(
            ask_private("POST", "/votes", json={**VOTE, "annotator": "new"}), 503, "raw-keys-stored"
        )
        assert "stable-arena annotators pseudonymise" in problem["detail"]
        batch = ask_private("POST", "/votes/batch", json={"votes": [VOTE]})
        assert_problem(batch, 503, "raw-keys-stored")
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == 1


@pytest.fixture
def erase(ask: Ask) -> Ask:
    """Erase an annotator and return what is answered."""

    def send(annotator: str) -> Any:
        response = ask("POST", f"/annotators/{annotator}/erase", json=WHY)
        assert response.status_code == 200, response.text
        return response.json()

    return send


def keep_copies(database: Database, key: str) -> None:
    """Put the key wherever else the service may have kept it."""
    with database.begin() as conn:
        number = conn.execute(text("SELECT id FROM annotators WHERE key = :key"), {"key": key}).scalar_one()
        values = {"key": key, "id": uuid4(), "number": number, "file": key.encode()}
        for statement in (
            """INSERT INTO imports (id, state, file_name, sha256, counts, requested_by)
               VALUES (:id, 'done', 'f.csv', '', '{}', 'k')""",
            "UPDATE imports SET detail = 'repeated columns ' || :key",
            "INSERT INTO import_faults VALUES (:id, 1, 'line 2', 'invalid', 'unknown outcome ' || :key)",
            """INSERT INTO exports (id, state, what, format, requested_by, bytes)
               VALUES (:id, 'done', 'votes', 'csv', 'k', 3)""",
            "INSERT INTO file_chunks VALUES (:id, 0, :file)",
            "INSERT INTO appeals (id, annotator_id, note, submitted_by) VALUES (:id, :number, 'I, ' || :key, 'k')",
            """INSERT INTO ingest_tokens (id, api_key_id, prefix, secret_hash, annotator, expires_at)
               SELECT :id, id, 'p', '', :key, now() FROM api_keys LIMIT 1""",
            "INSERT INTO webhooks (id, url, events, secret, created_by) VALUES (:id, 'u', '{}', 's', 'k')",
            """INSERT INTO webhook_deliveries (id, webhook_id, event, payload)
               VALUES (:id, :id, 'e', json_build_object('annotator', CAST(:key AS text))::text)""",
        ):
            conn.execute(text(statement), values)


def test_erased_is_gone_from_everywhere(
    ask: Ask, database: Database, erase: Ask, capfd: pytest.CaptureFixture[str]
) -> None:
    metadata = {"mail": RAW, "nested": [{"who": RAW}]}
    vote_id = ask("POST", "/votes", json={**VOTE, "metadata": metadata}).json()["id"]
    ask("POST", "/votes/batch", json={"votes": [{**VOTE, "battle_id": None, "metadata": metadata}]})
    other = ask("POST", "/votes", json={**VOTE, "annotator": "other", "metadata": {"turn": 1}}).json()["id"]
    keep_copies(database, RAW)
    assert holders(database) == [
        "annotators",
        "appeals",
        "file_chunks",
        "import_faults",
        "imports",
        "ingest_tokens",
        "votes",
        "webhook_deliveries",
    ]
    erased = erase(RAW)
    assert holders(database) == []
    log = capfd.readouterr()
    assert "annotator_erased" in log.err
    assert RAW not in log.out + log.err
    vote = ask("GET", f"/votes/{vote_id}").json()
    assert (vote["annotator"], vote["annotator_id"], vote["metadata"]) == (erased["annotator"], erased["id"], None)
    assert ask("GET", f"/votes/{other}").json()["metadata"] == {"turn": 1}
    assert erased["annotator"].startswith("erased_")
    assert holders(database, erased["annotator"]) == ["annotators", "webhook_deliveries"]
    with database.read() as conn:
        assert conn.execute(text("SELECT state FROM exports")).scalar_one() == "failed"
    entry = ask("GET", "/audit").json()["items"][0]
    assert (entry["action"], entry["subject"], entry["detail"]) == ("annotator.erase", erased["id"], WHY)


def test_who_comes_back_is_new(ask: Ask, erase: Ask) -> None:
    first = ask("POST", "/votes", json=VOTE).json()["id"]
    ask("POST", "/votes", json=VOTE)  # so that the process has the name in mind
    erased = erase(RAW)
    again = ask("POST", "/votes", json=VOTE)
    assert (again.status_code, again.json()["id"] != first) == (201, True)
    assert ask("GET", f"/annotators/{RAW}").json()["id"] != erased["id"]


def test_done_again_it_clears_what_came_in_meanwhile(ask: Ask, database: Database, erase: Ask) -> None:
    ask("POST", "/votes", json=VOTE)
    first = erase(RAW)
    with database.begin() as conn:
        conn.execute(text("""UPDATE votes SET metadata = '{"late": 1}'"""))
    assert erase(first["id"]) == first
    assert erase(first["annotator"]) == first
    with database.read() as conn:
        assert conn.execute(text("SELECT metadata FROM votes")).scalar_one() is None


def test_scores_are_the_same_to_the_last_digit(ask: Ask, crowd: list[str], refit: Ask, erase: Ask) -> None:
    ask("POST", f"/annotators/{crowd[1]}/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    before = ask("GET", "/leaderboard").json()
    people = ask("GET", "/annotators?limit=100").json()["items"]
    for key in (crowd[0], crowd[1], crowd[-1]):
        erase(key)
    assert {**ask("GET", "/leaderboard").json(), "age_seconds": before["age_seconds"]} == before
    refit()
    after = ask("GET", "/leaderboard").json()
    assert after["models"] == before["models"]
    assert after["snapshot"]["votes_hash"] == before["snapshot"]["votes_hash"]
    nameless = [{**one, "annotator": None} for one in ask("GET", "/annotators?limit=100").json()["items"]]
    assert nameless == [{**one, "annotator": None} for one in people], "abilities and standings stay"


def test_a_refit_clears_the_metadata_of_stragglers(
    ask: Ask, crowd: list[str], database: Database, erase: Ask, refit: Ask, runner: RefitRunner
) -> None:
    erase(crowd[0])
    with database.begin() as conn:
        straggler = """UPDATE votes SET metadata = '{"late": 1}' WHERE id = (SELECT v.id FROM votes AS v
                       JOIN annotators AS a ON a.id = v.annotator_id WHERE a.erased_at IS NOT NULL LIMIT 1)"""
        assert conn.execute(text(straggler)).rowcount == 1
    refit()
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes WHERE metadata IS NOT NULL")).scalar_one() == 0


def test_exports_from_before_are_withdrawn(
    ask: Ask, database: Database, erase: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = ExportRunner(database, lease_seconds=30, keep_days=7)

    def export() -> str:
        asked = ask("POST", "/exports", json={"what": "votes", "format": "csv"}).json()["id"]
        runner.run_next()
        return f"/exports/{asked}/file"

    ask("POST", "/votes", json=VOTE)
    before = export()
    assert RAW in ask("GET", before).text
    write = exports_runner.write_export

    def erase_meanwhile(*arguments: Any) -> Any:
        done = write(*arguments)
        erase(RAW)
        return done

    with monkeypatch.context() as slow:
        slow.setattr(exports_runner, "write_export", erase_meanwhile)
        meanwhile = export()
    for path in (before, meanwhile):
        assert RAW not in ask("GET", path).text
        assert ask("GET", path.removesuffix("/file")).json()["state"] == "failed"
    assert holders(database) == []
    after = ask("GET", export()).text
    assert "erased_" in after
    assert RAW not in after


def test_with_pseudonyms_too(private: Private, database: Database) -> None:
    with private() as ask:
        ask("POST", "/votes", json={**VOTE, "metadata": {"mail": RAW}})
        pseudonym = ask("GET", f"/annotators/{RAW}").json()["annotator"]
        for reference in (RAW, pseudonym):
            for reason in (f"asked for by {reference}.", f"({reference}) asked", reference):
                answer = ask("POST", f"/annotators/{reference}/erase", json={"reason": reason})
                assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/reason")
        assert ask("POST", f"/annotators/{RAW}/erase", json=WHY).status_code == 200
        assert ask("GET", f"/annotators/{RAW}").status_code == 404
    assert holders(database) == holders(database, pseudonym) == []


def test_what_is_refused(ask: Ask, database: Database, assert_problem: Ask) -> None:
    ask("POST", "/votes", json=VOTE)
    path = f"/annotators/{RAW}/erase"
    for body in ({}, {"reason": " "}, {**WHY, "more": 1}, {"reason": f"{RAW} asked"}):
        assert_problem(ask("POST", path, json=body), 422, "invalid")
    for unknown in ("nobody", str(uuid4()), "nul%00"):
        assert_problem(ask("POST", f"/annotators/{unknown}/erase", json=WHY), 404, "not-found")
    assert_problem(ask("POST", path, json=WHY, scope=None), 401, "not-authenticated")
    for scope in ("ingest", "read", "review"):
        assert_problem(ask("POST", path, json=WHY, scope=scope), 403, "scope-missing")
    assert holders(database) == ["annotators"]
