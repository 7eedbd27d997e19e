"""The page of a comparison: whole, escaped, well-formed, and fetching nothing."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import jinja2
import numpy as np
import pytest

import permrank as pr
from permrank.interfaces.cli.comparing import comparison_tables
from permrank.interfaces.output import printable
from permrank.interfaces.report import charts
from permrank.interfaces.report.report import scale, template

VOID = {"meta", "link", "wbr"}


class Reader(HTMLParser):
    """Checks nesting; collects text and attributes."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.attributes, self.tags = [], [], [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    rankings = pr.datasets.load("simulated", n_users=120, n_items=20, list_length=10, separation=0.0)
    wild = {f"<b>{user}</b>": [f"{item} & <i>" for item in rankings.lists(user)[0]] for user in rankings.user_ids}
    rankings = pr.Rankings.from_lists(wild, unlisted="ignore")
    splits = [pr.Given(6).split(rankings, seed) for seed in (0, 1)]
    models = {
        "Pooled <x>": pr.PlackettLuce(prior="gaussian"),
        "LatentPlackettLuce": pr.LatentPlackettLuce(n_communities=2, n_starts=1, max_iter=20),
        "Random": pr.Random(),
        "broken": pr.PlackettLuce(tol=-1.0),
    }
    found = pr.compare(models, splits, n_pairs=60)
    path = tmp_path_factory.mktemp("report") / "out.html"
    found.command = "permrank compare 'x' <y>"
    found.report(path, title="a & b")
    return path.read_text(encoding="utf-8"), found


def test_the_page_is_nested_well_and_says_what_was_found(written):
    page, found = written
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    text = " ".join(" ".join(reader.text).split())
    for said in (
        "a & b",
        "permrank compare 'x' <y>",
        "One person",
        "Are the probabilities calibrated?",
        "Communities",
        "Learning curves",
        "tol=-1.0",
        f"permrank {pr.__version__}",
        f"{found.table()['pairs_right'][0]:.4f}",
        "Split(Given(n_given=6), seed=1",
    ):
        assert said in text, said


def test_the_page_fetches_nothing_and_runs_nothing(written):
    reader = Reader()
    reader.feed(written[0])
    assert not reader.tags & {"script", "img", "iframe", "object"}
    assert not [value for _, value in reader.attributes if value and re.match(r"(https?:)?//", value)]
    assert [value for name, value in reader.attributes if name in ("href", "src")] == ["data:,"]
    assert not re.search(r"url\(|@import", written[0])


def test_ids_cannot_write_html(written):
    reader = Reader()
    reader.feed(written[0])
    assert not reader.tags & {"b", "i", "x", "y"}
    assert "& <i>" in " ".join(reader.text)


def test_every_picture_is_well_formed_and_has_a_name(written):
    pictures = re.findall(r"<svg.*?</svg>", written[0], flags=re.S)
    assert len(pictures) >= 3 + 2 + 1 + 2
    for picture in pictures:
        drawn = ElementTree.fromstring(picture)
        assert drawn.get("aria-label") or drawn.get("aria-hidden")
        assert "nan" not in picture


def test_light_and_dark_define_the_same_colours(written):
    light, dark = re.search(
        r":root \{(.*?)\}.*?prefers-color-scheme: dark\) \{ :root \{(.*?)\}", written[0], re.S
    ).groups()
    assert set(re.findall(r"--\w+", light)) == set(re.findall(r"--\w+", dark))


def test_curves_keep_to_their_frame():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=1000), [1.0, 1.0, 1.0], [-1e9, -2e4, -1.9e4, -1.8e4, -1.7e4, -1.6e4]):
        (points,) = re.findall(r'polyline points="(.*?)"', charts.line_chart(values, "x"))
        pairs = np.array([point.split(",") for point in points.split()], float)
        assert pairs[:, 0].min() >= 0
        assert pairs[:, 0].max() <= charts.WIDTH
        assert pairs[:, 1].min() >= 0
        assert pairs[:, 1].max() <= charts.HEIGHT


