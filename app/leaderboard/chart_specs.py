"""The charts of a snapshot in Vega-Lite. Colours are the page's; no name of a model or an annotator is in them."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.wording import MINUS

Spec = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

STANDINGS = ("counts", "flagged", "excluded", "pending")
"""What a chart tells apart of annotators; a trusted annotator counts."""

_WIDTH, _HEIGHT = 370, 200
_CONFIG: Spec = {
    "font": "inherit",
    "aria": False,  # the page describes the chart; a label on every mark makes the file five times as large
    "view": {"stroke": None},
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor", "gridColor", "domainColor", "tickColor"), "currentColor"),
        "gridOpacity": 0.12, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal",
    },
    "legend": {"labelColor": "currentColor", "labelFontSize": 12, "title": None, "orient": "top"},
    "text": {"color": "currentColor", "fontSize": 12},
    "rule": {"color": "currentColor"},
}  # fmt: skip


def abilities_chart(bins: Rows, min_ability: float) -> Spec:
    """Return how many annotators have which ability, with ε drawn in.

    `bins`: `low`, `high`, `standing` and `annotators` of every bin.
    """
    return _chart(
        bins,
        _bars(bins, _axis("ability (1: the mean annotator)")),
        *_limit(min_ability, f"ε = {min_ability:g}".replace("-", MINUS)),
    )


def votes_chart(bins: Rows, min_votes: int) -> Spec:
    """Return how many annotators cast how many votes, with δ drawn in; `bins` as for abilities."""
    ticks = {"values": [10**power for power in range(10)], "format": ",d"}
    axis = _axis("votes of the annotator", scale={"type": "log", "nice": False}, axis=ticks)
    limit = _limit(min_votes, f"δ = {min_votes:,}") if min_votes >= 1 else ()
    return _chart(bins, _bars(bins, axis), *limit)


def calibration_chart(bins: Rows) -> Spec:
    """Return how often voters' favourites won against how often they should, with the band that chance leaves open.

    `bins`: `predicted`, `observed`, `lower`, `upper` and `votes` of every bin.
    """
    percent: Spec = {"axis": {"format": ".0%", "tickCount": 5}}
    across: Spec = {"scale": {"domain": [0.5, 1]}, **percent}
    lowest = min([0.5, *(row[name] for row in bins for name in ("observed", "lower"))])
    up: Spec = {"scale": {"domain": [lowest, 1]}, **percent}
    x = _axis("predicted win rate of the voter's favourite", "predicted", **across)
    y = _axis("observed win rate", "observed", **up)
    size = {"field": "votes", "type": "quantitative", "legend": None, "scale": {"range": [20, 400]}}
    ends = {"x": {"datum": 0.5, **across}, "y": {"datum": 0.5, **up}, "x2": {"datum": 1}, "y2": {"datum": 1}}
    band = {"x": x, "y": {**y, "field": "lower"}, "y2": {"field": "upper"}}
    return _chart(
        bins,
        {"mark": {"type": "area", "color": "currentColor", "opacity": 0.12}, "encoding": band},
        {"mark": {"type": "rule", "strokeDash": [4, 4], "opacity": 0.6}, "data": {"values": [{}]}, "encoding": ends},
        {
            "mark": {"type": "circle", "color": "var(--chart-counts)", "opacity": 0.85},
            "encoding": {"x": x, "y": y, "size": size},
        },
    )


def _chart(rows: Rows, *layers: Spec) -> Spec:
    values = {"values": [dict(row) for row in rows]}
    size = {"width": _WIDTH, "height": _HEIGHT, "background": None, "padding": 4}
    return {"data": values, **size, "layer": list(layers), "config": _CONFIG}


def _bars(bins: Rows, axis: Spec) -> Spec:
    here = [name for name in STANDINGS if any(row["standing"] == name for row in bins)]
    colours = {"domain": here, "range": [f"var(--chart-{name})" for name in here]}
    return {
        "mark": {"type": "bar", "binSpacing": 1},
        "encoding": {
            "x": {**axis, "field": "low", "bin": "binned"},
            "x2": {"field": "high"},
            "y": {"field": "annotators", "type": "quantitative", "title": "annotators", "axis": {"tickMinStep": 1}},
            "color": {"field": "standing", "type": "nominal", "scale": colours},
            "order": {"field": "place", "type": "quantitative"},
        },
    }


def _limit(value: float, label: str) -> Sequence[Spec]:
    data, x = {"values": [{"at": value}]}, {"field": "at", "type": "quantitative"}
    text = {"type": "text", "text": label, "align": "left", "dx": 4, "y": 8}
    return (
        {"mark": {"type": "rule", "strokeDash": [4, 4]}, "data": data, "encoding": {"x": x}},
        {"mark": text, "data": data, "encoding": {"x": x}},
    )


def _axis(title: str, field: str | None = None, **more: Any) -> Spec:
    return {"type": "quantitative", "title": title, **({"field": field} if field else {}), **more}
