"""Random lists with ties, and the probability of an order by enumeration."""

import itertools

import numpy as np

import permrank as pr


def ranking_probability(order, scores):
    """Stage by stage, in plain Python (§3, eq. 1)."""
    left = [np.exp(scores[item]) for item in order]
    product = 1.0
    for stage in range(len(left)):
        product *= left[stage] / sum(left[stage:])
    return product


def consistent_orders(blocks):
    """All strict orders that a tied ranking allows."""
    groups = [sorted(block) if isinstance(block, set) else [block] for block in blocks]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [item for part in parts for item in part]


def random_rankings(seed, n_rankings=30, n_items=6, ties=True):
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(n_rankings):
        order = rng.permutation(n_items)[: rng.integers(2, n_items + 1)].tolist()
        blocks = [[order[0]]]
        for item in order[1:]:
            if ties and rng.random() < 0.3:
                blocks[-1].append(item)
            else:
                blocks.append([item])
        lists.append([block[0] if len(block) == 1 else set(block) for block in blocks])
    return pr.Rankings.from_lists(lists, users=range(n_rankings), weights=rng.integers(1, 4, n_rankings))
