"""Models on record whose names look the same, as if they were one model."""

import math
from collections.abc import Mapping

from sqlalchemy import Connection

from app.models.contestants import read_contestants
from app.models.queries import read_model_names
from app.naming.aliases import read_names
from app.naming.look_alikes import LookAlikes, find_look_alikes


def read_look_alikes(conn: Connection, votes: Mapping[str, int] | None = None) -> list[LookAlikes]:
    """Return the models that look the same, without those that are merged; names on record are kept before new ones.

    `votes`: of names in a file; then only what looks like one of them.
    """
    names, merged = read_model_names(conn), read_contestants(conn).merged
    weights = {name: math.inf for number, name in names.items() if number not in merged}
    if votes is None:
        return find_look_alikes(weights)
    known = {*names.values(), *read_names(conn, votes).aliases}
    weights |= {name: float(number) for name, number in votes.items() if name not in known}
    found = find_look_alikes(weights)
    return [one for one in found if not votes.keys().isdisjoint([one.kept, *one.others])]
