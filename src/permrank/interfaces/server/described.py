"""What is answered, for the OpenAPI description: tests hold answers against it, no request pays for it."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema


class Answer(BaseModel):
    """An answer: exactly these members."""

    model_config = ConfigDict(extra="forbid")


class Row(BaseModel):
    """A row of a table; a model may add columns, such as titles and probabilities."""

    model_config = ConfigDict(extra="allow")


class Status(Answer):
    """Of the process."""

    status: str


class PollKeys(Answer):
    """Keys of a new poll; shown once."""

    vote: str
    read: str
    admin: str


class MadePoll(Answer):
    """A new poll."""

    id: str
    keys: PollKeys


class PollAbout(Answer):
    """What a poll asks."""

    id: str
    title: str
    about: str
    shows: Literal["always", "voted", "closed"]
    state: Literal["open", "closed"]
    created: float = Field(description="Seconds since 1970.")
    closed: float | None


class PollPage(Answer):
    """Some polls, and where to go on."""

    polls: list[PollAbout]
    next: str | None


class PollItem(Answer):
    """One thing to be ranked."""

    id: str
    title: str
    about: str
    picture: str


class PollShown(PollAbout):
    """A poll with its items, and who the caller is in it."""

    items: list[PollItem]
    person: str | None
    name: str | None
    may: list[Literal["admin", "vote", "read"]]


class MadeKey(Answer):
    """A new key; shown once."""

    key: str
    role: str
    person: str | None


class KeyAbout(Answer):
    """What is kept of a key."""

    id: str
    role: str
    person: str | None
    label: str
    created: float
    revoked: float | None


class KeyPage(Answer):
    """Some keys, and where to go on."""

    keys: list[KeyAbout]
    next: str | None


class Joined(Answer):
    """Somebody who takes part; a browser keeps the key as a cookie instead."""

    person: str
    name: str | None
    key: str = ""


class PersonAbout(Answer):
    """Somebody who takes part."""

    id: str
    name: str | None
    created: float
    answers: int
    latest: float | None


class PersonPage(Answer):
    """Some people, and where to go on."""

    people: list[PersonAbout]
    next: str | None


class Erased(Answer):
    """Who or what was erased, and how many answers went."""

    erased: str
    answers: int
    pending: bool = Field(description="Whether it is still in a file: it is removed from there as soon as possible.")


class Stored(Answer):
    """The number of an answer, and whether it was there already."""

    seq: int
    again: bool


class StoredAnswers(Answer):
    """Of every answer that was sent, in their order."""

    answers: list[Stored]


class GivenAnswer(Answer):
    """An answer as it was given."""

    seq: int
    person: str
    kind: Literal["list", "tiers", "pair", "best_worst", "skip"]
    said: list[Any]
    shown: list[str]
    at: float


class AnswerPage(Answer):
    """Some answers, and the number after which to go on."""

    answers: list[GivenAnswer]
    next: int | None


class Mine(Answer):
    """The caller's last ranking."""

    ranking: list[list[str]] | None


class SoFar(Answer):
    """One item of the order so far."""

    item: str
    before_next: float = Field(ge=0.0, le=1.0, description="How likely it belongs before the next one.")


class Question(Answer):
    """The next question."""

    items: list[str] = Field(description="Two or four; none where everything has been asked.")
    gain: float = Field(ge=0.0, description="What the answer is expected to tell.")
    certainty: float = Field(ge=0.0, le=1.0, description="Expected share of pairs in the right order.")
    enough: bool
    answered: int
    order: list[SoFar]


class ResultItem(Answer):
    """One item of the group's order."""

    rank: int
    item: str
    title: str
    score: float
    rank_low: int
    rank_high: int
    group: int = Field(description="Items of one group cannot be told apart; 0 with too many items to say.")
    favourite: float = Field(ge=0.0, le=1.0, description="Probability to be the group's best.")
    first_choice: float = Field(ge=0.0, le=1.0, description="Probability that a person would choose it first.")
    listed: int


class ClosePair(Answer):
    """Neighbours that could as well be the other way round."""

    item: str
    other: str
    probability: float = Field(ge=0.0, le=1.0)


class Community(Answer):
    """A taste: which share of people, and what sets it apart."""

    share: float
    items: list[str]


