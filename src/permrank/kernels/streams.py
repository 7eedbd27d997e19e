"""Random numbers as pure functions of (key, counter).

There is no state: a kernel takes a key of (seed, user, sweep), from `permrank.randomness.stream_key` or
`derive`, and counts from 0, so the same numbers come out for any number of threads and in any order. The
words are two rounds of splitmix64,

    bits(key, c) = mix(mix(key + (c + 1) γ) xor key),   γ = 2^64 / golden ratio, made odd,

where one round alone would let the streams of two keys that differ by a multiple of γ overlap.
"""

import math

import numpy as np

from permrank.kernels.jit import njit

# Signatures are given: counters come as literals, signed and unsigned integers, and Numba would compile for each.
# Every constant is typed: Numba turns int64 with uint64 into float64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # odd integer nearest to 2**64 / golden ratio
_BRANCH = np.uint64(0x6A09E667F3BCC908)  # fraction of sqrt(2); as in permrank.randomness
_FIRST = np.uint64(0xBF58476D1CE4E5B9)  # Stafford's variant 13, as in splitmix64; so is the next
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE, _TWO = np.uint64(1), np.uint64(2)
_SHIFT_11, _SHIFT_27, _SHIFT_30, _SHIFT_31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_STEP = 2.0**-53


@njit(signature="uint64(uint64)", error_model="numpy")
def mixed(word):
    """Finaliser of splitmix64: a bijection of words where each bit put in reaches every bit of the result."""
    word = np.uint64(word)
    word = (word ^ (word >> _SHIFT_30)) * _FIRST
    word = (word ^ (word >> _SHIFT_27)) * _SECOND
    return word ^ (word >> _SHIFT_31)


@njit(signature="uint64(uint64, uint64)", error_model="numpy")
def bits(key, counter):
    """64 random bits: mix(mix(key + (counter + 1) γ) xor key). For one key no word comes twice."""
    key = np.uint64(key)
    return mixed(mixed(key + _GOLDEN * (np.uint64(counter) + _ONE)) ^ key)


@njit(signature="uint64(uint64, uint64)", error_model="numpy")
def derive(key, index):
    """Key of branch `index` below `key`. Branches of a key never coincide, nor are they its own words."""
    return bits(np.uint64(key) ^ _BRANCH, index)


@njit(signature="float64(uint64, uint64)", error_model="numpy")
def uniform(key, counter):
    """Uniform in the open interval (0, 1): an odd multiple of 2^-53, so no rounding can make it 0 or 1."""
    return np.float64((bits(key, counter) >> _SHIFT_11) | _ONE) * _STEP


@njit(signature="float64(uint64, uint64)", error_model="numpy")
def exponential(key, counter):
    """Standard exponential, -log U, in (1e-16, 36.8)."""
    return -math.log(uniform(key, counter))


@njit(signature="float64(uint64, uint64)", error_model="numpy")
def gumbel(key, counter):
    """Standard Gumbel, -log(-log U): s_i + Gumbel is the largest with probability e^{s_i} / sum_j e^{s_j}."""
    return -math.log(exponential(key, counter))


@njit(signature="float64(uint64, uint64)", error_model="numpy")
def normal(key, counter):
    """Standard normal by Box and Muller: sqrt(-2 log U) cos(2 pi V), from words 2 counter and 2 counter + 1."""
    counter = np.uint64(counter) * _TWO
    radius = math.sqrt(-2.0 * math.log(uniform(key, counter)))
    return radius * math.cos(2.0 * math.pi * uniform(key, counter + _ONE))
