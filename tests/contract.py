"""What every model must do. A model's tests inherit `ModelContract` and supply `make`."""

import copy
import json
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import polars as pl
import pytest

import permrank as pr
from forging import header_of, resigned
from permrank.errors import (
    ConvergenceWarning,
    FormatError,
    InputError,
    NotFittedError,
    NotSupportedError,
    PermrankError,
    UnknownIdError,
)
from permrank.processes import threads_are_safe

LISTS = {
    "ann": ["toro", "ebi", "uni", "ika"],
    "bob": ["ebi", {"toro", "uni"}],
    "cat": ["ika", "toro", "ebi", "tako"],
    "dan": [{"tako", "uni"}, "ika", "toro"],
    "eve": ["uni", "toro", "tako", "ika", "ebi"],
    "fay": ["toro"],
    "gus": [],
}
QUESTIONS = {
    "prefers": lambda m: m.prefers("ann", "toro", "tako"),
    "top_probability": lambda m: m.top_probability("ann", ["tako", "toro", "uni"], 2),
    "position_probabilities": lambda m: m.position_probabilities("bob", "tako"),
    "sample": lambda m: m.sample("ann", ["tako", "toro", "uni"], size=4, seed=3),
    "log_likelihood": lambda m: m.log_likelihood(pr.Rankings.from_lists({"ann": ["toro", "tako"]})),
    "similar_items": lambda m: m.similar_items("toro", 2),
    "similar_users": lambda m: m.similar_users("ann", 2),
}


# Parameters that take memory or time in proportion, and are bounded.
LIMITED = {
    "n_factors",
    "n_communities",
    "n_starts",
    "n_draws",
    "n_steps",
    "max_iter",
    "degree",
    "n_partners",
    "max_pairs",
}
# Values of which some differ from any default and are allowed for any parameter.
VALUES = [
    False, True, 3, 4, 2.0, 0.5, "auto", "listed", "shuffle", "exact", "efron", "breslow", "rao-kupper", "davidson",
    "point", "draws", "log", "none", "list", "stage", "mode", "expected", "gradient", "mm", "newton", "kendall",
    "spearman", "gamma", "gaussian", "linear", "centred", "squared", "ndcg", "listmle", "listnet", "windows", "swaps",
    "hinge", "logistic", "published", "entries", "swap", "sublist",
    pl.DataFrame({"item": ["ebi", "ika", "tako", "toro", "uni"], "price": [1.0, 2, 3, 4, 5]}), None,
]  # fmt: skip
# Other values of parameters that are only allowed together with others.
NOT_ALONE = {"damping": "log", "degree": 2, "posterior": "draws"}


def another(model, name):
    """Another value of a parameter that the model would take."""
    now = getattr(model, name)
    for value in VALUES:
        if repr(value) != repr(now):
            try:
                model.clone().set_params(**{name: value})._validate()
            except InputError:
                continue
            return value
    if name in NOT_ALONE:
        return NOT_ALONE[name]
    raise AssertionError(f"{name}: add a value to VALUES that {type(model).__name__} takes")


def all_answers(model, supports):
    """Everything that can be asked, by question."""
    new = model.fold_in(["toro", "ika", "ebi"])
    return {
        "score": model.score("ann"),
        "score of a new user": model.score(new),
        "score_pairs": model.score_pairs(["ann", "eve", "gus"], ["toro", "tako", "uni"]),
        "rank": model.rank("ann", ["tako", "ebi", "uni", "toro"]),
        "recommend": model.recommend("bob"),
        "evaluate": pr.evaluate(model, pr.Rankings.from_lists({"ann": ["tako", "toro"]}), metrics=["ndcg"]).means(),
        **{name: ask(model) for name, ask in QUESTIONS.items() if name in supports},
    }


def assert_same(answers, others):
    for question, answer in answers.items():
        other = others[question]
        same = answer.equals(other) if isinstance(answer, pl.DataFrame) else np.array_equal(answer, other)
        assert same, question


