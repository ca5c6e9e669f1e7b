import math
import random
from dataclasses import dataclass
from typing import Final

import httpx

_AGAIN: Final = frozenset({429, 502, 503, 504})
_IN_FLIGHT = 409


@dataclass(frozen=True)
class Retries:
    """When a request is sent again.

    After 429, 502, 503, 504, a broken connection, and 409 where the first attempt is still under way. The wait is what
    the answer's `Retry-After` says, or doubles from `first_wait`, with chance so that clients do not come back at once.

    Attributes
    ----------
    attempts : how often a request is sent at most
    first_wait, longest_wait : seconds; an answer that asks for a longer wait is not waited for
    """

    attempts: int = 5
    first_wait: float = 0.2
    longest_wait: float = 60.0

    def wait_after(self, response: httpx.Response, attempt: int) -> float | None:
        """Return how many seconds to wait after the answer to an attempt, from 1; None if it is final."""
        in_flight = response.status_code == _IN_FLIGHT and b"idempotency-in-flight" in response.content
        if attempt >= self.attempts or not (response.status_code in _AGAIN or in_flight):
            return None
        try:
            asked = float(response.headers.get("Retry-After", ""))
        except ValueError:
            return self._grown(attempt)
        return asked if 0 <= asked <= self.longest_wait else None

    def wait_after_break(self, attempt: int) -> float | None:
        """Return how many seconds to wait after an attempt without an answer; None if it was the last."""
        return None if attempt >= self.attempts else self._grown(attempt)

    def _grown(self, attempt: int) -> float:
        grown = min(self.longest_wait, self.first_wait * math.pow(2, attempt - 1))
        return grown * random.uniform(0.5, 1)  # noqa: S311  not a secret


NO_RETRIES = Retries(attempts=1)
