"""Folders for others to publish: a dataset of votes for Hugging Face, and evaluations for Every Eval Ever."""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl

import app
from app.database.engine import Database
from app.exports.files import Exported, write_export
from app.exports.schemas import ExportFilters
from app.exports.service import read_exported
from app.leaderboard.schemas import PublishedLeaderboard
from app.snapshots.vote_sets import read_vote_set

EVALUATION_SCHEMA = "0.3.0"
"""Version of Every Eval Ever's eval.schema.json."""

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
_CARD = """---
pretty_name: Arena votes
tags:
- arena
- human-feedback
- preference
size_categories:
- {size}
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
---

# Arena votes

{rows:,} votes of {annotators:,} annotators on {models:,} models, exported by Stable Arena {version}. A vote says
which of two models answered better: `winner` is `model_a`, `model_b`, `tie` or `tie (bothbad)`.{rankings}

Annotators are numbered in this dataset: their keys are not in it. Look at `metadata` and `tags` before you publish it,
because they hold what the arena sent, and add a `license` above.

The votes that were on record are `{vote_set}`.
"""
_RANKINGS = """
A `ranking`, in JSON, has several models in groups, the best first, in the place of these three columns."""


def write_dataset(database: Database, filters: ExportFilters, folder: Path) -> Exported:
    """Write the votes as a dataset that the library `datasets` loads: Parquet in `data`, and a card.

    Annotators are numbered in the order of their first vote, so that a published dataset has no keys of people. Raises
    NotFoundError.
    """
    data = folder / "data"
    data.mkdir(parents=True)
    raw = folder / "votes.parquet"
    try:
        exported = write_export(database, "votes", "parquet", filters, raw)
        first = pl.scan_parquet(raw).select("annotator").unique(maintain_order=True).with_row_index("n", offset=1)
        names = first.with_columns(named=pl.format("annotator-{}", "n")).drop("n").collect()
        votes = pl.scan_parquet(raw)
        numbered = votes.with_columns(
            pl.col("annotator").replace_strict(names["annotator"], names["named"], return_dtype=pl.String),
            pl.col("sealed") == "true",
            pl.col("propensity").cast(pl.Float64),
        )
        numbered.sink_parquet(data / "train-00000-of-00001.parquet", row_group_size=100_000)
        models = [votes.select(pl.col(side).alias("model")) for side in ("model_a", "model_b")]
        if ranked := "ranking" in votes.collect_schema():
            groups = pl.col("ranking").str.json_decode(pl.List(pl.List(pl.String)))
            models.append(votes.select(groups.explode().explode().alias("model")))
        n_models = pl.concat(models).drop_nulls().unique().select(pl.len()).collect().item()
    finally:
        raw.unlink(missing_ok=True)
    size = next((word for most, word in _SIZES if exported.rows < most), "n>10M")
    card = _CARD.format(
        size=size, rows=exported.rows, annotators=names.height, models=n_models,
        rankings=_RANKINGS if ranked else "", version=app.__version__, vote_set=exported.vote_set,
    )  # fmt: skip
    (folder / "README.md").write_text(card, encoding="utf-8")
    return exported


def write_evaluations(database: Database, filters: ExportFilters, folder: Path) -> Exported:
    """Write a leaderboard as Every Eval Ever has evaluations: `developer/model/….json`, a file for each model.

    Models without a score are left out: that format has no place for a bound. Raises NotFoundError, NoSnapshotError or
    NoSuchLeaderboardError.
    """
    with database.read() as conn:
        published, vote_set = read_exported(conn, filters), read_vote_set(conn)
    rows = [row for row in published.rows() if row["score"] is not None]
    now = int(time.time())
    for row in rows:
        place = folder / _part(row["organization"] or "unknown") / _part(row["model"])
        place.mkdir(parents=True, exist_ok=True)
        evaluation = _evaluation(row, published, now)
        text = json.dumps(evaluation, indent=2, ensure_ascii=False, allow_nan=False)
        (place / f"{uuid4()}.json").write_text(f"{text}\n", encoding="utf-8")
    return Exported(len(rows), vote_set)


def _evaluation(row: Mapping[str, Any], published: PublishedLeaderboard, now: int) -> dict[str, Any]:
    head = published.snapshot
    developer = row["organization"] or "unknown"
    model = row["model"] if "/" in row["model"] else f"{developer}/{row['model']}"
    uncertainty: dict[str, Any] = {"num_samples": row["votes"]}
    if row["se"] is not None:
        uncertainty["standard_error"] = {"value": row["se"]}
    if row["lower"] is not None and row["upper"] is not None:
        uncertainty["confidence_interval"] = {
            "lower": row["lower"], "upper": row["upper"], "confidence_level": 0.95,
        }  # fmt: skip
    details = {name: str(row[name]) for name in ("rank", "votes", "wins", "ties", "losses") if row[name] is not None}
    named = {"snapshot": str(head.number), "votes_hash": head.votes_hash, "tag": published.tag or "all votes"}
    return {
        "schema_version": EVALUATION_SCHEMA,
        "evaluation_id": f"stable-arena/{model}/{now}",
        "evaluation_timestamp": head.published_at.isoformat(),
        "retrieved_timestamp": str(now),
        "source_metadata": {
            "source_name": "Stable Arena",
            "source_type": "evaluation_run",
            "source_organization_name": "not stated",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "stable-arena", "version": app.__version__},
        "model_info": {
            "name": row["model"],
            "id": model,
            "developer": developer,
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": [
            {
                "evaluation_name": f"arena votes, {published.method}",
                "source_data": {
                    "dataset_name": "arena votes", "source_type": "other", "additional_details": named,
                },
                "metric_config": {
                    "evaluation_description": "Score from pairwise votes: 100 points are a 64 % chance to win.",
                    "metric_id": f"stable-arena.{published.method}",
                    "metric_kind": "elo",
                    "metric_unit": "points",
                    "lower_is_better": False,
                    "score_type": "continuous",
                    "min_score": "-Infinity",
                    "max_score": "Infinity",
                },
                "score_details": {"score": row["score"], "details": details, "uncertainty": uncertainty},
            }
        ],
    }  # fmt: skip


def _part(name: str) -> str:
    """Return a name as part of a path."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100].lstrip(".") or "_"