class ModelContract:
    """Inherit, and define `make(**parameters)`; `other` is a change of parameters that is allowed."""

    supports: frozenset[str] = frozenset()
    other: dict = {"seed": 7}  # noqa: RUF012

    def make(self, **parameters):
        raise NotImplementedError

    @pytest.fixture
    def rankings(self):
        return pr.Rankings.from_lists(LISTS)

    @pytest.fixture
    def fitted(self, rankings):
        return self.make().fit(rankings)

    def test_fit_returns_the_model_and_leaves_its_parameters_alone(self, rankings):
        model = self.make()
        before = model.get_params()
        assert model.fit(rankings) is model
        assert model.get_params() == before

    def test_the_same_seed_gives_the_same_bits_for_one_thread_and_two(self, rankings):
        before = numba.get_num_threads()
        scores = []
        try:
            for n_threads in {1, numba.config.NUMBA_NUM_THREADS}:
                numba.set_num_threads(n_threads)
                scores += [self.make().fit(rankings).score("ann") for _ in range(2)]
        finally:
            numba.set_num_threads(before)
        for other in scores[1:]:
            np.testing.assert_array_equal(scores[0], other)

    def test_fitting_twice_is_fitting_once(self, rankings, fitted):
        before = fitted.score("ann")
        np.testing.assert_array_equal(fitted.fit(rankings).score("ann"), before)

    def test_parameters_can_be_read_set_and_cloned(self, rankings):
        model = self.make()
        twin = model.clone()
        assert twin is not model
        assert twin.get_params() == model.get_params()
        assert twin.set_params(**self.other) is twin
        assert twin.get_params() == {**model.get_params(), **self.other}
        with pytest.raises(UnknownIdError, match="unknown parameter of"):
            twin.set_params(nonsense=1)
        assert type(model).__name__ in repr(model)

    def test_what_is_set_after_fit_counts_from_the_next_fit_on(self, rankings, fitted, tmp_path):
        before, learnt = all_answers(fitted, self.supports), fitted.get_params()
        fitted.save(tmp_path / "before")
        other = {name: another(fitted, name) for name in learnt}
        assert fitted.set_params(**other).get_params() == other
        assert_same(all_answers(fitted, self.supports), before)
        assert_same(all_answers(copy.deepcopy(fitted), self.supports), before)
        fitted.save(tmp_path / "after")
        assert header_of(tmp_path / "after") == header_of(tmp_path / "before")
        loaded = pr.load(tmp_path / "after")
        assert loaded.get_params() == learnt
        assert_same(all_answers(loaded, self.supports), before)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # another seed may take longer
            fitted.set_params(**learnt | self.other).fit(rankings)
            fresh = self.make().set_params(**self.other).fit(rankings)
        assert_same(all_answers(fitted, self.supports), all_answers(fresh, self.supports))

    def test_every_seed_that_is_none_is_refused(self, rankings):
        if "seed" not in self.make().get_params():
            return
        for seed in (None, -1, 1.5, "x", True, 2**200):
            with pytest.raises(InputError, match=r"seed=.*, expected a whole number from 0 to 2\*\*128 - 1"):
                self.make(seed=seed).fit(rankings)

    def test_the_total_likelihood_counts_ballots_by_their_weights(self, rankings, fitted):
        if "log_likelihood" not in self.supports:
            return
        ballots = pr.Rankings.from_lists([["toro", "tako"], ["ika", "uni"]], weights=[3.0, 0.5])
        values = fitted.log_likelihood(ballots)
        np.testing.assert_allclose(fitted.total_log_likelihood(ballots), 3.0 * values[0] + 0.5 * values[1], rtol=1e-12)

    def test_questions_before_fit_say_so(self):
        model = self.make()
        with pytest.raises(NotFittedError, match=r"call fit\(rankings\) first"):
            model.score("ann", ["toro"])
        with pytest.raises(NotFittedError):
            model.recommend("ann")
        with pytest.raises(NotFittedError):
            model.save("nowhere.permrank")

    def test_recommended_items_are_unseen_best_first_and_at_most_k(self, fitted):
        for user, seen in {
            "bob": {"toro", "uni", "ebi"},
            "fay": {"toro"},
            "gus": set(),
            "eve": set(LISTS["eve"]),
        }.items():
            frame = fitted.recommend(user, k=3)
            assert frame.columns[:3] == ["rank", "item", "score"]
            assert not set(frame["item"]) & seen
            assert frame.height == min(3, 5 - len(seen))
            assert frame["rank"].to_list() == list(range(1, frame.height + 1))
            assert frame["score"].is_sorted(descending=True)

    def test_rank_orders_by_score_whatever_the_order_of_the_question(self, fitted):
        items = ["tako", "ebi", "uni", "toro"]
        frame = fitted.rank("ann", items)
        again = fitted.rank("ann", items[::-1])
        assert frame.equals(again)
        scores = dict(zip(items, fitted.score("ann", items), strict=True))
        assert frame["item"].to_list() == sorted(items, key=lambda item: (-scores[item], item))
        np.testing.assert_allclose(frame["score"], [scores[item] for item in frame["item"]], rtol=0, atol=0)

    def test_many_pairs_get_the_scores_of_each(self, fitted):
        users, items = ["eve", "ann", "eve", "gus", "ann"], ["toro", "tako", "ika", "uni", "toro"]
        one_by_one = [fitted.score(user, [item])[0] for user, item in zip(users, items, strict=True)]
        np.testing.assert_allclose(fitted.score_pairs(users, items), one_by_one, rtol=1e-6, atol=1e-9)
        assert fitted.score_pairs([], []).size == 0
        for unequal in ((["ann", "eve"], ["toro"]), (["ann"], ["toro", "uni"]), ([], ["toro"])):
            with pytest.raises(InputError, match="give one item for each user"):
                fitted.score_pairs(*unequal)

    def test_intervals_contain_the_median_rank_and_stay_within_bounds(self, fitted):
        frame = fitted.rank("ann", ["tako", "ebi", "uni", "toro"])
        if "rank_low" in frame.columns:
            assert (frame["rank_low"] >= 1).all()
            assert (frame["rank_high"] <= 4).all()
            assert (frame["rank_low"] <= frame["rank_high"]).all()

    def test_unknown_users_and_items_are_named_with_the_nearest(self, fitted):
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
            fitted.rank("ann", 5)
        for strange in (["toro"], {"toro": 1}, 1.0, True):
            with pytest.raises(UnknownIdError, match="unknown user"):
                fitted.recommend(strange)
            with pytest.raises(UnknownIdError, match="unknown item"):
                fitted.rank("ann", [strange])

    def test_a_new_user_is_valid_wherever_a_user_is(self, fitted):
        for said in (["toro", {"ika", "ebi"}], {"toro": 5, "ika": 3, "ebi": 3.5}):
            new = fitted.fold_in(said)
            assert set(fitted.recommend(new)["item"]) == {"uni", "tako"}
            assert np.isfinite(fitted.score(new)).all()
        with pytest.raises(UnknownIdError, match="unknown item 'beer'"):
            fitted.fold_in(["toro", "beer"])
        nobody = pr.Rankings.from_lists({"zoe": []})
        for nothing in ([], {}, iter(()), nobody):
            new = fitted.fold_in(nothing)
            assert fitted.recommend(new).height == 5
            if not isinstance(fitted, pr.Random):  # every new user has an order of chance of their own
                np.testing.assert_allclose(fitted.score(new), fitted.score("gus"), rtol=0, atol=1e-5)
            if "prefers" in self.supports:
                assert 0 < fitted.prefers(new, "toro", "tako") < 1
            if "sample" in self.supports:
                assert sorted(fitted.sample(new, ["tako", "toro"])[0]) == ["tako", "toro"]
        for wrong in ("toro", {"toro": "x"}, 3):
            with pytest.raises(InputError, match="fold_in takes"):
                fitted.fold_in(wrong)

    def test_what_is_not_supported_raises_one_clear_error(self, fitted):
        for name, ask in QUESTIONS.items():
            if name in self.supports:
                ask(fitted)
            else:
                with pytest.raises(NotSupportedError, match=rf"cannot answer {name}\(\)"):
                    ask(fitted)

    def test_probabilities_add_up(self, fitted):
        if "prefers" in self.supports:
            p = fitted.prefers("ann", "toro", "tako")
            assert 0 < p < 1
            np.testing.assert_allclose(p + fitted.prefers("ann", "tako", "toro"), 1, rtol=0, atol=1e-9)
        if "top_probability" in self.supports:
            top = fitted.top_probability("ann", ["tako", "toro", "uni"], 2)
            np.testing.assert_allclose(top.sum(), 2, rtol=0, atol=1e-6)
        if "position_probabilities" in self.supports:
            places = fitted.position_probabilities("bob", "tako")
            assert places.shape == (4,)
            np.testing.assert_allclose(places.sum(), 1, rtol=0, atol=1e-9)

    def test_a_sample_is_repeatable_and_holds_every_item_once(self, fitted):
        if "sample" in self.supports:
            items = ["tako", "toro", "uni"]
            rows = fitted.sample("ann", items, size=5, seed=1)
            assert rows.shape == (5, 3)
            assert all(sorted(row) == items for row in rows.tolist())
            np.testing.assert_array_equal(rows, fitted.sample("ann", items, size=5, seed=1))
            assert (rows != fitted.sample("ann", items, size=5, seed=2)).any()

    def test_many_threads_get_the_answers_of_one(self, rankings, fitted, tmp_path):
        if not threads_are_safe():
            pytest.skip("Numba has no threading layer here that several threads may call")

        def answers(model):
            new = model.fold_in(["toro", "ika"])
            found = [model.recommend(user).rows() for user in ("ann", "bob", new)]
            found += [model.rank("eve", ["tako", "uni", "toro"]).rows(), model.score(new).tolist()]
            for name in sorted(self.supports):
                answer = QUESTIONS[name](model)
                found.append(answer.rows() if isinstance(answer, pl.DataFrame) else np.asarray(answer).tolist())
            return found

        # A loaded model has worked out nothing yet, so that whatever it keeps is made by many threads at once.
        fitted.save(tmp_path / "m")
        model, expected, begin = pr.load(tmp_path / "m"), answers(fitted), threading.Barrier(8)

        def ask(_):
            begin.wait()
            return [answers(model) for _ in range(3)]

        with ThreadPoolExecutor(8) as pool:
            for got in pool.map(ask, range(8)):
                assert got == [expected] * 3

    def test_the_objective_is_recorded_and_the_callback_can_stop(self, rankings):
        seen = []
        model = self.make().fit(rankings, callback=lambda progress: seen.append(progress) and None)
        assert [p.objective for p in seen] == model.history_
        assert model.n_iter_ == len(model.history_) > 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stopped = self.make().fit(rankings, callback=lambda progress: True)
        assert stopped.n_iter_ == 1
        assert np.isfinite(stopped.score("ann")).all()

    def test_a_run_that_was_broken_off_goes_on_to_the_same_bits(self, rankings, tmp_path):
        checkpoint = pr.Checkpoint(tmp_path / "state", every=1)
        if not self.make().resumable:
            with pytest.raises(NotSupportedError, match="does not support checkpoints"):
                self.make().fit(rankings, checkpoint=checkpoint)
            return
        whole = self.make().fit(rankings)
        for last in sorted({min(2, whole.n_iter_), whole.n_iter_ // 2, whole.n_iter_} - {0}):

            def die(progress, last=last):
                if progress.iteration == last:
                    raise InterruptedError

            with pytest.raises(InterruptedError):
                self.make().fit(rankings, checkpoint=checkpoint, callback=die)
            begun = []
            resumed = self.make().fit(rankings, checkpoint=checkpoint, callback=lambda p, begun=begun: begun.append(p))
            # EM keeps its state once for every extrapolation, which takes four sweeps.
            assert begun[0].iteration >= last - 4
            assert resumed.history_ == whole.history_
            assert resumed.converged_ == whole.converged_
            for name in whole.estimate_.names():
                np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
            checkpoint.remove()
        assert list(tmp_path.iterdir()) == []

    def burn_in(self, model):
        """Sweeps before the first estimate; a posterior by draws has some."""
        return 0

    def test_a_validation_sees_every_sweep_and_touches_nothing(self, rankings):
        held = pr.Rankings.from_lists({"ann": ["tako", "toro"], "bob": ["ika", "tako"], "gus": ["uni", "ebi"]})
        validation = pr.Validation(held, "pairs_right", every=1)
        if not self.make().resumable:
            with pytest.raises(NotSupportedError, match="does not support checkpoints or validation"):
                self.make().fit(rankings, validation=validation)
            return
        plain, watched = self.make().fit(rankings), self.make().fit(rankings, validation=validation)
        first = self.burn_in(self.make()) + 1
        assert watched.validation_[:, 0].tolist() == list(range(first, plain.n_iter_ + 1))
        assert watched.history_ == plain.history_
        for name in plain.estimate_.names():
            np.testing.assert_array_equal(getattr(watched, name), getattr(plain, name))

    def test_a_progress_bar_is_shown_only_when_asked_off_a_terminal(self, rankings, capsys):
        self.make().fit(rankings)
        assert capsys.readouterr() == ("", "")
        model = self.make().fit(rankings, verbose=True)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert type(model).__name__ in shown.err

    def test_saving_and_loading_gives_the_same_answers(self, fitted, tmp_path):
        path = tmp_path / "m.permrank"
        fitted.save(path)
        loaded = pr.load(path)
        assert type(loaded) is type(fitted)
        assert loaded.get_params() == fitted.get_params()
        assert loaded.rankings_ == fitted.rankings_
        assert loaded.history_ == fitted.history_
        assert loaded.recommend("bob").equals(fitted.recommend("bob"))
        np.testing.assert_array_equal(loaded.score("ann"), fitted.score("ann"))
        assert list(tmp_path.iterdir()) == [path]

    def test_a_truncated_or_altered_file_never_loads(self, fitted, tmp_path):
        path = tmp_path / "m.permrank"
        fitted.save(path)
        content = path.read_bytes()
        rng = np.random.default_rng(0)
        spoiled = [content[:cut] for cut in rng.integers(0, len(content), 40)]
        for place in rng.integers(0, len(content), 200):
            spoiled.append(content[:place] + bytes([content[place] ^ int(rng.integers(1, 256))]) + content[place + 1 :])
        for bad in [*spoiled, content + b"x", b""]:
            path.write_bytes(bad)
            with pytest.raises(FormatError):
                pr.load(path)

    def test_whole_numbers_beyond_sense_are_refused_at_once(self, rankings, fitted, tmp_path):
        whole = [name for name, value in fitted.get_params().items() if type(value) is int]
        fitted.save(tmp_path / "m")
        saved = json.loads(header_of(tmp_path / "m")["parameters"])
        for name in whole:
            for value in (2**63, 2**70, 10**30, 10**5_000, -1):
                if name == "seed" and 0 <= value < 2**128:
                    continue
                with pytest.raises(InputError, match=f"{name}=.*expected a whole number from"):
                    self.make(**{name: value}).fit(rankings)
                if value != 10**5_000:  # which JSON cannot hold
                    resigned(tmp_path / "m", {"parameters": json.dumps(saved | {name: value})})
                    with pytest.raises(FormatError, match=f"{name}="):
                        pr.load(tmp_path / "m")
            if name in LIMITED:
                with pytest.raises(InputError, match=f"{name}={2**31}, expected a whole number from . to"):
                    self.make(**{name: 2**31}).fit(rankings)
                resigned(tmp_path / "m", {"parameters": json.dumps(saved | {name: 2**31})})
                with pytest.raises(FormatError, match=f"{name}={2**31}, expected"):
                    pr.load(tmp_path / "m")
        if "sample" in self.supports:
            for size in (10**12, 10**30):
                with pytest.raises(InputError, match="size="):
                    fitted.sample("ann", ["toro", "uni"], size=size)
            with pytest.raises(InputError, match=r"seed=-1, expected"):
                fitted.sample("ann", ["toro", "uni"], seed=-1)
        with pytest.raises(InputError, match="k="):
            fitted.recommend("ann", k=10**30)
        assert fitted.recommend("ann", k=2**62).height == 1

    def test_a_file_whose_parameters_do_not_fit_what_was_learnt_is_refused(self, fitted, tmp_path):
        fitted.save(tmp_path / "m")
        saved = json.loads(header_of(tmp_path / "m")["parameters"])
        for name in {"n_factors", "n_communities"} & set(saved):
            resigned(tmp_path / "m", {"parameters": json.dumps(saved | {name: saved[name] + 1})})
            with pytest.raises(FormatError, match="not a whole permrank model"):
                pr.load(tmp_path / "m")
        if saved.get("n_draws", 1) > 1 and len(getattr(fitted, "item_draws_", ())) > 1:
            resigned(tmp_path / "m", {"parameters": json.dumps(saved | {"n_draws": 1})})
            with pytest.raises(FormatError, match="n_draws"):
                pr.load(tmp_path / "m")

    def test_one_item_lists_only_are_answered_or_refused_clearly(self):
        rankings = pr.Rankings.from_lists({"u": ["a"], "v": ["b"]})
        try:
            # Where nothing is to be learnt, a learner that draws has nothing but noise to end by.
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                model = self.make().fit(rankings)
        except PermrankError as error:
            assert len(str(error)) > 20
        else:
            assert np.isfinite(model.score("u")).all()

    def test_integer_ids_are_ids_and_not_indices(self):
        rankings = pr.Rankings.from_lists({7: [100, 5, 30], 3: [5, 100, 30], 9: [30, 5, 100], 4: [100, 30]})
        frame = self.make().fit(rankings).recommend(4)
        assert frame["item"].to_list() == [5]
        assert frame["item"].dtype == pl.Int64

    def test_something_else_than_rankings_is_refused(self):
        with pytest.raises(InputError, match="expected Rankings, got list"):
            self.make().fit([["a", "b"]])
        with pytest.raises(InputError, match="nothing to learn from"):
            self.make().fit(pr.Rankings.from_lists({"u": []}))
