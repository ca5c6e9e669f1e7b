from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from tests.fixtures.environment import Configure

RunCli = Callable[..., Any]


@pytest.mark.usefixtures("on_database")
def test_raw_keys_are_replaced_once(run_cli: RunCli, database: Database, configure: Configure) -> None:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO annotators (key, public_id) VALUES ('ann', gen_random_uuid())"))
    refused = run_cli("annotators", "pseudonymise")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "STABLE_ARENA_PSEUDONYM_KEY is not set" in refused.stderr

    configure(PSEUDONYM_KEY="a secret of at least 32 characters")
    assert run_cli("annotators", "pseudonymise").stdout == "Replaced 1 raw key by pseudonyms.\n"
    assert run_cli("annotators", "pseudonymise").stdout == "Replaced 0 raw keys by pseudonyms.\n"
    assert "ann" not in run_cli("annotators", "--format", "csv").stdout.replace("annotator", "")
    with database.read() as conn:
        assert conn.execute(text("SELECT key FROM annotators")).scalar_one().startswith("p1_")

    decided = run_cli("annotators", "decide", "ann", "trust", "--reason", "a test")
    assert decided.exit_code == 0, decided.stderr
    assert decided.stdout.startswith("p1_")
