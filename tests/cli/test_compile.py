from collections.abc import Callable

from typer.testing import Result


def test_compiling_ahead_says_what_it_is_at(run_cli: Callable[..., Result]) -> None:
    result = run_cli("compile")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "Compiling: am-ELO" in lines
    assert lines[-1].startswith("Compiled in ")
