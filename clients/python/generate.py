"""Writes stable_arena_client/models.py from the service's OpenAPI description: `make docs`. A test holds it."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.main import create_app
from app.settings import Settings

MODELS = Path(__file__).parent / "stable_arena_client" / "models.py"
OPERATIONS = (
    "post_vote", "post_vote_batch", "post_battle", "skip_battle", "get_leaderboard", "get_confidence", "list_matchups",
    "list_snapshots", "get_snapshot", "list_models", "get_policy", "post_preview", "post_import", "get_import",
    "post_token", "post_appeal", "get_self", "list_own_votes",
)  # fmt: skip
"""What the client calls: their bodies and answers become models."""
_KEPT = frozenset(
    {"type", "properties", "required", "anyOf", "items", "enum", "$ref", "description", "default", "format"}
    | {"additionalProperties", "prefixItems"}
)
_REF = "#/components/schemas/"
_OPTIONS = (
    "--input-file-type=openapi", "--output-model-type=pydantic_v2.BaseModel", "--target-python-version=3.11",
    "--enum-field-as-literal=all", "--use-schema-description", "--use-annotated", "--use-union-operator",
    "--use-standard-collections", "--collapse-root-models", "--disable-timestamp", "--strict-nullable",
    "--formatters=builtin", "--openapi-scopes=schemas",
)  # fmt: skip


def describe(description: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas that the client needs. What the service checks, such as lengths, is left to the service."""
    schemas = description["components"]["schemas"]
    operations = [one for verbs in description["paths"].values() for one in verbs.values()]
    chosen = {one["operationId"]: one for one in operations if one["operationId"] in OPERATIONS}
    if missing := set(OPERATIONS) - chosen.keys():
        raise ValueError(f"the service has no operation {', '.join(sorted(missing))}")
    waiting, needed = sorted({name for one in chosen.values() for name in _named(one)}), {}
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = _plain(schemas[name])
            waiting += _named(schemas[name])
    info = {"title": "Stable Arena", "version": description["info"]["version"]}
    return {"openapi": "3.1.0", "info": info, "paths": {}, "components": {"schemas": dict(sorted(needed.items()))}}


def _named(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_REF)
        for inner in part.values():
            yield from _named(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _named(inner)


def _plain(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {key: value for key, value in schema.items() if key in _KEPT}
    for key in ("items", "additionalProperties"):
        if key in plain:
            plain[key] = _plain(plain[key])
    for key in ("anyOf", "prefixItems"):
        if key in plain:
            plain[key] = [_plain(one) for one in plain[key]]
    if "properties" in plain:
        plain["properties"] = {name: _plain(one) for name, one in plain["properties"].items()}
    return plain


def header(description: dict[str, Any]) -> str:
    """Return the first line of the models of this description: it has their fingerprint."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
    return f"# Written by clients/python/generate.py from the OpenAPI description {digest[:16]}: make docs."


def generate(description: dict[str, Any]) -> str:
    """Return the text of the models."""
    with TemporaryDirectory() as folder:
        source, written = Path(folder) / "openapi.json", Path(folder) / "models.py"
        source.write_text(json.dumps(description), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "datamodel_code_generator",
            "--input",
            str(source),
            "--output",
            str(written),
            *_OPTIONS,
        ]
        subprocess.run(command, check=True)  # noqa: S603  the project's own generator on its own description
        _, _, models = written.read_text(encoding="utf-8").partition("\n\n")
    tidy = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(MODELS), "-"]
    text = f"{header(description)}\n\n{models}"
    return subprocess.run(tidy, input=text, check=True, capture_output=True, text=True).stdout  # noqa: S603  likewise


def main() -> None:
    """Write the models, if the description has changed."""
    description = describe(create_app(Settings()).openapi())
    if not MODELS.exists() or not MODELS.read_text(encoding="utf-8").startswith(f"{header(description)}\n"):
        MODELS.write_text(generate(description), encoding="utf-8")


if __name__ == "__main__":
    main()
