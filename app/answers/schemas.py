from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.texts import storable
from app.naming.names import Label, Name
from app.schemas import ClosedModel, FrozenModel

MAX_TEXT_BYTES = 100_000
"""Most bytes of a prompt, an answer or a reference, in UTF-8."""
MAX_ANSWERS = 1_000

AnswerStatus = Literal["created", "duplicate", "replaced", "conflict"]


def _short(text: str) -> str:
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise ValueError(f"must have at most {MAX_TEXT_BYTES:,} bytes in UTF-8")
    return text


ShownText = Annotated[str, AfterValidator(storable), AfterValidator(_short)]


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


class NewAnswer(BaseModel):
    """A model's answer to a prompt."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"prompt": "Why is the sky blue?", "model": "qwen-72b", "answer": "Because …"}]
        },
    )

    prompt: Annotated[ShownText, AfterValidator(_said)] = Field(
        description=f"What was asked, as Markdown of at most {MAX_TEXT_BYTES:,} bytes; its text is its identity."
    )
    model: Name = Field(description="Name of the model.")
    answer: ShownText = Field(description=f"What the model answered, as Markdown of at most {MAX_TEXT_BYTES:,} bytes.")
    language: Label | None = Field(None, description="The prompt's language; its votes have it as a tag.")
    category: Label | None = Field(None, description="The prompt's category; its votes have it as a tag.")
    reference: ShownText | None = Field(None, description="A good answer, for those who set up the arena.")


class AnswerBatch(ClosedModel):
    """Answers to record, all or none."""

    answers: Annotated[list[NewAnswer], Field(min_length=1, max_length=MAX_ANSWERS)]
    replace: bool = Field(False, description="Whether another answer of the same model to the same prompt is replaced.")


class AnswerCounts(FrozenModel):
    """What became of answers."""

    prompts: int = Field(0, description="New prompts.")
    created: int = 0
    duplicate: int = Field(0, description="Answers that are here already.")
    replaced: int = 0
    conflict: int = Field(0, description="Answers that were left out: the model has another answer to the prompt here.")


class Prompt(FrozenModel):
    """A prompt on record."""

    id: UUID
    text: str
    language: str | None
    category: str | None
    reference: str | None
    created_at: datetime
    answers: int = Field(description="Models whose answers may be shown.")


class Answer(FrozenModel):
    """An answer that may be shown."""

    model: str
    text: str
    created_at: datetime


class PromptWithAnswers(Prompt):
    """A prompt with the models' answers."""

    shown: list[Answer]


class ModelCoverage(FrozenModel):
    """How many prompts a model has answered."""

    model: str
    answers: int
    categories: dict[str, int] = Field(description="The same by category; an empty name stands for none.")


class Coverage(FrozenModel):
    """What can be shown: prompts, and the models with answers to them."""

    prompts: int
    categories: dict[str, int] = Field(description="Prompts by category; an empty name stands for none.")
    models: list[ModelCoverage]


class Withdrawal(ClosedModel):
    """Which answers are no longer shown."""

    model: Name = Field(description="Name of the model.")
    prompt_id: UUID | None = Field(None, description="Only the answer to this prompt; null for all of the model.")


class Withdrawn(BaseModel):
    """How many answers were withdrawn."""

    withdrawn: int
