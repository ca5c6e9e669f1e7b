from collections.abc import Callable

from sqlalchemy import text

from app.database.engine import Database
from app.refits.load import load_past_fit_input
from app.refits.schemas import Refit
from app.snapshots.schemas import Snapshot
from app.snapshots.service import find_snapshot

EACH = 120
SEAL = "UPDATE votes SET sealed_battle_id = gen_random_uuid()"


def test_a_snapshot_counts_sealed_votes_and_may_use_them_alone(
    database: Database, stored_crowd: None, run_refit: Callable[..., Refit], store_policy: Callable[..., None]
) -> None:
    def refit() -> tuple[Snapshot, dict[str, int]]:
        assert run_refit().state == "done"
        with database.read() as conn:
            snapshot = find_snapshot(conn)
        account = dict(snapshot.diagnostics["votes"])
        assert sum(account.values()) == 2 * account["read"] == 2 * 14 * EACH, "the reasons add up"
        return snapshot, account

    first, account = refit()
    assert (first.votes_sealed, account["used"], account["unsealed"]) == (0, 14 * EACH, 0)
    with database.begin() as conn:
        conn.execute(text(f"{SEAL} WHERE annotator_id <= 8"))
        conn.execute(text(f"{SEAL} WHERE id IN (SELECT id FROM votes WHERE annotator_id = 9 LIMIT 30)"))
    both, account = refit()
    assert (both.votes_sealed, account["used"], account["unsealed"]) == (8 * EACH + 30, 14 * EACH, 0)
    assert both.votes_hash == first.votes_hash
    store_policy(sealed_only=True)
    alone, account = refit()
    assert (alone.votes_sealed, account["used"], account["pending"]) == (8 * EACH, 8 * EACH, 30)
    assert account["unsealed"] == 6 * EACH - 30
    store_policy(sealed_only=True, max_votes_per_day=EACH - 20)
    _, account = refit()
    assert (account["used"], account["over_quota"]) == (8 * (EACH - 20), 8 * 20), "unsealed votes use up no quota"
    store_policy()
    with database.read() as conn:
        again = load_past_fit_input(conn, alone)
    assert (len(again.outcome), again.unsealed) == (8 * EACH + 30, 6 * EACH - 30), "by the policy of then"
