import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.database.embedded import cluster
from app.database.embedded.account import choose_account


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    # Not pytest's tmp_path: root's is closed to the user that PostgreSQL runs as.
    path = Path(tempfile.mkdtemp(prefix="embedded-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def programs_in_reach(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's programs where the server's user can run them, also from a clone in root's home."""
    account, installed = choose_account(place / "no home yet"), cluster.installed_programs()
    if not account.can("x", installed / "postgres"):
        copied = cluster.copy_programs(place / "programs")
        monkeypatch.setattr(cluster, "installed_programs", lambda: copied)
