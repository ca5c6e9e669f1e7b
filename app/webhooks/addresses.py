"""Addresses that messages may go to: a webhook must not reach into the network that the service runs in."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.errors import BadInputError, FieldError

# What can be looked up: labels of 1 to 63 characters, 253 in all (RFC 1035); a dot may end it.
_HOST = re.compile(r"(?=.{1,253}\.?$)(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
_REMEDY = (
    "webhooks go to public addresses by https; in a closed network, "
    "STABLE_ARENA_WEBHOOKS__ALLOW_PRIVATE_ADDRESSES=true allows private ones"
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # all that IANA gives out


class ForbiddenAddressError(BadInputError):
    """The URL leads to an address that is not public."""

    code = "forbidden-address"
    title = "Webhooks may only go to public addresses"


@dataclass(frozen=True)
class Target:
    """What one attempt connects to: the address that was checked, even if the name resolves to another one by now."""

    host: str
    address: str
    port: int
    scheme: str
    path: str

    @property
    def url(self) -> str:
        """The URL with the address in the host's place."""
        shown = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{shown}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        """The Host header: the name, and the port if it is not the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def check_url(url: str, *, allow_private: bool) -> None:
    """Refuse a URL that messages can never go to. Nothing is looked up.

    Raises BadInputError: it is no http or https URL, has a user in it, or is plain http where only public addresses are
    allowed.
    Raises ForbiddenAddressError: it names a private address outright.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _refused(str(error)) from None
    if parts.scheme not in ("http", "https") or not host:
        raise _refused("must be an http or https URL")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _refused("must have neither a user nor a fragment")
    if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        raise _refused("must be ASCII, percent-encoded where it is not")
    if ":" not in host and not _HOST.fullmatch(host):
        raise _refused("has a host that is not a valid name")
    if allow_private:
        return
    if parts.scheme != "https":
        raise _refused("must be https")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
            raise _forbidden(f"{host} is not public") from None
        return
    _require_public(str(address))


def resolve(url: str, *, allow_private: bool) -> Target:
    """Look up the host and choose the address to connect to; all its addresses must be public.

    Raises BadInputError or ForbiddenAddressError.
    Raises OSError: the name has no address.
    """
    check_url(url, allow_private=allow_private)
    parts = urlsplit(url)
    assert parts.hostname is not None  # noqa: S101  checked
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    addresses = [str(info[4][0]).partition("%")[0] for info in found]
    if not allow_private:
        for address in addresses:
            _require_public(address)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.hostname, addresses[0], port, parts.scheme, path)


def _require_public(address: str) -> None:
    one = ipaddress.ip_address(address)
    if isinstance(one, ipaddress.IPv6Address):
        # An IPv4 address inside an IPv6 address counts as the IPv4 address. Forms of translation that are for use
        # inside a network, and site-local addresses, lie outside the addresses that are given out.
        inner = ipaddress.IPv4Address(int(one) & 0xFFFFFFFF) if one in _NAT64 else one.ipv4_mapped or one.sixtofour
        if inner is None and one not in _GLOBAL_UNICAST:
            raise _forbidden(f"{address} is not a public address")
        one = inner or one
    if not one.is_global or one.is_multicast:
        raise _forbidden(f"{address} is not a public address")


def _forbidden(why: str) -> ForbiddenAddressError:
    return ForbiddenAddressError(f"{why}: {_REMEDY}", (FieldError("/url", "is not public"),))


def _refused(why: str) -> BadInputError:
    return BadInputError("the webhook's URL cannot be used", (FieldError("/url", why),))
