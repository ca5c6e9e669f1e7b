"""No test may depend on how fast the machine is."""

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ASKING = {"Client", "AsyncClient", "get", "post", "put", "request", "stream"}


def is_hasty(call: ast.Call) -> bool:
    """Whether it asks over the network with httpx's own patience, of five seconds."""
    given = {keyword.arg for keyword in call.keywords}
    match call.func:
        case ast.Name(id="Client" | "AsyncClient"):
            asks = "base_url" in given  # Dask's clients have none
        case ast.Attribute(value=ast.Name(id="httpx"), attr=asked):
            asks = asked in ASKING
        case _:
            asks = False
    return asks and given.isdisjoint({"timeout", "transport"})


def calls_in(path: Path) -> Iterator[ast.Call]:
    """Yield the calls in a file that names an HTTP client; others are not parsed, which takes longest."""
    text = path.read_text(encoding="utf-8")
    if "Client" in text or "httpx" in text:
        yield from (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))


def test_clients_wait_for_a_slow_machine() -> None:
    hasty = [
        f"{path.relative_to(HERE)}:{node.lineno}"
        for path in sorted(HERE.rglob("*.py"))
        for node in calls_in(path)
        if is_hasty(node)
    ]
    assert hasty == []
