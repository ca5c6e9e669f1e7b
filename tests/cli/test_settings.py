"""Settings from the environment, and how wrong variables are refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.errors import BadInputError
from app.settings import read_settings, setting_names
from app.settings.settings import unknown_variables
from tests.fixtures.environment import Configure

ROOT = Path(__file__).parents[2]
RunCli = Callable[..., Any]


@pytest.fixture
def refused(configure: Configure) -> Callable[..., str]:
    """Set variables and return how they are refused: the detail, and the places and what is wrong there."""

    def refuse(**variables: str) -> str:
        configure(**variables)
        with pytest.raises(BadInputError) as caught:
            read_settings()
        return "\n".join([caught.value.detail, *(f"{error.pointer}: {error.detail}" for error in caught.value.errors)])

    return refuse


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("PSEUDONYMKEY", "PSEUDONYM_KEY"),
        ("SERVER_PORT", "SERVER__PORT"),
        ("SERVER__PROT", "SERVER__PORT"),
        ("DATABASEURL", "DATABASE_URL"),
        ("SERVER__PORT__X", "SERVER__PORT"),
        ("PSEUDONYM_PREVIOUS_KEY__1", "PSEUDONYM_PREVIOUS_KEYS"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused_with_the_nearest_name(
    refused: Callable[..., str], given: str, nearest: str
) -> None:
    message = refused(**{given: "hush"})
    assert message == (
        f"the settings are not valid\nSTABLE_ARENA_{given}: is not a setting; the nearest is STABLE_ARENA_{nearest}"
    )


@pytest.mark.parametrize("name", ["TOKEN_OF_MY_SCRIPT", "SERVICE_HOST", "PORT_8000_TCP_ADDR", "X"])
def test_a_variable_unlike_any_setting_is_refused_too(refused: Callable[..., str], name: str) -> None:
    assert f"STABLE_ARENA_{name}: is not a setting" in refused(**{name: "x"})


def test_every_unknown_variable_is_named(refused: Callable[..., str]) -> None:
    message = refused(SERVER__PROT="1", WORKER__TICKSECONDS="1")
    assert "STABLE_ARENA_SERVER__PROT: " in message
    assert "STABLE_ARENA_WORKER__TICKSECONDS: " in message


@pytest.mark.parametrize("command", ["migrate", "serve", "worker", "refit", "leaderboard"])
def test_every_command_refuses_an_unknown_variable(run_cli: RunCli, configure: Configure, command: str) -> None:
    configure(DATABASEURL="postgresql://u:hush@127.0.0.1:1/x")
    result = run_cli(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: the settings are not valid\n"
        "  STABLE_ARENA_DATABASEURL: is not a setting; the nearest is STABLE_ARENA_DATABASE_URL\n"
    )


def test_variables_that_are_no_error() -> None:
    assert not unknown_variables(
        {
            "PATH": "/bin",
            "STABLE_ARENA_DATA": "/data",
            "STABLE_ARENA_TEST_DATABASE_URL": "postgresql://h/x",
            "STABLE_ARENA_PSEUDONYM_PREVIOUS_KEYS__1": "x",
            "STABLE_ARENA_SERVER": "{}",
            "stable_arena_server__port": "1",
        }
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
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
        ("SERVER__PORT", "70000", "SERVER__PORT: input should be less than or equal to 65535"),
    ],
)
def test_values_that_are_refused(refused: Callable[..., str], name: str, value: str, message: str) -> None:
    refusal = refused(**{name: value})
    assert refusal.startswith(f"the settings are not valid\nSTABLE_ARENA_{message}")
    assert "hush" not in refusal


def test_the_home_folder_is_known(configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    configure(DATA_DIR="~/votes")
    assert read_settings().data_dir == tmp_path / "votes"


def test_containers_get_every_setting_that_the_operator_sets() -> None:
    """Null in the file hands a variable on where it is set and leaves it unset where it is not."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for name in ("migrate", "api", "worker"):
        given = {
            variable: value
            for variable, value in services[name]["environment"].items()
            if variable.startswith("STABLE_ARENA_")
        }
        assert set(given) == set(setting_names()), name
        set_here = {variable for variable, value in given.items() if value is not None}
        assert set_here == {"STABLE_ARENA_DATABASE_URL", "STABLE_ARENA_DATA_DIR"}, "the home folder cannot be written"
        assert given["STABLE_ARENA_DATA_DIR"] == "${STABLE_ARENA_DATA_DIR:-/tmp/stable-arena}"
        assert services[name]["env_file"] == [{"path": ".env", "required": False}]


@pytest.mark.parametrize(
    ("issuer", "rest", "words"),
    [
        ("https://login.example", {}, "STABLE_ARENA_OIDC: an issuer needs client_id, client_secret, grants too"),
        ("http://login.example", {}, "is not an address such as https://login.example"),
        (
            "https://login.example",
            {"OIDC__CLIENT_ID": "a", "OIDC__CLIENT_SECRET": "hush", "OIDC__GRANTS": '{"group": "vote"}'},
            "STABLE_ARENA_OIDC__GRANTS__GROUP: ",
        ),
    ],
)
def test_a_sign_in_provider_that_is_not_complete_is_refused(
    refused: Callable[..., str], issuer: str, rest: dict[str, str], words: str
) -> None:
    message = refused(OIDC__ISSUER=issuer, **rest)
    assert words in message
    assert "hush" not in message
