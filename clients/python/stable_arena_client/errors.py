from typing import Any

import httpx


class ArenaError(Exception):
    """A request that did not succeed."""


class ArenaUnreachableError(ArenaError):
    """The service gave no answer, after every attempt."""


class ProblemError(ArenaError):
    """The service refused the request, or failed.

    Attributes
    ----------
    status : HTTP status
    code : what went wrong, such as `vote-conflict`; docs/reference.md lists the codes
    detail : the same in words
    errors : the faulty places of the request, each with `pointer` and `detail`
    request_id : names the request in the service's log
    body : the whole problem, with what it has beside, such as the `id` of the vote on record
    """

    def __init__(self, response: httpx.Response) -> None:
        try:
            body = response.json()
        except ValueError:
            body = {}  # a proxy's own error page
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}
        self.status = response.status_code
        self.code = str(self.body.get("type", "")).rpartition("/")[2] or f"http-{self.status}"
        self.detail = str(self.body.get("detail") or response.reason_phrase)
        self.errors: list[dict[str, Any]] = self.body.get("errors") or []
        self.request_id: str | None = self.body.get("request_id")
        super().__init__(f"{self.status} {self.code}: {self.detail}")
