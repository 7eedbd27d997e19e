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
# A double is 2^(exponent - bias) times its fraction.
_FRACTION, _FRACTION_BITS, _HALF_BIT, _BIAS = np.int64(2**52 - 1), np.int64(52), np.int64(51), np.int64(1023)
_LOG_2 = math.log(2.0)


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


@njit(error_model="numpy")
def minus_logs(out):
    """-log of positive float64 numbers, in place.

    x = 2^k m with m in [3/4, 3/2), and log m = 2 artanh s, s = (m - 1) / (m + 1): the series to s^19 errs by less than
    the rounding. Loops without a call are turned into vector instructions.
    """
    words, powers = out.view(np.int64), np.empty(out.size)
    for i in range(out.size):
        word = words[i]
        large = (word >> _HALF_BIT) & np.int64(1)  # whether the fraction is 3/2 or more
        powers[i] = (word >> _FRACTION_BITS) - _BIAS + large
        words[i] = (word & _FRACTION) | ((_BIAS - large) << _FRACTION_BITS)
    for i in range(out.size):
        s = (out[i] - 1.0) / (out[i] + 1.0)
        square = s * s
        series = square / 19.0 + 1.0 / 17.0
        series = series * square + 1.0 / 15.0
        series = series * square + 1.0 / 13.0
        series = series * square + 1.0 / 11.0
        series = series * square + 1.0 / 9.0
        series = series * square + 1.0 / 7.0
        series = series * square + 1.0 / 5.0
        series = series * square + 1.0 / 3.0
        out[i] = -(powers[i] * _LOG_2 + 2.0 * s * (series * square + 1.0))


@njit(error_model="numpy")
def many_exponentials(key, out):
    """`exponential` of the counters from 0 on, into a float64 array, four times as fast."""
    for i in range(out.size):
        out[i] = uniform(key, np.uint64(i))
    minus_logs(out)


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
