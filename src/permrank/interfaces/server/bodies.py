"""What requests and answers hold, as the OpenAPI description has it. Ids and titles are text, and never markup."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator

from permrank.markup import UNSAFE
from permrank.types import Named

# Names and titles as people see them: two that look the same are the same, and none is blank.
# Default-ignorable code points of Unicode, which show nothing by themselves: zero-width spaces and joiners, soft
# hyphens, marks of direction, fillers, variation selectors, tags.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_NON_JOINER, _JOINER, _EMOJI, _EMPTY_BRAILLE = "\u200c", "\u200d", "\ufe0f", "\u2800"
_VIRAMA = 9  # canonical combining class


def seen(text: str) -> str:
    r"""Text without what nobody sees; control characters, and marks that turn the direction of text, are refused.

    Invisible marks go but where a script needs them: joiners in Arabic and Indic words and between the parts of an
    emoji, and selectors after symbols. Letters are composed (NFC), so that an accent is the same however it was typed.

    Examples
    --------
    >>> seen("  an\u200bn\u00ad \ufeff"), seen("e\u0301") == "é"
    ('ann', True)
    >>> seen("👩\u200d🍳") == "👩\u200d🍳", seen("a\u200db")
    (True, 'ab')
    """
    if UNSAFE.search(text.replace("\n", " ")):
        raise ValueError("holds control characters; leave them out")
    text = unicodedata.normalize("NFC", text).replace(_EMPTY_BRAILLE, " ")
    return _INVISIBLE.sub(lambda found: found[0] if _is_needed(text, found.start()) else "", text).strip()


def one_line(text: str) -> str:
    r"""Text that is to be told from others: white space of any kind is one space, and blank text is refused.

    Examples
    --------
    >>> one_line("ann \u3000 lee")
    'ann lee'
    """
    text = " ".join(text.split())
    if not text:
        raise ValueError("is blank; write something that can be seen")
    return text


def _is_needed(text: str, at: int) -> bool:
    """Whether a mark that is invisible by itself changes what is seen before or after it."""
    before, mark, after = text[at - 1 : at], text[at], text[at + 1 : at + 2]
    if before.isascii():  # or there is nothing before it
        return False
    if mark not in (_NON_JOINER, _JOINER):
        return "\ufe00" <= mark <= "\ufe0f" and unicodedata.category(before)[0] == "S"
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if not after:
        return False
    if unicodedata.bidirectional(before) == unicodedata.bidirectional(after) == "AL":
        return True
    is_emoji = unicodedata.category(text[at - 2] if before == _EMOJI and at > 1 else before) in ("So", "Sk")
    return mark == _JOINER and is_emoji and unicodedata.category(after) == "So"


MOST_ITEMS, MOST_ANSWERS, MOST_LISTS = 1_000, 1_000, 200
"""Items of a poll or a list, answers in a body, and people in one question to the model."""


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("is not Unicode: half of a surrogate pair") from error
    return text


# The description says what it can of this: no control characters but the end of a line.
_Clean = (
    AfterValidator(_unicode),
    AfterValidator(seen),
    Field(json_schema_extra={"pattern": r"^[^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$"}),
)
Title = Annotated[str, StringConstraints(min_length=1, max_length=200), *_Clean, AfterValidator(one_line)]
About = Annotated[str, StringConstraints(max_length=2_000), *_Clean]
ItemId = Annotated[str, StringConstraints(min_length=1, max_length=100), *_Clean, AfterValidator(one_line)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100), *_Clean, AfterValidator(one_line)]
AnyId = Annotated[str | int, Field(union_mode="left_to_right")]
ClientKey = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$")]
Picture = Annotated[str, StringConstraints(max_length=300, pattern=r"^(/pictures/[A-Za-z0-9_-][A-Za-z0-9._/-]*)?$")]
Shows = Literal["always", "voted", "closed"]


class Body(BaseModel):
    """A request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Item(Body):
    """One thing to be ranked."""

    id: Annotated[ItemId | None, Field(description="Left out, the title is the id.")] = None
    title: Title
    about: About = ""
    picture: Annotated[Picture, Field(description="A path on this server below /pictures/.")] = ""

    @property
    def name(self) -> str:
        """What the item is known by."""
        return self.id or one_line(seen(self.title[:100]))

    @field_validator("picture")
    @classmethod
    def _below(cls, value: str) -> str:
        if ".." in value or "//" in value:
            raise ValueError("is not a path below /pictures/")
        return value


