"""Real films: what people have seen and liked is found."""

import numpy as np
import pytest

import permrank as pr


@pytest.mark.realdata
def test_hidden_films_are_found_among_all(data_folder):
    films = pr.datasets.load("ml-100k")
    often = np.bincount(films.items, minlength=films.n_items) >= 50  # 603 of them, for time
    split = pr.Catalogue().split(films.select(items=films.item_ids.take(np.flatnonzero(often))), seed=11)
    models = {
        "popularity": pr.Popularity(),
        "ones": pr.ItemToItem(ridge=500.0, dropout=0.01),
        "items": pr.ItemToItem(),
        "both": pr.Recommender(pr.MeanRating(), n_factors=32),
    }
    found = {}
    for name, model in models.items():
        found[name] = pr.evaluate(model, split, metrics=["ndcg"], k=10).per_user["ndcg"].to_numpy()
    error = {name: (found["both"] - values).std() / np.sqrt(len(values)) for name, values in found.items()}
    gain = {name: (found["both"] - values).mean() for name, values in found.items()}
    assert gain["popularity"] > 10 * error["popularity"]
    assert gain["items"] > -2 * error["items"]
    # Penalties by leaving out one user: better than the usual ridge, which is five times as large as it should be.
    assert (found["items"] - found["ones"]).mean() > 0
