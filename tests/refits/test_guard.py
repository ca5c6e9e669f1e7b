"""Fits that an admin should look at before they are published, and rules that suddenly flag many annotators."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import insert, text
from structlog.testing import capture_logs

from app.database.engine import Database
from app.database.ids import new_id
from app.database.tables import webhooks
from app.refits.guard import RuleAlarm, find_alarms, judge_rules
from app.refits.schemas import Refit
from app.snapshots.service import find_snapshot


def rules(**votes: int) -> dict[str, dict[str, int]]:
    return {rule: {"annotators": 3, "votes": count} for rule, count in votes.items()}


@pytest.mark.parametrize(
    ("share", "past", "jumped"),
    [
        (60, [0.0, 0.0, 0.0], True),  # 6 % where there was nothing
        (50, [0.0, 0.0, 0.0], False),  # five points are not more than five points
        (149, [0.05, 0.05, 0.05], False),  # less than three times the usual
        (151, [0.05, 0.05, 0.05], True),
        (400, [0.2, 0.2, 0.2], False),
        (100, [0.1, 0.1, 0.0], False),  # one odd snapshot does not make the usual
        (100, [0.0, 0.0, 0.1], True),
        (900, [], False),  # nothing is unusual yet
    ],
)
def test_a_jump_is_three_times_and_five_points_above_the_usual(share: int, past: list[float], jumped: bool) -> None:
    found = judge_rules(rules(ability=share), 1000, [{"ability": each} for each in past])
    assert [alarm.rule for alarm in found] == (["ability"] if jumped else [])


def test_a_rule_that_is_new_is_held_against_nothing_and_the_worst_comes_first() -> None:
    found = judge_rules(rules(ability=100, copies=200, sides=10), 1000, [{"ability": 0.1}, {"ability": 0.0}, {}])
    assert [(alarm.rule, alarm.share, alarm.usual) for alarm in found] == [("copies", 0.2, 0.0), ("ability", 0.1, 0.0)]


def test_a_fit_is_compared_with_past_snapshots(
    database: Database, stored_crowd: None, run_refit: Callable[..., Refit]
) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(text("""UPDATE snapshots SET diagnostics = diagnostics - 'rules'"""))
        assert find_alarms(conn, rules(ability=200), 1680) == []  # earlier versions did not store the rules
        quiet = json.dumps({"rules": rules(ability=10)})
        conn.execute(text("UPDATE snapshots SET diagnostics = diagnostics || CAST(:d AS jsonb)"), {"d": quiet})
        with capture_logs() as logs:
            alarms = find_alarms(conn, rules(ability=200), 1680)
    assert [entry["rule"] for entry in logs if entry["event"] == "rule_jumped"] == ["ability"]
    assert alarms == [RuleAlarm("ability", 3, 200, 200 / 1680, 10 / 1680)]


def test_a_refit_tells_of_a_rule_that_jumped(
    database: Database, stored_crowd: None, run_refit: Callable[..., Refit], store_policy: Callable[..., None]
) -> None:
    """Nobody is marked, then two of fourteen are: 14 % of the votes."""
    store_policy(flag_rule="threshold", min_ability=-9)
    run_refit()
    with database.begin() as conn:
        hook = {"id": new_id(), "url": "https://a.example", "events": ["rule.jumped"], "secret": "s", "created_by": "t"}
        conn.execute(insert(webhooks), hook)
    store_policy(flag_rule="threshold")
    run_refit()
    with database.read() as conn:
        message = json.loads(conn.execute(text("SELECT payload FROM webhook_deliveries")).scalar_one())
        told = message["data"]["rules"]
        assert find_snapshot(conn, "1").diagnostics["alarms"] == []
        assert find_snapshot(conn, "2").diagnostics["alarms"] == told
    assert (message["type"], message["data"]["number"]) == ("rule.jumped", 2)
    assert [(rule["rule"], rule["annotators"], rule["votes"]) for rule in told] == [("ability", 2, 240)]
