"""Seeds, generators and stream keys."""

import numpy as np
import pytest

from permrank.errors import InputError
from permrank.randomness import generator, stream_key


def test_equal_seeds_give_equal_numbers_and_different_seeds_do_not():
    assert np.array_equal(generator(5).random(4), generator(np.int64(5)).random(4))
    assert not np.array_equal(generator(5).random(4), generator(6).random(4))


def test_no_seed_gives_fresh_numbers():
    assert not np.array_equal(generator(None).random(4), generator().random(4))
    assert stream_key(None) != stream_key(None)


def test_a_generator_is_handed_back_and_not_copied():
    rng = np.random.default_rng(1)
    assert generator(rng) is rng
    assert stream_key(rng) != stream_key(rng)
    assert stream_key(np.random.default_rng(1)) == stream_key(np.random.default_rng(1))


@pytest.mark.parametrize("seed", [-1, np.int64(-3), True, np.True_, 1.0, np.float64(2), "7", [1]])
@pytest.mark.parametrize("function", [generator, stream_key, lambda value: stream_key(0, value)])
def test_what_is_no_whole_number_from_zero_up_is_refused_by_name(function, seed):
    with pytest.raises(InputError, match=r"^(seed|index 0) must (be a whole number|not be negative)"):
        function(seed)


def test_an_index_past_a_word_is_refused_but_a_long_seed_is_not():
    with pytest.raises(InputError, match=r"index 1 must be below 2\*\*64"):
        stream_key(0, 1, 1 << 64)
    assert stream_key((1 << 64) + 3) not in {stream_key(3), stream_key(3, 1), stream_key(3 << 64)}


def test_keys_are_words_that_depend_on_seed_every_index_and_their_order():
    keys = [stream_key(seed, user, sweep) for seed in range(8) for user in range(16) for sweep in range(16)]
    keys += [stream_key(seed, user) for seed in range(8) for user in range(16)]
    keys += [stream_key(seed) for seed in range(8)]
    assert all(isinstance(key, np.uint64) for key in keys)
    assert len(set(keys)) == len(keys)


def test_neighbouring_keys_differ_in_half_of_their_bits():
    flips = [
        int(stream_key(0, user, 3) ^ stream_key(0, user + 1, 3)).bit_count()
        + int(stream_key(0, user, 3) ^ stream_key(0, user, 4)).bit_count()
        for user in range(500)
    ]
    # 500 sums of 128 fair coins: mean 64, standard error sqrt(32 / 500) = 0.25
    assert abs(np.mean(flips) - 64.0) < 1.2
