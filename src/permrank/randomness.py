"""Seeds: one generator for a call, and one reproducible stream for every (seed, user, sweep)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from permrank.errors import InputError

Seed: TypeAlias = int | np.integer | np.random.Generator | None

_WORD = (1 << 64) - 1
# The odd integer nearest to 2**64 / golden ratio: its multiples spread evenly over the words (Weyl sequence).
_GOLDEN = 0x9E3779B97F4A7C15
# First 64 bits of the fraction of sqrt(2): keeps keys that are derived apart from numbers that are drawn.
_BRANCH = 0x6A09E667F3BCC908


def generator(seed: Seed = None) -> np.random.Generator:
    """Return the generator that a seed stands for.

    Parameters
    ----------
    seed : int, None or numpy.random.Generator
        A whole number from 0 up gives the same numbers every time, None fresh ones; a generator is handed
        back as it is, so that a caller can share one.

    Returns
    -------
    numpy.random.Generator
        Ready to draw from.

    Raises
    ------
    InputError
        The seed is negative, or no whole number.

    Examples
    --------
    >>> from permrank.randomness import generator
    >>> bool(generator(7).random() == generator(7).random())
    True
    >>> rng = generator(7)
    >>> generator(rng) is rng
    True
    """
    if seed is None or isinstance(seed, np.random.Generator):
        return np.random.default_rng(seed)
    return np.random.default_rng(_whole(seed, "seed"))


def stream_key(seed: Seed, *indices: int | np.integer) -> np.uint64:
    """Return the key of the stream of (seed, index, index, ...), for example (seed, user, sweep).

    Kernels read their random numbers as pure functions of such a key and a counter (``kernels/streams.py``),
    so that a result depends on neither threads, shards nor the order of arrival. Every index is folded in by
    itself: ``stream_key(seed, user)`` is what ``derive(stream_key(seed), user)`` gives inside a kernel.

    Parameters
    ----------
    seed : int, None or numpy.random.Generator
        A whole number of any size from 0 up. None gives a new key at every call, a generator its next one.
    *indices : int
        Whole numbers from 0 to 2**64 - 1. Their order matters.

    Returns
    -------
    numpy.uint64
        The key.

    Raises
    ------
    InputError
        The seed or an index is negative, too large, or no whole number.

    Examples
    --------
    >>> from permrank.randomness import stream_key
    >>> bool(stream_key(0, 3, 1) == stream_key(0, 3, 1))
    True
    >>> bool(stream_key(0, 3, 1) == stream_key(0, 1, 3))
    False
    """
    if seed is None or isinstance(seed, np.random.Generator):
        number = int(generator(seed).integers(1 << 64, dtype=np.uint64))
    else:
        number = _whole(seed, "seed")
    n_words = max(1, -(-number.bit_length() // 64))
    key = _mixed(n_words * _GOLDEN & _WORD)  # the length goes first: a long seed is no short one with indices
    for word in range(n_words):
        key = _derived(key, number >> 64 * word & _WORD)
    for number, index in enumerate(indices):
        whole = _whole(index, f"index {number}")
        if whole > _WORD:
            raise InputError(f"index {number} must be below 2**64, not {whole}; put large numbers in the seed")
        key = _derived(key, whole)
    return np.uint64(key)


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number, not {value!r} of type {type(value).__name__}")
    if value < 0:
        raise InputError(f"{name} must not be negative, but is {int(value)}; take any whole number from 0 up")
    return int(value)


def _derived(key: int, index: int) -> int:
    """`kernels.streams.derive` in Python integers."""
    branch = key ^ _BRANCH
    return _mixed(_mixed(branch + _GOLDEN * (index + 1) & _WORD) ^ branch)


def _mixed(word: int) -> int:
    """`kernels.streams.mixed` in Python integers: the finaliser of splitmix64 (Stafford's variant 13)."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31
