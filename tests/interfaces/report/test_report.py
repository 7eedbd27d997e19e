"""The page of a comparison: whole, escaped, well-formed, and fetching nothing."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

import permrank as pr
from permrank.interfaces.report import charts
from permrank.interfaces.report.report import write_report

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
    write_report(found, splits, path, command="permrank compare 'x' <y>", title="a & b", k=10)
    return path.read_text(), found


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
        "May the probabilities be believed?",
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
        assert ElementTree.fromstring(picture).get("aria-label")
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
    write_report(found, splits, tmp_path / "out.html", command="x", title="y")
    assert "No model gave a result" in (tmp_path / "out.html").read_text()
