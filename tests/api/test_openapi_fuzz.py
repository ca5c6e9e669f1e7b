"""The service against its own description: whatever fits it, and whatever does not, never breaks the service."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import requests
import schemathesis
from httpx import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

Ask = Callable[..., Any]

# A batch answers 200 and says of each vote what is wrong with it.
JUDGED_ONE_BY_ONE = {("POST", "/api/v1/votes/batch")}


class _TimeIsUpError(Exception):
    """Ends the generation of examples: drawing more that are not sent takes as long."""


@dataclass
class Attack:
    """What came back: how often each status, and what the description did not foresee."""

    statuses: Counter[int] = field(default_factory=Counter)
    unforeseen: list[str] = field(default_factory=list)


def checks_for(operation: APIOperation) -> list[Any]:
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    if (operation.method.upper(), operation.path) not in JUDGED_ONE_BY_ONE:
        checks.append(negative_data_rejection)
    return checks


def attack(url: str, key: str, *, seconds: float) -> Attack:
    """Send every operation first invalid, then valid data, each for its share of the time."""
    load_all_checks()
    description = requests.get(f"{url}/api/v1/openapi.json", timeout=120).json()
    schema = schemathesis.openapi.from_dict(_without_streams(_without_security(description)))
    operations = [result.ok() for result in schema.get_all_operations()]
    turns = [
        (operation, mode) for mode in (GenerationMode.NEGATIVE, GenerationMode.POSITIVE) for operation in operations
    ]
    result = Attack()
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {key}"
        for operation, mode in turns:
            ends = time.monotonic() + seconds / len(turns)
            with suppress(Unsatisfiable):  # what takes no input cannot be sent a wrong one
                try:
                    _send_many(operation, mode, partial(_send, url, session), result, ends)
                except FailureGroup as failures:
                    result.unforeseen += [f"{operation.label}: {failure}" for failure in failures.exceptions]
    return result


def _send_many(
    operation: APIOperation, mode: GenerationMode, send: Callable[[Case], Any], result: Attack, ends: float
) -> None:
    @settings(
        max_examples=1_000,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Case) -> None:
        if time.monotonic() > ends:
            raise _TimeIsUpError
        answer = send(case)
        result.statuses[answer.status_code] += 1
        case.validate_response(answer, checks=checks_for(operation))

    with suppress(_TimeIsUpError):
        one()


def _send(url: str, session: requests.Session, case: Case) -> Any:
    return case.call(base_url=url, session=session, timeout=120)


def _without_security(description: Any) -> Any:
    """Leave the key out of what is made up: who gets in is tested elsewhere, and 401 tells nothing about bodies."""
    for methods in description["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
    return description


def _without_streams(description: Any) -> Any:
    """Leave out the answers that do not end."""
    for methods in description["paths"].values():
        for method, operation in list(methods.items()):
            if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
                del methods[method]
    return description


@pytest.fixture
def busy(crowd: list[str], client: Client, keys: dict[str, str], refit: Ask) -> tuple[str, str]:
    """Address of a service with a board, votes and a flagged annotator, and a key that may do everything."""
    assert refit()["state"] == "done"
    return str(client.base_url).rstrip("/"), keys["admin"]


@pytest.mark.campaign
def test_nothing_breaks_the_service(busy: tuple[str, str]) -> None:
    found = attack(*busy, seconds=8)
    assert not found.unforeseen, "\n\n".join(found.unforeseen)
    assert max(found.statuses) < 500
    assert {200, 422} <= found.statuses.keys()


@pytest.mark.soak
def test_nothing_breaks_the_service_for_long(busy: tuple[str, str]) -> None:
    found = attack(*busy, seconds=900)
    print(dict(found.statuses))
    assert not found.unforeseen, "\n\n".join(found.unforeseen)
    assert max(found.statuses) < 500
