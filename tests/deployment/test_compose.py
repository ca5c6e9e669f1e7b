"""What docker-compose.yml names exists, and only the proxy may say where a request came from."""

import ipaddress
from pathlib import Path

import yaml

from app.cli.command import COMMANDS

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


def test_files_that_are_mounted_exist() -> None:
    mounted = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]
    files = [ROOT / source for source in mounted if source.startswith("./")]
    assert len(files) > 5
    assert [file for file in files if not file.is_file()] == []
    named = {source for source in mounted if not source.startswith((".", "/"))}
    assert named == COMPOSE["volumes"].keys()


def test_only_the_proxy_may_say_where_a_request_came_from() -> None:
    trusted = {name: service.get("environment", {}).get("FORWARDED_ALLOW_IPS") for name, service in SERVICES.items()}
    proxy = SERVICES["caddy"]["networks"]["proxied"]["ipv4_address"]
    assert {name: address for name, address in trusted.items() if address} == {"api": proxy}
    (subnet,) = COMPOSE["networks"]["proxied"]["ipam"]["config"]
    assert ipaddress.ip_address(proxy) in ipaddress.ip_network(subnet["subnet"])
    assert [name for name, service in SERVICES.items() if "proxied" in service.get("networks", ())] == ["api", "caddy"]


def test_nothing_but_the_proxy_is_open_to_the_network() -> None:
    ports = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert ports.pop("caddy") == ["80:80", "443:443", "443:443/udp"]
    assert all(port.startswith("127.0.0.1:") for service in ports.values() for port in service)


def test_our_containers_have_no_rights_that_they_do_not_need() -> None:
    for name in ("migrate", "api", "worker", "backup"):
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "/tmp" in service["volumes"]  # noqa: S108  a container's own
        words = service["command"] if name != "backup" else service["command"][0].split("stable-arena ")[1].split()
        assert words[0] in COMMANDS


def test_what_is_not_asked_for_does_not_start() -> None:
    usual = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert usual == {"postgres", "migrate", "api", "worker"}
