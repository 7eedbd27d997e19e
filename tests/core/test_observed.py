"""What somebody new has listed: plain lists and ratings are read without frames, and mean the same."""

from types import MappingProxyType

import numpy as np
import pytest

import permrank as pr
from permrank.core.observed import observed
from permrank.errors import InputError, UnknownIdError

STARS = np.tile(np.arange(1, 6), 20)
ITEMS = np.tile([3, 5, 8, 13, 21], 20)
RATED = pr.Rankings.from_ratings({"user": np.repeat(np.arange(20), 5), "item": ITEMS, "rating": STARS})
LISTED = pr.Rankings.from_lists([["ann", "bob", "cat"], ["cat", "dan"]])


@pytest.mark.parametrize(
    ("known", "quick", "slow"),
    [
        (RATED, {21: 3, 5: 5.0, 3: 3, 13: 1}, MappingProxyType({21: 3, 5: 5.0, 3: 3, 13: 1})),
        (RATED, {8: 2}, MappingProxyType({8: 2})),
        (RATED, [13, 3, 21], (13, 3, 21)),
        (LISTED, ["dan", "ann"], ("dan", "ann")),
    ],
)
def test_lists_and_dicts_are_as_other_sequences_and_mappings(known, quick, slow):
    one, other = (observed(said, known) for said in (quick, slow))
    assert one.item_ids is known.item_ids
    assert other.item_ids is not known.item_ids  # made from a frame
    assert one.lists() == other.lists()
    for name in ("user_indptr", "indptr", "levels", "weights", "ratings"):
        found, wanted = getattr(one, name), getattr(other, name)
        assert (found is None) == (wanted is None)
        if found is not None:
            np.testing.assert_array_equal(found, wanted, strict=True)
    fitted = pr.Popularity().fit(known).fitted_
    np.testing.assert_array_equal(fitted.aligned(one), fitted.aligned(other))


@pytest.mark.parametrize(
    ("said", "error", "match"),
    [
        ({4: 3}, UnknownIdError, "unknown item 4"),
        ({3: float("nan")}, InputError, "not a finite number"),
        ({3: "five"}, InputError, "ratings are numbers"),
        ({3: 9}, InputError, "not on the scale"),
        ({True: 3}, InputError, "Boolean"),
        ([3, 3], InputError, "comes twice"),
        ([3, "ann"], InputError, "ids must be all"),
    ],
)
def test_what_is_not_plain_is_told_as_ever(said, error, match):
    with pytest.raises(error, match=match):
        observed(said, RATED)


def test_a_newcomer_by_indices_gets_what_somebody_who_is_folded_in_does():
    model = pr.ItemToItem().fit(pr.datasets.simulated(60, 12, n_communities=2, list_length=6, seed=1).rankings)
    fitted, ids = model.fitted_, model.item_ids
    people = [
        fitted.newcomer(np.array(items), np.array(levels)) for items, levels in (([3, 7, 1], [0, 0, 1]), ([4], [0]))
    ]
    lengths, items, scores = fitted.best(people, 4)
    folded = [model.fold_in([{ids[3], ids[7]}, ids[1]]), model.fold_in([ids[4]])]
    wanted = model.recommend(folded, 4)
    assert lengths.tolist() == [4, 4]
    assert [ids[at] for at in items] == wanted["item"].to_list()
    np.testing.assert_allclose(scores, wanted["score"].to_numpy(), rtol=1e-6)
    assert items[:4].tolist() != items[4:].tolist()  # control: it matters who is asked
    assert not np.isin(fitted.best(people[:1], 12)[1], [3, 7, 1]).any()
    assert np.isin([3, 7, 1], fitted.best(people[:1], 12, exclude_listed=False)[1]).all()
