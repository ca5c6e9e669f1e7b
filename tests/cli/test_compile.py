import re
from collections.abc import Callable
from typing import Any

from typer.testing import Result

from app.rating.compiled import KERNELS
from app.votes.batch_items import BatchItems, compile_batch_scan


def test_compiling_ahead_says_what_it_is_at(run_cli: Callable[..., Result]) -> None:
    result = run_cli("compile")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.partition(": ")[2] for line in lines if " s  Compiling: " in line][::10] == ["votes", "Elo"]
    assert re.fullmatch(r" *\d+ s  Compiling: am-ELO", lines[3])
    assert lines[-1].startswith("Compiled in ")


def batch_signatures() -> list[list[Any]]:
    return [list(kernel.signatures) for kernel in KERNELS if kernel.py_func.__module__ == BatchItems.__module__]


def test_a_batch_needs_no_kernel_beyond_those_compiled_ahead() -> None:
    compile_batch_scan()
    compiled = batch_signatures()
    assert any(compiled)
    assert BatchItems(b'{"votes": [{"metadata": {"x": [1, "]"]}}, 0]}', most=10_000).count == 2
    assert batch_signatures() == compiled
