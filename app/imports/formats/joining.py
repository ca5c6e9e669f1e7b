"""Models of a vote file that are joined under one name, and those that look as if they should be."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import polars as pl

from app.errors import BadInputError
from app.imports.formats.whole import VoteFile
from app.naming.look_alikes import find_look_alikes, quoted
from app.rating.errors import counted
from app.wording import plural

CODE = "look-alikes"
_EQUAL = 3


def read_aliases(texts: Iterable[str]) -> dict[str, str]:
    """Return the models that `gpt 4=GPT-4` and others name, by the other name; the last = divides them.

    Raises BadInputError.
    """
    aliases: dict[str, str] = {}
    for text in texts:
        name, _, model = text.rpartition("=")
        if not name or not model or name == model:
            raise BadInputError(f"--alias must be NAME=MODEL, two names, is {text[:200]!r}")
        if aliases.setdefault(name, model) != model:
            raise BadInputError(f"--alias gives {name[:200]!r} two models")
    if chained := aliases.keys() & aliases.values():
        raise BadInputError(f"--alias names {min(chained)[:200]!r} as a model and as another name of one")
    return aliases


def join_models(file: VoteFile, aliases: Mapping[str, str]) -> VoteFile:
    """Return the file with these models under their names; votes between two names of one model are left out.

    Raises BadInputError: no vote names a model that has an alias here.
    """
    if not aliases:
        return file
    known = set(file.frame["model_a"]) | set(file.frame["model_b"])
    aliases = dict(_cut(name, model, known) for name, model in aliases.items())
    sides = [pl.col(side).replace(dict(aliases)) for side in ("model_a", "model_b")]
    ranked = pl.col("ranked_names")
    if unknown := sorted(aliases.keys() - known):
        raise BadInputError(f"the file has no model {unknown[0]!r}, which --alias names")
    rankings = [None if text is None else _renamed(text, aliases) for text in file.records["ranked_names"]]
    joined = file.records.with_columns(*sides, pl.Series("ranked_names", rankings, pl.String))
    kept = joined.filter(pl.when(ranked.is_null()).then(pl.col("model_a") != pl.col("model_b")).otherwise(ranked != ""))
    left_out = joined.height - kept.height
    note = f"{plural(left_out, 'vote')} left out: between two names of one model, by --alias"
    return replace(file, records=kept, notes=[*file.notes, *([note] if left_out else [])])


def look_alike_warnings(votes: Mapping[str, float]) -> list[dict[str, object]]:
    """Return a warning, as `RatingNotice.named` does, for the models that look the same.

    `votes`: of each model.
    """
    found = find_look_alikes(votes)
    if not found:
        return []
    options = " ".join(f"--alias {quoted(f'{name}={one.kept}')}" for one in found for name in one.others)
    detail = f"models look the same: {'; '.join(map(str, found))}. If they are, add {options}"
    return [{"code": CODE, "detail": detail, "models": [name for one in found for name in (one.kept, *one.others)]}]


def equal_row_warnings(votes: pl.DataFrame) -> list[dict[str, object]]:
    """Return a warning, as `RatingNotice.named` does, for three or more equal rows without a battle.

    They are equal in all that is read, and of one time, or, without times, one after the other.

    `votes`: as `VoteFile.records`.
    """
    said = [name for name in votes.columns if name not in ("row", "vote_id", "metadata", "tags")]
    alone = votes.filter(pl.all_horizontal(pl.col("battle_id", "vote_id", "weight").is_null()))
    if alone.height < _EQUAL:
        return []
    run = pl.when(pl.col("voted_at").is_null()).then(pl.struct(said).rle_id()).alias("run")
    groups = alone.select(*said, run).group_by([*said, "run"]).len().filter(pl.col("len") >= _EQUAL)
    if groups.is_empty():
        return []
    rows = counted(int(groups["len"].sum()), "row")
    detail = f"{rows} are equal to two others or more, and each counts: the column battle_id tells repeats of a vote"
    return [{"code": "equal-rows", "detail": detail, "models": []}]


def _cut(name: str, model: str, known: Collection[str]) -> tuple[str, str]:
    """Return an alias and its model, divided by the = that leaves two known models where names have one too."""
    parts = f"{name}={model}".split("=")
    cuts = [("=".join(parts[:at]), "=".join(parts[at:])) for at in range(1, len(parts))]
    return next((cut for cut in cuts if cut[0] in known and cut[1] in known), (name, model))


def _renamed(text: str, aliases: Mapping[str, str]) -> str:
    """Return a ranking with these names; an empty text where a model would be in it twice."""
    groups = [[aliases.get(name, name) for name in group] for group in json.loads(text)]
    names = [name for group in groups for name in group]
    return json.dumps(groups, ensure_ascii=False) if len(set(names)) == len(names) else ""
