"""Whether counts say anything about taste: if not, all entries count alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from permrank.families.catalogue.blend import hold_out_entries, judged
from permrank.families.catalogue.entries import Entries, Scale, user_weights
from permrank.families.catalogue.item_weights import ItemScores, filter_weights
from permrank.learning.held_out import choose_by_held_out
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array


def choose_scale(rankings: Rankings, seed: int) -> Scale:
    """The scale of the data, without counts if held-out entries are found clearly better when these are left out.

    What is found is worth its grade either way, so that nothing favours one of the two; neighbours are those of the
    filter, which takes seconds for any catalogue. Ratings are not questioned: they say what somebody likes, while a
    low one makes an item no less likely to have been taken up.
    """
    usual = Scale.of(rankings)
    if rankings.counts is None:
        return usual
    without = replace(usual, median=0.0)
    graded, flat = Entries.of(rankings, usual), Entries.of(rankings, without)
    weights, n_items = user_weights(rankings), rankings.n_items
    held, other = hold_out_entries(graded, n_items, seed), hold_out_entries(flat, n_items, seed)
    if held is None or other is None:
        return usual
    parts = {usual: held, without: (other[0], other[1]._replace(hidden=held[1].hidden))}

    def gain(scale: Scale) -> Float64Array:
        known, judges = parts[scale]
        return np.asarray(judged([ItemScores(filter_weights(known, n_items, weights))], [[1.0]], judges)[0])

    return choose_by_held_out((usual, without), gain).unless_usual(usual)
