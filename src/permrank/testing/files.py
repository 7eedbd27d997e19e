"""The contract of files: what is saved is what was learnt, and what is not whole never loads."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from permrank.core.ranker import Ranker
from permrank.errors import ConvergenceWarning, FormatError, InputError
from permrank.rankings.rankings import Rankings
from permrank.testing.base import Contract
from permrank.testing.forging import header_of, resigned
from permrank.testing.questions import LIMITED, all_answers, another, assert_same


class FileContract(Contract):
    """What `save` and `load` promise, also of parameters that are set after `fit`."""

    def test_what_is_set_after_fit_counts_from_the_next_fit_on(
        self, rankings: Rankings, fitted: Ranker, tmp_path: Path
    ) -> None:
        before, learnt = all_answers(fitted, self.supports), fitted.get_params()
        fitted.save(tmp_path / "before")
        other = {name: another(fitted, name, self.other) for name in learnt}
        assert fitted.set_params(**other).get_params() == other
        assert_same(all_answers(fitted, self.supports), before)
        assert_same(all_answers(copy.deepcopy(fitted), self.supports), before)
        fitted.save(tmp_path / "after")
        assert header_of(tmp_path / "after") == header_of(tmp_path / "before")
        loaded = self.load(tmp_path / "after")
        assert loaded.get_params() == learnt
        assert_same(all_answers(loaded, self.supports), before)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # another seed may take longer
            fitted.set_params(**learnt | self.other).fit(rankings)
            fresh = self.make().set_params(**self.other).fit(rankings)
        assert_same(all_answers(fitted, self.supports), all_answers(fresh, self.supports))

    def test_saving_and_loading_gives_the_same_answers(self, fitted: Ranker, tmp_path: Path) -> None:
        path = tmp_path / "m.permrank"
        fitted.save(path)
        loaded = self.load(path)
        assert type(loaded) is type(fitted)
        assert loaded.get_params() == fitted.get_params()
        assert loaded.rankings_ == fitted.rankings_
        assert loaded.history_ == fitted.history_
        assert loaded.recommend("bob").equals(fitted.recommend("bob"))
        np.testing.assert_array_equal(loaded.score("ann"), fitted.score("ann"))
        assert list(tmp_path.iterdir()) == [path]

    def test_a_truncated_or_altered_file_never_loads(self, fitted: Ranker, tmp_path: Path) -> None:
        path = tmp_path / "m.permrank"
        fitted.save(path)
        content = path.read_bytes()
        rng = np.random.default_rng(0)
        spoiled = [content[:cut] for cut in rng.integers(0, len(content), 40)]
        for index in rng.integers(0, len(content), 200):
            spoiled.append(content[:index] + bytes([content[index] ^ int(rng.integers(1, 256))]) + content[index + 1 :])
        for bad in [*spoiled, content + b"x", b""]:
            path.write_bytes(bad)
            with pytest.raises(FormatError):
                self.load(path)

    def test_whole_numbers_beyond_sense_are_refused_at_once(
        self, rankings: Rankings, fitted: Ranker, tmp_path: Path
    ) -> None:
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
                        self.load(tmp_path / "m")
            if name in LIMITED:
                with pytest.raises(InputError, match=f"{name}={2**31}, expected a whole number from . to"):
                    self.make(**{name: 2**31}).fit(rankings)
                resigned(tmp_path / "m", {"parameters": json.dumps(saved | {name: 2**31})})
                with pytest.raises(FormatError, match=f"{name}={2**31}, expected"):
                    self.load(tmp_path / "m")
        if "sample" in self.supports:
            for size in (10**12, 10**30):
                with pytest.raises(InputError, match="size="):
                    fitted.sample("ann", ["toro", "uni"], size=size)
            with pytest.raises(InputError, match=r"seed=-1, expected"):
                fitted.sample("ann", ["toro", "uni"], seed=-1)
        with pytest.raises(InputError, match="k="):
            fitted.recommend("ann", k=10**30)
        assert fitted.recommend("ann", k=2**62).height == 1

    def test_a_file_whose_parameters_do_not_fit_what_was_learnt_is_refused(
        self, fitted: Ranker, tmp_path: Path
    ) -> None:
        fitted.save(tmp_path / "m")
        saved = json.loads(header_of(tmp_path / "m")["parameters"])
        for name in {"n_factors", "n_communities"} & set(saved):
            resigned(tmp_path / "m", {"parameters": json.dumps(saved | {name: saved[name] + 1})})
            with pytest.raises(FormatError, match="not a whole permrank model"):
                self.load(tmp_path / "m")
        if saved.get("n_draws", 1) > 1 and len(getattr(fitted, "item_draws_", ())) > 1:
            resigned(tmp_path / "m", {"parameters": json.dumps(saved | {"n_draws": 1})})
            with pytest.raises(FormatError, match="n_draws"):
                self.load(tmp_path / "m")
