"""Requests without a key count towards the limits of their address; refusals come late where it has many of them."""

from collections.abc import Callable
from functools import partial

from fastapi import Depends, Request
from starlette.types import Scope

from app.guard.admission import Admission
from app.guard.back_off import BackOff
from app.guard.errors import RateLimitedError
from app.guard.limits import FILES, RateLimits
from app.state import state_of


async def count_stranger(request: Request) -> None:
    """Count a public read without a key. Raises RateLimitedError."""
    await _count(request.scope, RateLimits.count_anonymous)


async def count_open(request: Request) -> None:
    """Count a request for what is open to all and takes no work, such as the API's description or a path without route.

    Each such route has a limit of its own, so that probes of a load balancer are answered whatever else comes from
    their address. Raises RateLimitedError.
    """
    await _count(request.scope, RateLimits.count_open)


async def count_file(request: Request) -> None:
    """Count a request for a file, of which a page has several. Raises RateLimitedError."""
    await _count(request.scope, partial(RateLimits.count_open, times=FILES))


async def _count(scope: Scope, count: Callable[[RateLimits, Scope], None]) -> None:
    state = state_of(scope)
    try:
        count(state[RateLimits], scope)
    except RateLimitedError:
        await state[BackOff].wait(scope)
        raise


open_to_all = Depends(Admission(count_open))
"""Admits everyone to a route that takes no work, a number of times a minute."""
file_for_all = Depends(Admission(count_file))
"""The same for files."""