def test_nobody_succeeding_still_gives_a_page(tmp_path):
    rankings = pr.datasets.load("simulated", n_users=30, n_items=12, list_length=8)
    splits = [pr.Given(5).split(rankings)]
    found = pr.compare({"broken": pr.PlackettLuce(tol=-1.0)}, splits)
    found.report(tmp_path / "out.html", title="y")
    assert "No model gave a result" in (tmp_path / "out.html").read_text(encoding="utf-8")


ATTACKS = (
    "<script>alert(1)</script>", '" onmouseover="alert(1)', "' onload='alert(1)", "</style><script>x</script>",
    "&lt;b&gt;", "{{ 7 * 7 }}", "{% raw %}", "<!--", "]]>", "javascript:alert(1)", "\x1b[31mred\x07", "\u202eback",
    "a\u2028b", "\x00",
)  # fmt: skip


def test_no_attack_gets_through_wherever_it_is_written(tmp_path):
    items = [f"{number}{attack}" for number, attack in enumerate(ATTACKS)]
    rng = np.random.default_rng(0)
    lists = {f"{user}{attack}": list(rng.permutation(items)) for user in range(4) for attack in ATTACKS}
    splits = [pr.Given(6).split(pr.Rankings.from_lists(lists), 0)]

    class Failing(pr.Borda):
        def _learner(self, rankings):
            raise ValueError("; ".join(ATTACKS))

    models = {
        f"Pooled{''.join(ATTACKS)}": pr.PlackettLuce(prior="gaussian"),
        f"Communities{''.join(ATTACKS)}": pr.LatentPlackettLuce(n_communities=2, n_starts=1, max_iter=10),
        f"Failing{''.join(ATTACKS)}": Failing(),
    }
    found = pr.compare(models, splits, n_pairs=40)
    words = " ".join(ATTACKS)
    found.command = found.data = words
    found.report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert not reader.tags & {"script", "img", "iframe", "object", "b"}
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert [value for name, value in reader.attributes if name in ("href", "src")] == ["data:,"]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", page)
    text = "".join(reader.text)
    for attack in ATTACKS:
        assert printable(attack) in text, attack
    for picture in re.findall(r"<svg.*?</svg>", page, flags=re.S):
        ElementTree.fromstring(picture)


def test_a_metric_of_which_lower_is_better_is_drawn_and_named_as_such(tmp_path):
    rankings = pr.datasets.load("simulated", n_users=100, n_items=20, list_length=10, separation=0.0)
    splits = [pr.Given(6).split(rankings)]
    wrong = pr.metrics.Metric(
        "misplaced", lambda g, s: float((s > s[g.argmax()]).sum()), title="items <above>", higher_is_better=False
    )
    models = {"Random": pr.Random(), "Pooled": pr.PlackettLuce(prior="gaussian")}
    found = pr.compare(models, splits, metrics=[wrong, "ndcg"])
    found.report(tmp_path / "out.html", title="y")
    reader = Reader()
    reader.feed((tmp_path / "out.html").read_text(encoding="utf-8"))
    text = " ".join(" ".join(reader.text).split())
    assert "By items <above>, Pooled is best" in text
    assert re.search(r"Lower is better: [^.]*items <above>[,.]", text)
    # Random puts more items above the best one: what is drawn is how much worse that is, to the left.
    row = found.differences().row(1, named=True)
    assert row["model"] == "Random"
    assert row["difference"] > 0
    assert row["worse"] > row["better"]
    assert f"{row['difference']:+.4f}" in text


