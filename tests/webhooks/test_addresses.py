"""Where messages may go: to public addresses."""

import socket
from typing import Any

import pytest

from app.errors import BadInputError
from app.webhooks.addresses import ForbiddenAddressError, resolve
from tests.fixtures.errors import naming


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/latest", "https://[::1]/", "https://0/",
        "https://[::ffff:10.0.0.1]/", "https://localhost/", "https://db.internal/", "http://example.org/",
        "ftp://example.org/", "https://", "https://u:p@example.org/", "https://example.org/#x", "https://exa mple.org/",
        "https://example.org:99999/", "https://[::1", "https://224.0.0.1/", "https://2130706433/", "nonsense",
        "https://[64:ff9b::a00:1]/", "https://[::7f00:1]/", "https://[fec0::1]/", "https://[64:ff9b:1::808:808]/",
        "https://[::ffff:0:127.0.0.1]/", "https://[::ffff:0:8.8.8.8]/", "https://[2002:7f00:1::]/", "https://[fc00::1]/",
        "https://[2001:0:808:808::f7f7:f7f7]/", "https://[5f00::1]/", "https://[ff0e::1]/", "https://[fe80::1]/",
        "https://a..b/", "https://.example.org/",
        f"https://{'a' * 64}.example.org/", f"https://{'a.' * 127}org/",
    ],
)  # fmt: skip
def test_where_messages_must_not_go(url: str) -> None:
    with pytest.raises((BadInputError, OSError)):
        resolve(url, allow_private=False)


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "[2001:4860:4860::8888]", "[64:ff9b::808:808]", "[::ffff:8.8.8.8]", "[2002:808:808::1]"]
)
def test_where_messages_may_go(host: str) -> None:
    assert resolve(f"https://{host}/", allow_private=False).url == f"https://{host}:443/"


def test_a_name_that_leads_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object, **__: object) -> list[Any]:
        return [(2, 1, 6, "", ("8.8.8.8", 443)), (2, 1, 6, "", ("192.168.0.9", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ForbiddenAddressError, check=naming("192.168.0.9", "ALLOW_PRIVATE_ADDRESSES=true")):
        resolve("https://rebind.example.org/", allow_private=False)
    target = resolve("https://rebind.example.org:8443/a?b=1", allow_private=True)
    assert (target.url, target.host_header) == ("https://8.8.8.8:8443/a?b=1", "rebind.example.org:8443")
