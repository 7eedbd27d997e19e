"""Names and titles as people see them: two that look the same are the same, and none is blank."""

from __future__ import annotations

import re
import unicodedata

from permrank.markup import UNSAFE

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
