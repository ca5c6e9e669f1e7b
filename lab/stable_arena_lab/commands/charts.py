"""Vega-Lite specifications of the experiments' figures."""

from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # names the language; nothing is fetched
WIDTH, HEIGHT = 200, 150
STYLE: Mapping[str, Any] = {
    "font": "sans-serif",
    "background": "white",
    "aria": False,  # a label on every point makes the file five times as large; the page describes the figure
    "view": {"stroke": "#ccc"},
    "axis": {"gridColor": "#eee", "labelColor": "#333", "titleColor": "#333", "titleFontWeight": "normal"},
    "header": {"title": None, "labelFontWeight": "bold"},
    "legend": {"titleFontWeight": "normal"},
    "range": {"category": ["#999999", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]},
}

Spec = dict[str, Any]


def axis(field: str, title: str, **scale: Any) -> Spec:
    """Return a quantitative channel; `scale` is Vega-Lite's (type, domain, zero)."""
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False, **scale}}


def category(field: str, title: str | None, order: Sequence[str]) -> Spec:
    """Return a nominal channel with its values in the given order."""
    return {"field": field, "type": "nominal", "title": title, "sort": list(order)}


def colours(field: str, title: str, order: Sequence[str]) -> Spec:
    """Return a colour channel with its values in the given order."""
    return {**category(field, title, order), "scale": {"domain": list(order)}}


def panel(rows: Sequence[Mapping[str, Any]], title: str, *layers: Spec, **channels: Any) -> Spec:
    """Return one chart over the rows: layers of marks on channels they share; a row without a number leaves a gap."""
    return {
        "data": {"values": [dict(row) for row in rows]},
        "title": {"text": title, "fontSize": 12},
        "width": WIDTH,
        "height": HEIGHT,
        "encoding": channels,
        "layer": list(layers),
    }


def layer(mark: str, *, channels: Spec | None = None, **style: Any) -> Spec:
    """Return one layer of a panel: a mark, its style and channels of its own."""
    return {"mark": {"type": mark, **style}, "encoding": channels or {}}


def lines() -> Spec:
    """Return the layer of a line with its points."""
    return layer("line", point={"size": 20})


def row_of(*panels: Spec) -> Spec:
    """Return panels in a row that share their colours."""
    return {"hconcat": list(panels)}


def side_by_side(*panels: Spec) -> Spec:
    """Return a figure of panels in a row that share their colours."""
    return _figure(row_of(*panels))


def stacked(*rows: Spec) -> Spec:
    """Return a figure of rows of panels, each row with colours of its own."""
    return _figure({"vconcat": list(rows), "resolve": {"scale": {"color": "independent"}}})


def _figure(spec: Spec) -> Spec:
    return {"$schema": SCHEMA, "config": STYLE, **spec}