class Apart(Answer):
    """An item that the caller and the group put at different ranks."""

    item: str
    yours: float
    group: int


class Differences(Answer):
    """Where the caller differs from the group."""

    agree: float | None = Field(description="Share of the caller's pairs that the group has in the same order.")
    items: list[Apart]


class Result(Answer):
    """What the group thinks."""

    poll: str
    title: str
    state: Literal["open", "closed"]
    people: int
    answers: int
    as_of: int = Field(description="Number of the last answer that counts.")
    age: float = Field(ge=0.0, description="Seconds since it was worked out.")
    model: str
    level: float
    items: list[ResultItem]
    close: list[ClosePair]
    cycles: list[list[str]]
    communities: list[Community]
    communities_as_of: int | None
    you: Differences | None


class Stamped(Answer):
    """Which version of the model has answered, and how old it is."""

    version: int = Field(description="0 is the file that was served at first.")
    age: float = Field(ge=0.0, description="Seconds since the version was made.")


class ModelAbout(Stamped):
    """Which model."""

    model: str
    items: int
    people: int
    takes: Literal["rankings", "ratings"]


class Named(Answer):
    """An item and its title."""

    item: str | int
    title: str


class ItemPage(Answer):
    """Items that were searched for, and where to go on."""

    items: list[Named]
    next: int | None


class Recommendation(Named):
    """One of the best."""

    rank: int
    score: float
    because: str | None = None


class Recommendations(Stamped):
    """The best, best first."""

    items: list[Recommendation]


class ManyRecommendations(Stamped):
    """The same for each of several people."""

    people: list[list[Recommendation]]


class RankedRow(Row):
    """An item with its rank."""

    item: str | int


class Table(Stamped):
    """Items in an order."""

    items: list[RankedRow]


class Probabilities(Stamped):
    """Of the pairs, in their order."""

    probabilities: list[float]


class Reasons(Stamped):
    """Why, in a sentence and as parts of the score."""

    because: str
    reasons: list[Row]


class Kept(Answer):
    """A list that was stored."""

    person: str
    seq: int


_POLL, _MODEL = "/v1/polls/{poll}", "/v1/model"
ANSWERS: dict[tuple[str, str], type[BaseModel]] = {
    ("get", "/health/live"): Status, ("get", "/health/ready"): Status,
    ("post", "/v1/polls"): MadePoll, ("get", "/v1/polls"): PollPage,
    ("get", _POLL): PollShown, ("patch", _POLL): PollAbout,
    ("delete", _POLL): Erased,
    ("post", f"{_POLL}/keys"): MadeKey, ("get", f"{_POLL}/keys"): KeyPage,
    ("post", f"{_POLL}/people"): Joined, ("get", f"{_POLL}/people"): PersonPage,
    ("delete", f"{_POLL}/people/{{person}}"): Erased,
    ("post", f"{_POLL}/answers"): StoredAnswers, ("get", f"{_POLL}/answers"): AnswerPage,
    ("get", f"{_POLL}/answers/mine"): Mine, ("get", f"{_POLL}/question"): Question,
    ("get", f"{_POLL}/result"): Result,
    ("get", _MODEL): ModelAbout, ("get", f"{_MODEL}/items"): ItemPage,
    ("post", f"{_MODEL}/recommend"): Recommendations, ("post", f"{_MODEL}/recommend/batch"): ManyRecommendations,
    ("post", f"{_MODEL}/rank"): Table, ("post", f"{_MODEL}/prefers"): Probabilities,
    ("post", f"{_MODEL}/explain"): Reasons, ("get", f"{_MODEL}/similar/{{item}}"): Table,
    ("put", f"{_MODEL}/people/{{person}}"): Kept, ("delete", f"{_MODEL}/people/{{person}}"): Erased,
}  # fmt: skip
"""What a request that succeeds is answered with, by method and path."""


def install(app: FastAPI) -> None:
    """Have the description of an application say what is answered."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            models = [(model, "serialization") for model in dict.fromkeys(ANSWERS.values())]
            names, defined = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
            found["components"]["schemas"] |= defined["$defs"]
            for (method, path), model in ANSWERS.items():
                responses = found["paths"][path][method]["responses"]
                for status in {"200", "201", "202"} & set(responses):
                    responses[status]["content"] = {"application/json": {"schema": names[model, "serialization"]}}
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]
