"""Random numbers as functions of (key, counter)."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from permrank.kernels.streams import bits, derive, exponential, gumbel, many_exponentials, minus_logs, uniform
from permrank.randomness import stream_key

N_DRAWS = 20_000
WORD = 2**64


def mixed_twin(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % WORD
    return word ^ (word >> 31)


def bits_twin(key, counter):
    return mixed_twin(mixed_twin((key + 0x9E3779B97F4A7C15 * (counter + 1)) % WORD) ^ key)


def drawn(function, key, size=N_DRAWS):
    return np.array([function(key, counter) for counter in range(size)])


@pytest.fixture(params=[0, 1, 2])
def key(request):
    return stream_key(request.param)


def test_words_and_numbers_equal_those_of_a_twin_in_whole_numbers(key):
    for counter in [0, 1, 2, 1000, 2**31, 2**40 + 7]:
        word = bits_twin(int(key), counter)
        assert int(bits(key, counter)) == word
        value = uniform(key, counter)
        assert value == (2 * (word >> 12) + 1) / 2**53
        assert_allclose(exponential(key, counter), -math.log(value), rtol=1e-14, atol=0)
        assert_allclose(gumbel(key, counter), -math.log(-math.log(value)), rtol=1e-13, atol=1e-15)


def test_the_finaliser_is_the_published_one():
    # splitmix64 started at 0 is mix(golden), mix(2 golden), ...: its well-known first two outputs.
    assert mixed_twin(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert mixed_twin(2 * 0x9E3779B97F4A7C15 % WORD) == 0x6E789E6AA1B965F4


def test_keys_derived_in_a_kernel_are_those_derived_in_python():
    for seed, user, sweep in [(0, 0, 0), (7, 3, 1), (2**63, 10**9, 10**6)]:
        # A kernel hands a word back as a Python integer, which Numba takes for a signed one.
        in_kernel = derive(np.uint64(derive(stream_key(seed), user)), sweep)
        assert int(in_kernel) == int(stream_key(seed, user, sweep))


def test_the_largest_and_smallest_words_stay_inside_the_open_interval():
    assert 0.0 < 1 / 2**53 < float(2**53 - 1) / 2**53 < 1.0  # the extreme odd multiples are exact
    values = drawn(uniform, np.uint64(12345))
    assert values.min() > 0.0
    assert values.max() < 1.0


def test_many_exponentials_are_those_of_one_counter_each(key):
    values = np.empty(500)
    many_exponentials(key, values)
    assert_allclose(values, drawn(exponential, key, 500), rtol=4e-15)


def test_logarithms_at_the_ends_of_the_interval_and_where_powers_of_two_change():
    edges = np.array([0.5, 0.75, 1.0])
    values = np.concatenate(([2.0**-53, 3.0 * 2.0**-53, 1e-10], np.nextafter(edges, 0.0), edges[:2]))
    expected = [-math.log(value) for value in values]
    found = values.copy()
    minus_logs(found)
    assert_allclose(found, expected, rtol=4e-15)


@pytest.mark.parametrize(
    ("function", "distribution"), [(uniform, "uniform"), (exponential, "expon"), (gumbel, "gumbel_r")]
)
def test_draws_have_their_distribution_and_a_stretched_one_is_noticed(function, distribution, key):
    values = drawn(function, key)
    assert stats.kstest(values, distribution).pvalue > 1e-4
    assert stats.kstest(1.2 * values, distribution).pvalue < 1e-6


@pytest.mark.parametrize("shift", [0, 8, 16, 24, 32, 40, 48, 56])
def test_every_byte_of_a_word_is_uniform_and_a_loaded_one_is_noticed(shift):
    words = [int(bits(stream_key(4), counter)) >> shift & 255 for counter in range(N_DRAWS)]
    counts = np.bincount(words, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4
    loaded = np.bincount([word & 0xFE if word < 52 else word for word in words], minlength=256)
    assert stats.chisquare(loaded).pvalue < 1e-6


@pytest.mark.parametrize("other", [(5, 4), (6, 3), (6, 4)])
def test_streams_of_neighbouring_users_and_sweeps_are_independent(other):
    first, second = drawn(uniform, stream_key(0, 5, 3)), drawn(uniform, stream_key(0, *other))
    for lag in [0, 1, 2, 3]:
        cells = np.histogram2d(first[lag:], second[: N_DRAWS - lag], bins=10, range=[[0, 1], [0, 1]])[0]
        assert stats.chi2_contingency(cells).pvalue > 1e-4
    leaking = 0.9 * second + 0.1 * first
    cells = np.histogram2d(first, leaking, bins=10, range=[[0, 1], [0, 1]])[0]
    assert stats.chi2_contingency(cells).pvalue < 1e-6


def test_keys_a_multiple_of_the_increment_apart_do_not_share_their_numbers():
    # One round of splitmix64 would give the second stream as the first one shifted by a place.
    golden = 0x9E3779B97F4A7C15
    first = {int(bits(np.uint64(99), counter)) for counter in range(1000)}
    second = {int(bits(np.uint64((99 + golden) % WORD), counter)) for counter in range(1000)}
    assert not first & second
