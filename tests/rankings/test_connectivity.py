"""Components of the comparison graph, and the description that reports them."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import permrank as pr
from permrank.rankings.describe import strong_components

LISTS = st.lists(
    st.permutations(range(6)).flatmap(
        lambda p: st.tuples(st.just(p), st.integers(1, 6), st.lists(st.booleans(), min_size=6, max_size=6))
    ),
    min_size=1,
    max_size=4,
)


def tied(order, length, glue):
    blocks = []
    for item, together in zip(order[:length], glue, strict=False):
        if together and blocks:
            blocks[-1].append(item)
        else:
            blocks.append([item])
    return blocks


def naive_components(lists, n, ties_connect):
    """Transitive closure of the full relation, by Warshall."""
    reach = np.eye(n, dtype=bool)
    for blocks in lists:
        for above, below in itertools.combinations(range(len(blocks)), 2):
            for a, b in itertools.product(blocks[above], blocks[below]):
                reach[a, b] = True
        if ties_connect:
            for block in blocks:
                for a, b in itertools.permutations(block, 2):
                    reach[a, b] = True
    for k in range(n):
        reach |= reach[:, [k]] & reach[[k], :]
    return reach & reach.T


@settings(deadline=None, max_examples=200)
@given(LISTS, st.booleans())
def test_components_agree_with_the_transitive_closure(drawn, ties_connect):
    lists = [tied(*each) for each in drawn]
    rankings = pr.Rankings.from_lists(lists, users=range(len(lists)), items=range(6))
    components = strong_components(rankings, ties_connect=ties_connect)
    same = components.labels[:, None] == components.labels[None, :]
    np.testing.assert_array_equal(same, naive_components(lists, 6, ties_connect))
    assert components.sizes.tolist() == sorted(components.sizes.tolist(), reverse=True)
    assert components.sizes.tolist() == np.bincount(components.labels).tolist()
    assert components.connected == bool(same.all())


def test_a_description_counts_what_is_there():
    rankings = pr.Rankings.from_lists([["a", {"b", "c"}], ["c", "a"]], weights=[3, 1], items=["z"])
    described = rankings.describe()
    assert described.n_rankings == 2
    assert described.total_weight == 4
    assert described.n_unranked_items == 1
    assert (described.min_length, described.median_length, described.max_length) == (2, 3, 3)
    assert described.mean_length == 2.75
    assert described.tied_share == 2 / 5
    assert described.largest_tie == 2
    assert described.density == 5 / 8
    assert not described.connected
    assert described.n_components == 3
    assert described.largest_component == 2
    assert "connected          no" in str(described)
    assert described.to_frame().height == len(described.to_dict())
