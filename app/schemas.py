"""The two kinds of bodies and answers, from which the schemas of every room are made."""

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """What the service shows: it does not change once it is made."""

    model_config = ConfigDict(frozen=True)


class ClosedModel(BaseModel):
    """What callers send: a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid")
