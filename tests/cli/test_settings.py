"""What the environment says is taken as it is meant, or refused in words that name the variable."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.environment import misspelt_variables, read_settings, setting_names
from app.errors import BadInputError

ROOT = Path(__file__).parents[2]
RunCli = Callable[..., Any]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Set variables and return how they are refused: the detail, and the places and what is wrong there."""

    def refuse(**variables: str) -> str:
        for name, value in variables.items():
            monkeypatch.setenv(f"STABLE_ARENA_{name}", value)
        with pytest.raises(BadInputError) as caught:
            read_settings()
        return "\n".join([caught.value.detail, *(f"{error.pointer}: {error.detail}" for error in caught.value.errors)])

    return refuse


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("PSEUDONYMKEY", "PSEUDONYM_KEY"),
        ("SERVER_PORT", "SERVER__PORT"),
        ("SERVER__PROT", "SERVER__PORT"),
        ("DATABASEURL", "DATABASE_URL"),
        ("SERVER__PORT__X", "SERVER__PORT"),
        ("PSEUDONYM_PREVIOUS_KEY__1", "PSEUDONYM_PREVIOUS_KEYS"),
    ],
)
def test_a_misspelt_variable_is_told_with_what_may_be_meant(
    refused: Callable[..., str], given: str, meant: str
) -> None:
    told = refused(**{given: "hush"})
    assert told == f"STABLE_ARENA_{given} is not a setting; did you mean STABLE_ARENA_{meant}?"


def test_several(refused: Callable[..., str]) -> None:
    assert refused(SERVER__PROT="1", WORKER__TICKSECONDS="1") == (
        "STABLE_ARENA_SERVER__PROT is not a setting; did you mean STABLE_ARENA_SERVER__PORT? (and 1 more)"
    )


@pytest.mark.parametrize("command", ["migrate", "serve", "worker", "refit", "leaderboard"])
def test_every_command_refuses_a_misspelt_variable(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("STABLE_ARENA_DATABASEURL", "postgresql://u:hush@127.0.0.1:1/x")
    result = run_cli(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: STABLE_ARENA_DATABASEURL is not a setting; did you mean STABLE_ARENA_DATABASE_URL?\n"
    )


def test_variables_that_are_no_settings_and_meant_to_be_none() -> None:
    assert not misspelt_variables(
        {
            "PATH": "/bin",
            "STABLE_ARENA_DATA": "/data",
            "STABLE_ARENA_TOKEN_OF_MY_SCRIPT": "x",
            "STABLE_ARENA_TEST_DATABASE_URL": "postgresql://h/x",
            "STABLE_ARENA_PSEUDONYM_PREVIOUS_KEYS__1": "x",
            "STABLE_ARENA_SERVER": "{}",
            "stable_arena_server__port": "1",
            "STABLE_ARENA_SERVER_PORT": "tcp://10.0.0.1:8000",
            "STABLE_ARENA_PORT_8000_TCP_ADDR": "10.0.0.1",
            "STABLE_ARENA_SERVICE_PORT_HTTP": "8000",
            "STABLE_ARENA_WORKER_SERVICE_HOST": "10.0.0.1",
        }
    )


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SERVER__HOST", " ", "SERVER__HOST: is set but empty"),
        ("DATA_DIR", "", "DATA_DIR: is set but empty"),
        ("DATA_DIR", "~no-such-user/x", "DATA_DIR: begins with ~"),
        ("DATABASE_URL", "", "DATABASE_URL: is set but empty"),
        ("PSEUDONYM_KEY", " " * 40, "PSEUDONYM_KEY: has hardly any different characters"),
        ("PSEUDONYM_KEY", "hush" * 10, "PSEUDONYM_KEY: has hardly any different characters"),
        ("PSEUDONYM_PREVIOUS_KEYS", "hush", "PSEUDONYM_PREVIOUS_KEYS: is not valid JSON"),
        ("PSEUDONYM_PREVIOUS_KEYS", '{"1": "%s"}' % ("h" * 40), "PSEUDONYM_PREVIOUS_KEYS: is set but STABLE_ARENA"),
        ("SERVER", "hush", "SERVER: is not valid JSON"),
        ("SERVER", '{"prot": 1}', "SERVER__PROT: "),
        ("SERVER__PORT", "70000", "SERVER__PORT: Input should be less than or equal to 65535"),
        (
            "INGEST__QUEUE_SIZE",
            "10",
            "INGEST__COMMIT_SIZE: is 1000, more than STABLE_ARENA_INGEST__QUEUE_SIZE, which is 10",
        ),
    ],
)
def test_values_that_are_refused(refused: Callable[..., str], name: str, value: str, told: str) -> None:
    said = refused(**{name: value})
    assert said.startswith(f"the settings are not valid\nSTABLE_ARENA_{told}")
    assert "hush" not in said


def test_the_home_folder_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STABLE_ARENA_DATA_DIR", "~/votes")
    assert read_settings().data_dir == tmp_path / "votes"


def test_containers_get_every_setting_that_the_operator_sets() -> None:
    """Null in the file hands a variable on where it is set and leaves it unset where it is not."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for name in ("migrate", "api", "worker"):
        given = services[name]["environment"]
        assert set(given) == set(setting_names()), name
        assert {variable for variable, value in given.items() if value is not None} == {"STABLE_ARENA_DATABASE_URL"}
        assert services[name]["env_file"] == [{"path": ".env", "required": False}]