def test_one_model_far_behind_does_not_stretch_the_scale():
    def rows(*differences):
        return [{"difference": -d, "low": -d - 0.01, "high": -d + 0.01 if d else -0.0} for d in differences]

    low, high = scale(rows(0.0, 0.02, 0.03, 0.04, 0.05, 9.0))
    assert -0.09 < low < -0.06
    assert 0 < high < 0.01
    assert scale(rows(0.0, 9.0))[0] < -9.0  # nothing else to see
    assert scale(rows(0.0))[0] < 0.0 < scale(rows(0.0))[1]
    for value in (-5.0, 0.0, 0.5, 99.0):
        bar = charts.difference_bar(value, value - 1, value + 1, (-1.0, 1.0), "best")
        places = [float(place) for place in re.findall(r'(?:cx|x1|x2)="([\d.]+)%"', bar)]
        assert all(0 <= place <= 100 for place in places)
        assert ("<path" in bar) == (value < -1.0)


def test_random_does_not_squeeze_the_others(written):
    page, found = written
    bars = re.findall(r"<div class='row (\w+)'><div class='name'>(.*?)</div><div class='bar'>(.*?)</svg>", page, re.S)
    shown = {re.sub("<.*?>", "", name): bar for _, name, bar in bars}
    assert found.table()["model"][0] in {name.replace("&lt;", "<").replace("&gt;", ">") for name in shown}
    assert "<path" in shown["Random"]
    assert not any("<path" in bar for name, bar in shown.items() if name != "Random")


def test_gains_add_up(tmp_path):
    rankings = pr.datasets.load("simulated", n_users=100, n_items=20, list_length=10, separation=0.0)
    pr.compare([pr.Borda(), pr.Random()], rankings, protocol=pr.Given(6)).report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    shares = re.search(r"class='gain'>(\d+)% gain<.*?class='loss'>(\d+)% lose<.*?, (\d+)% have the same", page, re.S)
    assert sum(map(int, shares.groups())) == pytest.approx(100, abs=1)
    chart = re.search(r'<svg class="chart"[^>]*Differences of.*?</svg>', page, re.S)[0]
    heights = dict.fromkeys(("gain", "loss", "same"), 0.0)
    for height, kind in re.findall(r'height="([\d.]+)" class="(\w+)"', chart):
        heights[kind] += float(height)
    total = sum(heights.values())
    for kind, share in zip(("gain", "loss", "same"), shares.groups(), strict=True):
        assert 100 * heights[kind] / total == pytest.approx(int(share), abs=2)


def test_a_curve_shows_the_last_part_of_learning_only():
    part_one, part_two = np.linspace(-900, -800, 10), np.linspace(-2000, -1990, 12)
    drawn = charts.line_chart(part_two, "x", first=11)
    both = charts.line_chart([*part_one, *part_two], "x")
    heights = [float(point.split(",")[1]) for point in re.search(r'points="(.*?)"', drawn)[1].split()]
    assert np.ptp(heights) > 100  # the whole frame, which a jump would have taken
    squeezed = [float(point.split(",")[1]) for point in re.search(r'points="(.*?)"', both)[1].split()][-11:]
    assert np.ptp(squeezed) < 5


def test_a_page_ordered_by_calibration_claims_no_tests(tmp_path):
    # Worths of variance 1 are 0.7 to 0.8 bits a pair; over 900 pairs that is known to 0.03.
    rankings = pr.datasets.load("simulated", n_users=300, n_items=15, list_length=8, separation=0.0, n_factors=0)
    splits = [pr.Given(5).split(rankings)]
    models = {"Random": pr.Random(), "Pooled": pr.PlackettLuce(prior="gaussian")}
    models["Pairs"] = pr.BradleyTerry(prior="gaussian")
    found = pr.compare(models, splits, metrics=["calibration_error"])
    found.report(tmp_path / "out.html", title="y")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "differences are not tested" in page
    assert "untested" in page
    assert "randomisation" not in page
    assert [str(cell) for table in comparison_tables(found, 10, 80) for cell in table.columns[-1].cells]


def test_a_value_that_a_template_misses_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        template().render()