class NewPoll(Body):
    """A poll to be made."""

    title: Title
    about: About = ""
    items: Annotated[list[Item], Field(min_length=2, max_length=MOST_ITEMS)]
    shows: Annotated[
        Shows, Field(description="When voters see the result: always, once they voted, or when closed.")
    ] = "always"

    @field_validator("items")
    @classmethod
    def _once(cls, items: list[Item]) -> list[Item]:
        known: set[str] = set()
        for item in items:
            if item.name in known:
                raise ValueError(
                    f"{item.name!r} comes twice; items are known by their id, or the first 100 characters of a title"
                )
            known.add(item.name)
        return items


class PollChange(Body):
    """What may be changed of a poll."""

    title: Title | None = None
    about: About | None = None
    shows: Shows | None = None
    state: Literal["open", "closed"] | None = None


class NewPerson(Body):
    """Somebody who takes part."""

    name: Name | None = Field(None, description="One vote for each name; left out, for each key that is given out.")


class NewKey(Body):
    """A key to be made."""

    role: Literal["vote", "read", "admin", "person"]
    name: Name | None = Field(None, description="Of the person, for a personal link.")
    label: About = ""


_Ids = Annotated[list[ItemId], Field(max_length=MOST_ITEMS)]


class Said(Body):
    """What all answers have."""

    shown: _Ids = Field([], description="Items that were on the screen, in their order.")
    key: ClientKey | None = Field(None, description="The same key again is the same answer, stored once.")


class ListAnswer(Said):
    """A whole or partial ranking, best first; it takes the place of this person's former one."""

    kind: Literal["list"]
    ranking: Annotated[list[ItemId], Field(min_length=1, max_length=MOST_ITEMS)]


class TiersAnswer(Said):
    """Groups of equals, best first; it takes the place of this person's former ranking."""

    kind: Literal["tiers"]
    ranking: Annotated[
        list[Annotated[list[ItemId], Field(min_length=1, max_length=MOST_ITEMS)]],
        Field(min_length=1, max_length=MOST_ITEMS),
    ]


class PairAnswer(Said):
    """Which of two is better."""

    kind: Literal["pair"]
    better: ItemId
    worse: ItemId


class BestWorstAnswer(Said):
    """The best and the worst of some."""

    kind: Literal["best_worst"]
    items: Annotated[list[ItemId], Field(min_length=3, max_length=20)]
    best: ItemId
    worst: ItemId


class SkipAnswer(Said):
    """A question that was passed over; the same is not asked again."""

    kind: Literal["skip"]
    items: Annotated[list[ItemId], Field(min_length=2, max_length=20)]


Answer = Annotated[ListAnswer | TiersAnswer | PairAnswer | BestWorstAnswer | SkipAnswer, Field(discriminator="kind")]


class NewAnswers(Body):
    """One or many answers; all are stored, or none."""

    answers: Annotated[list[Answer], Field(min_length=1, max_length=MOST_ANSWERS)]
    person: Name | None = Field(None, description="Whose they are, by name; with an admin's key only.")


_Rating = Annotated[float, Field(allow_inf_nan=False)]
_Tier = Annotated[list[AnyId], Field(min_length=1, max_length=MOST_ITEMS)]


class Someone(Body):
    """Who a question is about: somebody known, or somebody new by a list (best first) or by ratings."""

    person: AnyId | None = None
    ranking: Annotated[list[AnyId | _Tier], Field(max_length=MOST_ITEMS)] | None = None
    ratings: Annotated[dict[str, _Rating], Field(max_length=MOST_ITEMS)] | None = None


class Recommend(Someone):
    """What would they choose next?"""

    k: Annotated[int, Field(ge=1, le=1_000)] = 10
    exclude: Annotated[list[AnyId], Field(max_length=MOST_ITEMS)] = []
    reasons: bool = Field(False, description="Say why, in a sentence each.")


class RecommendMany(Body):
    """The same question about several people."""

    people: Annotated[list[Someone], Field(min_length=1, max_length=MOST_LISTS)]
    k: Annotated[int, Field(ge=1, le=1_000)] = 10


class Rank(Someone):
    """In which order do they put these?"""

    items: Annotated[list[AnyId], Field(min_length=1, max_length=MOST_ITEMS)]
    interval: bool = False


class Prefers(Someone):
    """How likely is it that they put the first of each pair before the second?"""

    pairs: Annotated[
        list[Annotated[list[AnyId], Field(min_length=2, max_length=2)]], Field(min_length=1, max_length=MOST_LISTS)
    ]


class Explain(Someone):
    """Why would they choose this?"""

    item: AnyId


class PersonList(Body):
    """What a person says, a list or ratings as the model's data are: kept, used at once, and learnt from."""

    ranking: Annotated[list[AnyId | _Tier], Field(min_length=1, max_length=MOST_ITEMS)] | None = None
    ratings: Annotated[dict[str, _Rating], Field(min_length=1, max_length=MOST_ITEMS)] | None = None


class ProblemDocument(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    remedy: str | None = None
    errors: list[Named] | None = None
