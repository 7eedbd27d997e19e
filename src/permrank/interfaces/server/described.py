"""What is answered, for the OpenAPI description: tests hold answers against it, no request pays for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import models_json_schema

Model = type[BaseModel]


class Answer(BaseModel):
    """An answer: exactly these members."""

    model_config = ConfigDict(extra="forbid")


class Row(BaseModel):
    """A row of a table; a model may add columns, such as titles and probabilities."""

    model_config = ConfigDict(extra="allow")


def answer(name: str, about: str, base: Model = Answer, /, **members: Any) -> Model:
    """A kind of answer with these members, by their types: [T] is a list of T, and (T, value) may be left out."""

    def typed(kind: Any) -> Any:
        return list[typed(kind[0])] if isinstance(kind, list) else kind  # type: ignore[misc]

    fields: Any = {key: kind if isinstance(kind, tuple) else (typed(kind), ...) for key, kind in members.items()}
    return create_model(name, __base__=base, __doc__=about, **fields)


def _told(kind: Any, description: str | None = None, ge: float | None = None, le: float | None = None) -> Any:
    return Annotated[kind, Field(description=description, ge=ge, le=le)]


def _share(description: str | None = None) -> Any:
    return _told(float, description, ge=0.0, le=1.0)


_STATE = Literal["open", "closed"]

# Polls
Status = answer("Status", "Of the process.", status=str)
PollKeys = answer("PollKeys", "Keys of a new poll; shown once.", vote=str, read=str, admin=str)
MadePoll = answer("MadePoll", "A new poll.", id=str, keys=PollKeys)
PollAbout = answer(
    "PollAbout", "What a poll asks.", id=str, title=str, about=str, shows=Literal["always", "voted", "closed"],
    state=_STATE, created=_told(float, "Seconds since 1970."), closed=float | None,
)  # fmt: skip
PollPage = answer("PollPage", "Some polls, and where to go on.", polls=[PollAbout], next=str | None)
PollItem = answer("PollItem", "One thing to be ranked.", id=str, title=str, about=str, picture=str)
PollShown = answer(
    "PollShown", "A poll with its items, and who the caller is in it.", PollAbout, items=[PollItem],
    person=str | None, name=str | None, may=[Literal["admin", "vote", "read"]],
)  # fmt: skip
MadeKey = answer("MadeKey", "A new key; shown once.", key=str, role=str, person=str | None)
KeyAbout = answer(
    "KeyAbout", "What is kept of a key.", id=str, role=str, person=str | None, label=str, created=float,
    revoked=float | None,
)  # fmt: skip
KeyPage = answer("KeyPage", "Some keys, and where to go on.", keys=[KeyAbout], next=str | None)
Joined = answer(
    "Joined", "Somebody who takes part; a browser keeps the key as a cookie instead.", person=str, name=str | None,
    key=(str, ""),
)  # fmt: skip
PersonAbout = answer(
    "PersonAbout", "Somebody who takes part.", id=str, name=str | None, created=float, answers=int,
    latest=float | None,
)  # fmt: skip
PersonPage = answer("PersonPage", "Some people, and where to go on.", people=[PersonAbout], next=str | None)
Erased = answer(
    "Erased", "Who or what was erased, and how many answers went.", erased=str, answers=int,
    pending=_told(bool, "Whether it is still in a file: it is removed from there as soon as possible."),
)  # fmt: skip
Stored = answer("Stored", "The number of an answer, and whether it was there already.", seq=int, again=bool)
StoredAnswers = answer("StoredAnswers", "Of every answer that was sent, in their order.", answers=[Stored])
GivenAnswer = answer(
    "GivenAnswer", "An answer as it was given.", seq=int, person=str,
    kind=Literal["list", "tiers", "pair", "best_worst", "skip"], said=[Any], shown=[str], at=float,
)  # fmt: skip
AnswerPage = answer(
    "AnswerPage", "Some answers, and the number after which to go on.", answers=[GivenAnswer], next=int | None
)
Mine = answer("Mine", "The caller's last ranking.", ranking=list[list[str]] | None)
SoFar = answer(
    "SoFar", "One item of the order so far.", item=str, before_next=_share("How likely it belongs before the next one.")
)
Question = answer(
    "Question", "The next question.", items=_told(list[str], "Two or four; none where everything has been asked."),
    gain=_told(float, "What the answer is expected to tell.", ge=0.0),
    certainty=_share("Expected share of pairs in the right order."), enough=bool, answered=int, order=[SoFar],
)  # fmt: skip
ResultItem = answer(
    "ResultItem", "One item of the group's order.", rank=int, item=str, title=str, score=float, rank_low=int,
    rank_high=int, group=_told(int, "Items of one group cannot be told apart; 0 with too many items to say."),
    favourite=_share("Probability to be the group's best."),
    first_choice=_share("Probability that a person would choose it first."), listed=int,
)  # fmt: skip
ClosePair = answer(
    "ClosePair", "Neighbours that could as well be the other way round.", item=str, other=str, probability=_share()
)
Community = answer("Community", "A taste: which share of people, and what sets it apart.", share=float, items=[str])
Apart = answer(
    "Apart", "An item that the caller and the group put at different ranks.", item=str, yours=float, group=int
)
Differences = answer(
    "Differences", "Where the caller differs from the group.",
    agree=_told(float | None, "Share of the caller's pairs that the group has in the same order."), items=[Apart],
)  # fmt: skip
Result = answer(
    "Result", "What the group thinks.", poll=str, title=str, state=_STATE, people=int, answers=int,
    as_of=_told(int, "Number of the last answer that counts."),
    age=_told(float, "Seconds since it was worked out.", ge=0.0), model=str, level=float,
    items=[ResultItem], close=[ClosePair], cycles=[[str]], communities=[Community], communities_as_of=int | None,
    you=Differences | None,
)  # fmt: skip

# The model
Stamped = answer(
    "Stamped", "Which version of the model has answered, and how old it is.",
    version=_told(int, "0 is the file that was served at first."),
    age=_told(float, "Seconds since the version was made.", ge=0.0),
)  # fmt: skip
ModelAbout = answer(
    "ModelAbout", "Which model.", Stamped, model=str, items=int, people=int, takes=Literal["rankings", "ratings"]
)
Named = answer("Named", "An item and its title.", item=str | int, title=str)
ItemPage = answer("ItemPage", "Items that were searched for, and where to go on.", items=[Named], next=int | None)
Recommendation = answer("Recommendation", "One of the best.", Named, rank=int, score=float, because=(str | None, None))
Recommendations = answer("Recommendations", "The best, best first.", Stamped, items=[Recommendation])
ManyRecommendations = answer(
    "ManyRecommendations", "The same for each of several people.", Stamped, people=[[Recommendation]]
)
RankedRow = answer("RankedRow", "An item with its rank.", Row, item=str | int)
Table = answer("Table", "Items in an order.", Stamped, items=[RankedRow])
Probabilities = answer("Probabilities", "Of the pairs, in their order.", Stamped, probabilities=[float])
Reasons = answer("Reasons", "Why, in a sentence and as parts of the score.", Stamped, because=str, reasons=[Row])
Kept = answer("Kept", "A list that was stored.", person=str, seq=int)

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
