"""The pages in a real browser: mouse, touch and keyboard, two people at once, no connection, nothing from elsewhere."""

import importlib.util
import json
import re
import urllib.request
from pathlib import Path

import pytest

import permrank as pr
from browser import CHROMIUM
from interfaces_server import DISHES, listening
from permrank.interfaces.server.app import create_app
from permrank.interfaces.server.settings import Settings

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
playwright.expect.set_options(timeout=60_000)  # a busy machine is no failure

pytestmark = pytest.mark.browser
# axe-core comes with a package of the test group.
_FOUND = importlib.util.find_spec("axe_playwright_python")
AXE = None if _FOUND is None else Path(_FOUND.submodule_search_locations[0]) / "axe.min.js"
needs_axe = pytest.mark.skipif(AXE is None, reason="needs axe-core: pip install axe-playwright-python")


def post(base, path, body, key=None):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(base + path, json.dumps(body).encode(), headers, method="POST")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def get(base, path):
    with urllib.request.urlopen(base + path) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Address of a server with a model, in a thread of its own."""
    folder = tmp_path_factory.mktemp("pages")
    lists = {f"p{n}": ["Alien", "Brazil", "Casablanca", "Dune", "Eraserhead"][n % 3 :] for n in range(12)}
    pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists(lists)).save(folder / "m.permrank")
    settings = Settings(str(folder / "a.sqlite"), str(folder / "m.permrank"), rate=0.0)
    with listening(create_app(settings)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def person(chromium, base):
    """Makes browsers of different people; at the end no console said anything, and nothing came from elsewhere."""
    contexts, said, elsewhere = [], [], []

    def make(width=1400, *, dark=False, touch=False, quiet=True):
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light", has_touch=touch
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        if quiet:
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(base) else elsewhere.append(request.url))
        return page

    yield make
    for context in contexts:
        context.close()
    assert said == []
    assert elsewhere == []


def new_poll(base, items=DISHES, **more):
    return post(base, "/v1/polls", {"title": "Where shall we eat?", "items": [{"title": one} for one in items], **more})


def opened(page, address):
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]")
    return page


def ballots(base, poll):
    return [one["said"] for one in get(base, f"/v1/polls/{poll['id']}/answers")["answers"]]


def says(page, place, pattern):
    """Wait until a place says something; without a script of ours on the page, whose policy forbids it."""
    playwright.expect(page.locator(place)).to_have_text(re.compile(pattern))


def send(page):
    page.click("#send [type=submit]")
    says(page, "#state", "^sent")


def middle(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def grip(page, item, where="body"):
    return page.locator(f"{where} .grip", has_text=item)


def targets(page):
    """What is done in every way: curry first, pizza tied with it, ramen after them, salad before all."""
    return [
        ("curry", lambda: middle(page.locator("#empty"))),
        ("pizza", lambda: middle(grip(page, "curry", "#tiers"))),
        ("ramen", lambda: _beside(page.locator("#tiers .tier").last, below=True)),
        ("salad", lambda: _beside(page.locator("#tiers .tier").first, below=False)),
    ]


def _beside(locator, *, below):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + (box["height"] - 3 if below else 3)


WANTED = [["salad"], ["curry", "pizza"], ["ramen"]]


def by_mouse(page):
    for item, target in targets(page):
        page.mouse.move(*middle(grip(page, item)))
        page.mouse.down()
        page.mouse.move(*middle(page.locator("h1")))
        page.mouse.move(*target(), steps=3)
        page.mouse.up()


def by_touch(page):
    session = page.context.new_cdp_session(page)

    def touch(kind, x=None, y=None):
        points = [] if x is None else [{"x": x, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    for item, target in targets(page):
        handle = grip(page, item).locator(".handle")
        handle.scroll_into_view_if_needed()
        touch("touchStart", *middle(handle))
        x, y = middle(handle)
        touch("touchMove", x, y - 10)
        touch("touchMove", *target())
        touch("touchMove", *target())
        touch("touchEnd")


def by_keyboard(page):
    def press(item, *keys):
        grip(page, item).focus()
        for key in keys:
            page.keyboard.press(key)

    press("curry", "ArrowLeft")
    press("pizza", "ArrowLeft", "ArrowUp")
    assert "tied with curry" in page.text_content("#said")
    press("ramen", "Enter")
    press("salad", "ArrowLeft", "Home")
    assert page.text_content("#said") == "salad: place 1 of 4"


@pytest.mark.parametrize(
    ("way", "width", "touch"), [(by_mouse, 1400, False), (by_touch, 400, True), (by_keyboard, 1400, False)]
)
def test_every_way_to_rank_gives_the_same_ballot_and_a_reload_loses_nothing(base, person, way, width, touch):
    poll = new_poll(base)
    page = opened(person(width, touch=touch), f"{base}/p/{poll['id']}")
    way(page)
    page.reload()  # before it is sent
    page.wait_for_selector("body[data-ready=yes]")
    page.fill("[name=name]", "ann")
    send(page)
    assert [[sorted(tier) for tier in said] for said in ballots(base, poll)] == [WANTED]
    page.click("#undo")


def test_three_people_on_phones_vote_at_once_and_all_see_the_result_that_permrank_reads(base, person, tmp_path):
    poll = new_poll(base, [f"dish {n}" for n in range(10)])
    watcher = opened(person(), f"{base}/p/{poll['id']}/result")
    pages = [opened(person(400, touch=True), f"{base}/p/{poll['id']}") for _ in range(3)]
    for at in range(3):
        for n, page in enumerate(pages):
            grip(page, f"dish {(at + n % 2) % 10}", "#pile").tap()
    for n, page in enumerate(pages):
        page.fill("[name=name]", f"voter {n}")
        send(page)
    says(watcher, "#meta", "3 people")
    found = get(base, f"/v1/polls/{poll['id']}/result")
    shown = watcher.locator("#order li b").all_text_contents()
    assert shown == [one["title"] for one in found["items"]]
    path = tmp_path / "poll.jsonl"
    with urllib.request.urlopen(f"{base}/v1/polls/{poll['id']}/export") as answer:
        path.write_bytes(answer.read())
    model = pr.PlackettLuce(prior="gaussian").fit(pr.read(path, unlisted="ignore"))
    assert model.worths()["item"].to_list() == shown


def no_network(page):
    page.context.set_offline(True)
    return lambda: page.context.set_offline(False)


def no_server(page):
    """Only requests fail: the browser sees no change of its network, and says nothing when the server is back."""
    page.route("**/v1/**", lambda route: route.abort())
    return lambda: page.unroute("**/v1/**")


@pytest.mark.parametrize("lost", [no_network, no_server])
def test_without_a_connection_a_ranking_waits_and_is_sent_once(base, person, lost):
    poll = new_poll(base)
    page = opened(person(quiet=False), f"{base}/p/{poll['id']}")
    grip(page, "curry", "#pile").click()
    grip(page, "pizza", "#pile").click()
    back = lost(page)
    page.click("#send [type=submit]")
    says(page, "#state", "^no connection")
    assert ballots(base, poll) == []
    back()
    says(page, "#state", "^sent")
    assert ballots(base, poll) == [[["curry"], ["pizza"]]]


def test_choosing_leads_to_an_order_and_says_when_it_is_enough(base, person):
    poll = new_poll(base, DISHES[:4])
    page = opened(person(), f"{base}/p/{poll['id']}/choose")
    for n in range(1, 8):
        first, second = page.locator(".pick b").all_text_contents()
        page.keyboard.press("ArrowLeft" if first < second else "ArrowRight")
        says(page, "#answered", f"^{n}$")
        if page.is_visible("#enough"):
            break
    assert page.is_visible("#enough")
    assert page.locator("#order li span:first-child").all_text_contents() == sorted(DISHES[:4])
    page.click("#adjust")
    page.wait_for_selector("#tiers .tier:nth-child(4)")
    page.goto(f"{base}/p/{poll['id']}/choose")
    page.click("#four")
    page.wait_for_selector(".pick:nth-child(4)")


def test_an_organiser_makes_closes_and_exports_and_markup_stays_text(base, person):
    page = opened(person(), f"{base}/admin")
    page.fill("[name=title]", "<img src=x onerror=alert(1)>")
    page.fill("[name=items]", "<script>alert(2)</script>\nb; with <b>words</b>\nc")
    page.click("#make [type=submit]")
    page.wait_for_selector("#made:not([hidden])")
    admin = page.locator("#links code").nth(2).text_content()
    vote = page.locator("#links code").nth(0).text_content()
    voter = opened(person(400, dark=True), vote)
    assert "<script>alert(2)</script>" in voter.locator(".grip b").all_text_contents()
    grip(voter, "script", "#pile").click()
    grip(voter, "words", "#pile").click()
    send(voter)
    opened(page, admin)
    assert page.text_content("#n-people") == "1"
    page.click("#toggle")
    says(page, "#now", "closed")
    voter.reload()
    voter.wait_for_selector("text=This poll is closed")


def test_a_link_of_another_person_asks_first(base, person):
    poll = new_poll(base)
    keys = [post(base, f"/v1/polls/{poll['id']}/people", {"name": name})["key"] for name in ("ann", "bob")]
    page = opened(person(400), f"{base}/join/{keys[0]}")
    says(page, "#state", "you are ann")
    opened(page, f"{base}/join/{keys[1]}")
    assert "In this browser ann takes part." in page.text_content("main")
    assert AXE is None or violations(page) == []
    page.click("text=Stay ann")
    says(page, "#state", "you are ann")
    opened(page, f"{base}/join/{keys[1]}")
    page.click("#take")
    says(page, "#state", "you are bob")
    assert keys[1] not in page.url


def test_recommendations_change_with_the_list(base, person):
    page = opened(person(), f"{base}/recommend")
    page.fill("#search", "ali")
    page.wait_for_selector("#hits button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#tiers .tier")
    playwright.expect(page.locator("#next li")).to_have_count(4)
    assert "Alien" not in page.text_content("#next")


def violations(page):
    """What axe finds wrong, by rule and first place; it is run by the debugger, as the page's own policy forbids it."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return page.evaluate("axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))")


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (400, True), (400, False), (1400, True)])
def test_no_page_runs_over_its_edge_and_axe_finds_nothing(base, person, width, dark):
    poll = new_poll(base, about="a" * 150)
    for n, ranking in enumerate((DISHES, DISHES[::-1], DISHES[2:])):
        key = post(base, f"/v1/polls/{poll['id']}/people", {"name": f"n{n}"}, poll["keys"]["vote"])["key"]
        post(base, f"/v1/polls/{poll['id']}/answers", {"answers": [{"kind": "list", "ranking": ranking}]}, key)
    page = person(width, dark=dark)
    root = f"/p/{poll['id']}"
    for path in ("/", root, f"{root}/choose", f"{root}/result", "/recommend", "/admin", f"/admin/{poll['id']}"):
        page.goto(base + path)
        if path != "/":
            page.wait_for_selector("body[data-ready=yes]")
        if path == root:
            for _ in range(2):
                page.locator("#pile .grip").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if AXE is not None:
            assert violations(page) == [], path


@needs_axe
def test_axe_is_there_and_finds_what_is_wrong(person):
    page = person()
    page.set_content("<html><body><img src='data:,'><button></button></body></html>")
    assert {one for one, _ in violations(page)} >= {"image-alt", "button-name"}
