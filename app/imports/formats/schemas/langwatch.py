"""The results of LangWatch's experiments as CSV: a row for each item, with columns for the grades of each target."""

from collections.abc import Mapping, Sequence

from app.imports.formats.schemas.schema import Input, Schema


def find_targets(columns: Sequence[str]) -> Schema | None:
    """Return the format of such a file: a row for each evaluator and target; None for any other file."""
    targets = [name for column in columns if (name := column.removesuffix("_trace_id")) + "_cost" in columns]
    graders: dict[str, dict[str, str]] = {}
    for column in columns:
        stem = column.removesuffix("_score")
        target = max((name for name in targets if stem.startswith(f"{name}_")), key=len, default="")
        if stem != column and target and f"{stem}_passed" in columns:
            graders.setdefault(stem.removeprefix(f"{target}_"), {})[target] = stem
    rows = [
        _row(grader, target, stem)
        for grader, stems in graders.items()
        if len(stems) > 1
        for target, stem in stems.items()
    ]
    return Schema("grades", required={}, rows=tuple(rows)) if rows else None


def _row(grader: str, target: str, stem: str) -> Mapping[Input, str]:
    return {
        "annotator": f"={grader}", "annotator_kind": "=judge", "model": f"={target}", "grade": f"{stem}_score",
        "passed": f"{stem}_passed",
    }  # fmt: skip
