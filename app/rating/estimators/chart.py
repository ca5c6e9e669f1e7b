from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # names the language; nothing is fetched

Spec = dict[str, Any]


def leaderboard_chart(rows: Sequence[Mapping[str, Any]], title: str) -> Spec:
    """Return a Vega-Lite chart of the models, best first: scores as points with their intervals.

    Parameters
    ----------
    rows : model, score, lower, upper and component; a model without a score shows its bound as a triangle
    title : of the axis of scores
    """
    values = [{**row, **_bound(row)} for row in rows]
    marks: list[Spec] = [
        {"mark": "rule", "encoding": {"x2": {"field": "upper"}, "x": _points("lower", title)}},
        {"mark": {"type": "point", "filled": True, "opacity": 1}, "encoding": {"x": _points("score", title)}},
    ]
    if any(value["bound"] is not None for value in values):
        shapes = {"domain": ["at least", "at most"], "range": ["triangle-right", "triangle-left"]}
        shape = {"field": "side", "type": "nominal", "title": "no score, a bound", "scale": shapes}
        marks.append({"mark": "point", "encoding": {"x": _points("bound", title), "shape": shape}})
    encoding: Spec = {"y": {"field": "model", "type": "nominal", "title": None, "sort": [row["model"] for row in rows]}}
    if len({row["component"] for row in rows}) > 1:
        encoding["color"] = {"field": "component", "type": "nominal", "title": "ranked apart"}
    return {"$schema": SCHEMA, "data": {"values": values}, "height": {"step": 18}, "encoding": encoding, "layer": marks}


def _points(field: str, title: str) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}}


def _bound(row: Mapping[str, Any]) -> Spec:
    """Return the one-sided bound of a model without a score, and take it out of the ends of an interval."""
    if row["score"] is not None:
        return {"bound": None, "side": None}
    side = None if row["lower"] is row["upper"] else "at least" if row["upper"] is None else "at most"
    bound = row["lower"] if row["upper"] is None else row["upper"]
    return {"bound": bound, "side": side, "lower": None, "upper": None}
