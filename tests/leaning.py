"""Lists that lean to an order, and learning that is broken off, for the tests of the paper's claims."""

import random

ITEMS = ["a", "b", "c", "d", "e", "f"]


def leaning_lists(n_users, lengths, seed=0, n_items=6):
    """Lists of some of the items, by user, in a random order that leans to the alphabet."""
    rng = random.Random(seed)
    lists = {}
    for u in range(n_users):
        chosen = rng.sample(ITEMS[:n_items], lengths[u % len(lengths)])
        lists[f"u{u}"] = sorted(chosen, key=lambda item: ITEMS.index(item) + 4 * rng.random())
    return lists


def stopped_after(sweeps):
    """A callback that breaks learning off."""
    return lambda progress: progress.iteration >= sweeps
