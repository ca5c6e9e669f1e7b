import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    # Not pytest's tmp_path: root's is closed to the user that PostgreSQL runs as.
    path = Path(tempfile.mkdtemp(prefix="embedded-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)
