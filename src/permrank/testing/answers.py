"""The contract of answers: what may be asked, of whom, about what, and by how many threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from permrank.core.ranker import Ranker
from permrank.errors import InputError, NotFittedError, NotSupportedError, UnknownIdError
from permrank.processes import threads_are_safe
from permrank.rankings.rankings import Rankings
from permrank.testing.base import Contract
from permrank.testing.questions import QUESTIONS


class AnswerContract(Contract):
    """What questions promise; those that are not in ``supports`` raise."""

    def test_the_total_likelihood_counts_ballots_by_their_weights(self, rankings: Rankings, fitted: Ranker) -> None:
        if "log_likelihood" not in self.supports:
            return
        ballots = Rankings.from_lists([["toro", "tako"], ["ika", "uni"]], weights=[3.0, 0.5])
        values = fitted.log_likelihood(ballots)
        np.testing.assert_allclose(fitted.total_log_likelihood(ballots), 3.0 * values[0] + 0.5 * values[1], rtol=1e-12)

    def test_questions_before_fit_say_so(self) -> None:
        model = self.make()
        with pytest.raises(NotFittedError, match=r"call fit\(rankings\) first"):
            model.score("ann", ["toro"])
        with pytest.raises(NotFittedError):
            model.recommend("ann")
        with pytest.raises(NotFittedError):
            model.save("nowhere.permrank")
        for name in ("item_ids", "user_ids", "fitted_", "estimate_", "rankings_", "history_"):
            assert not hasattr(model, name)
            with pytest.raises(NotFittedError, match=r"call fit\(rankings\) first"):
                getattr(model, name)

    def test_recommended_items_are_unseen_best_first_and_at_most_k(self, fitted: Ranker) -> None:
        for user, seen in {
            "bob": {"toro", "uni", "ebi"},
            "fay": {"toro"},
            "gus": set(),
            "eve": {"uni", "toro", "tako", "ika", "ebi"},
        }.items():
            frame = fitted.recommend(user, k=3)
            assert frame.columns[:3] == ["rank", "item", "score"]
            assert not set(frame["item"]) & seen
            assert frame.height == min(3, 5 - len(seen))
            assert frame["rank"].to_list() == list(range(1, frame.height + 1))
            assert frame["score"].is_sorted(descending=True)

    def test_rank_orders_by_score_whatever_the_order_of_the_question(self, fitted: Ranker) -> None:
        items = ["tako", "ebi", "uni", "toro"]
        frame = fitted.rank("ann", items)
        again = fitted.rank("ann", items[::-1])
        assert frame.equals(again)
        scores = dict(zip(items, fitted.score("ann", items), strict=True))
        assert frame["item"].to_list() == sorted(items, key=lambda item: (-scores[item], item))
        np.testing.assert_allclose(frame["score"], [scores[item] for item in frame["item"]], rtol=0, atol=0)

    def test_many_pairs_get_the_scores_of_each(self, fitted: Ranker) -> None:
        users, items = ["eve", "ann", "eve", "gus", "ann"], ["toro", "tako", "ika", "uni", "toro"]
        one_by_one = [fitted.score(user, [item])[0] for user, item in zip(users, items, strict=True)]
        np.testing.assert_allclose(fitted.score_pairs(users, items), one_by_one, rtol=1e-6, atol=1e-9)
        assert fitted.score_pairs([], []).size == 0
        for unequal in ((["ann", "eve"], ["toro"]), (["ann"], ["toro", "uni"]), ([], ["toro"])):
            with pytest.raises(InputError, match="give one item for each user"):
                fitted.score_pairs(*unequal)

    def test_intervals_contain_the_shown_rank_and_stay_within_bounds(self, fitted: Ranker) -> None:
        frame = fitted.rank("ann", ["tako", "ebi", "uni", "toro"], k=2, interval=True)
        if "rank_low" in frame.columns:
            assert (frame["rank_low"] >= 1).all()
            assert (frame["rank_high"] <= 4).all()
            assert ((frame["rank_low"] <= frame["rank"]) & (frame["rank"] <= frame["rank_high"])).all()
            np.testing.assert_allclose(frame["top_probability"].to_numpy().sum(), 2.0, rtol=1e-6)
            exact = fitted.top_probability("ann", frame["item"].to_list(), 2)
            # Drawn ones have a standard error of at most 0.016.
            np.testing.assert_allclose(frame["top_probability"], exact, rtol=0, atol=0.08)

    def test_unknown_users_and_items_are_named_with_the_nearest(self, fitted: Ranker) -> None:
        with pytest.raises(UnknownIdError, match="unknown user 'anna'; the nearest known one is 'ann'"):
            fitted.recommend("anna")
        with pytest.raises(UnknownIdError, match="unknown item 'torro'; the nearest known one is 'toro'"):
            fitted.score("ann", ["torro"])
        with pytest.raises(InputError, match="item 'toro' is given twice"):
            fitted.rank("ann", ["toro", "toro"])
        with pytest.raises(InputError, match="pass a list"):
            fitted.rank("ann", "toro")
        with pytest.raises(InputError, match="k=0"):
            fitted.recommend("ann", k=0)
        with pytest.raises(InputError, match="expected several items, got 5"):
            fitted.rank("ann", 5)  # type: ignore[arg-type]
        for strange in (["toro"], {"toro": 1}, 1.0, True):
            with pytest.raises(UnknownIdError, match="unknown user"):
                fitted.recommend(strange)
            with pytest.raises(UnknownIdError, match="unknown item"):
                fitted.rank("ann", [strange])

    def test_a_new_user_is_valid_wherever_a_user_is(self, fitted: Ranker) -> None:
        for said in (["toro", {"ika", "ebi"}], {"toro": 5, "ika": 3, "ebi": 3.5}):
            new = fitted.fold_in(said)
            assert set(fitted.recommend(new)["item"]) == {"uni", "tako"}
            assert np.isfinite(fitted.score(new)).all()
        with pytest.raises(UnknownIdError, match="unknown item 'beer'"):
            fitted.fold_in(["toro", "beer"])
        nobody = Rankings.from_lists({"zoe": []})
        empty: list[object] = [[], {}, iter(()), nobody]
        for nothing in empty:
            new = fitted.fold_in(nothing)
            assert fitted.recommend(new).height == 5
            if self.strangers_are_alike:
                np.testing.assert_allclose(fitted.score(new), fitted.score("gus"), rtol=0, atol=1e-5)
            if "prefers" in self.supports:
                assert 0 < fitted.prefers(new, "toro", "tako") < 1
            if "sample" in self.supports:
                assert sorted(fitted.sample(new, ["tako", "toro"])[0]) == ["tako", "toro"]
        for wrong in ("toro", {"toro": "x"}, 3):
            with pytest.raises(InputError, match="fold_in takes"):
                fitted.fold_in(wrong)

    def test_what_is_not_supported_raises_one_clear_error(self, fitted: Ranker) -> None:
        for name, ask in QUESTIONS.items():
            if name in self.supports:
                ask(fitted)
            else:
                with pytest.raises(NotSupportedError, match=rf"cannot answer {name}\(\)"):
                    ask(fitted)

    def test_probabilities_add_up(self, fitted: Ranker) -> None:
        if "prefers" in self.supports:
            p = fitted.prefers("ann", "toro", "tako")
            assert 0 < p < 1
            np.testing.assert_allclose(p + fitted.prefers("ann", "tako", "toro"), 1, rtol=0, atol=1e-9)
        if "top_probability" in self.supports:
            top = fitted.top_probability("ann", ["tako", "toro", "uni"], 2)
            np.testing.assert_allclose(top.sum(), 2, rtol=0, atol=1e-6)
        if "position_probabilities" in self.supports:
            positions = fitted.position_probabilities("bob", "tako")
            assert positions.shape == (4,)
            np.testing.assert_allclose(positions.sum(), 1, rtol=0, atol=1e-9)

    def test_a_sample_is_repeatable_and_holds_every_item_once(self, fitted: Ranker) -> None:
        if "sample" in self.supports:
            items = ["tako", "toro", "uni"]
            rows = fitted.sample("ann", items, size=5, seed=1)
            assert rows.shape == (5, 3)
            assert all(sorted(row) == items for row in rows.tolist())
            np.testing.assert_array_equal(rows, fitted.sample("ann", items, size=5, seed=1))
            assert (rows != fitted.sample("ann", items, size=5, seed=2)).any()

    def test_many_threads_get_the_answers_of_one(self, rankings: Rankings, fitted: Ranker, tmp_path: Path) -> None:
        if not threads_are_safe():
            pytest.skip("Numba has no threading layer here that several threads may call")

        def answers(model: Ranker) -> list[object]:
            new = model.fold_in(["toro", "ika"])
            found: list[object] = [model.recommend(user).rows() for user in ("ann", "bob", new)]
            found += [model.rank("eve", ["tako", "uni", "toro"]).rows(), model.score(new).tolist()]
            for name in sorted(self.supports):
                answer = QUESTIONS[name](model)
                found.append(answer.rows() if isinstance(answer, pl.DataFrame) else np.asarray(answer).tolist())
            return found

        # A loaded model has worked out nothing yet, so that whatever it keeps is made by many threads at once.
        fitted.save(tmp_path / "m")
        model, expected, begin = self.load(tmp_path / "m"), answers(fitted), threading.Barrier(8)

        def ask(_: int) -> list[object]:
            begin.wait()
            return [answers(model) for _ in range(3)]

        with ThreadPoolExecutor(8) as pool:
            for got in pool.map(ask, range(8)):
                assert got == [expected] * 3
