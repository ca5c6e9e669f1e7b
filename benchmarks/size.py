"""How large a benchmark is: as it is meant, or small, to show within seconds that it still runs.

`SMALL=1 python -m benchmarks.ingest` says nothing about speed. The tests run each benchmark so.
"""

import os
from typing import TypeVar

T = TypeVar("T")

SMALL = os.environ.get("SMALL") == "1"


def sized(meant: T, small: T) -> T:
    """Return the value for the size that is asked for."""
    return small if SMALL else meant
