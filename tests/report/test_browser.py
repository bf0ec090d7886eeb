"""A page in a real browser: it draws, answers to mouse and keyboard, and runs nothing foreign."""

import base64
import re
from types import SimpleNamespace

import numpy as np
import pytest

from tensorae import LinearTAE, explore


@pytest.fixture
def open_page(browser):
    """Open a page on a light or dark screen; after the test nothing may have gone wrong."""
    pytest.importorskip("selenium")
    browser.get_log("browser")

    def opened(page, *, dark=False, width=1280, height=1000):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [scheme]})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.path.as_uri())
        return Reader(browser)

    yield opened
    assert browser.get_log("browser") == []


class Reader:
    """What someone with a mouse and a keyboard does and sees."""

    def __init__(self, browser):
        self.browser = browser

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def click(self, selector):
        # As a program: where the element has scrolled to does not matter.
        self.run("document.querySelector(arguments[0]).click()", selector)

    def point(self, place_x, place_y):
        """Move the mouse to a place on the map."""
        from selenium.webdriver import ActionChains

        self.run("document.getElementById('plot').scrollIntoView({block: 'center'})")
        plot = self.find("#plot")
        left, top = plot.size["width"] / 2, plot.size["height"] / 2
        chain = ActionChains(self.browser, duration=0)
        chain.move_to_element_with_offset(plot, round(place_x - left), round(place_y - top))
        chain.perform()

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def choose(self, axis, name):
        from selenium.webdriver.support.ui import Select

        Select(self.find(f"#{axis}")).select_by_visible_text(name)

    def show_row(self, row):
        """Use the button of a row and tell where its point is."""
        self.click(f"button[data-row='{row}']")
        ring = self.find("#plot .ring")
        return float(ring.get_attribute("cx")), float(ring.get_attribute("cy"))

    @property
    def tip(self):
        return self.run(
            "const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText"
        )

    @property
    def drawn(self):
        return int(self.find("#plot").get_attribute("data-drawn"))

    @property
    def picture(self):
        return self.run("return document.querySelector('#plot canvas').toDataURL()")

    def color_at(self, place_x, place_y):
        script = (
            "return [...document.querySelector('#plot canvas').getContext('2d')"
            ".getImageData(arguments[0], arguments[1], 1, 1).data]"
        )
        return self.run(script, round(place_x), round(place_y))

    def column(self, table, place):
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
            ".map((row) => row.cells[arguments[1]].innerText.trim())"
        )
        return self.run(script, table, place)


def test_the_page_opens_from_disk_and_draws_every_point(open_page, penguin_page):
    reader = open_page(penguin_page)
    assert reader.browser.title == "Penguins"
    assert reader.drawn == 333
    assert len(reader.browser.find_elements("css selector", "#plot .own")) == 4
    shown = base64.b64decode(reader.browser.get_screenshot_as_base64())
    assert shown[:4] == b"\x89PNG"
    # Not one colour all over: the picture has points, lines and cards.
    assert len(shown) > 40_000


def test_hover_shows_the_row(open_page, penguin_page, penguins, species):
    reader = open_page(penguin_page)
    row = 9
    place = reader.show_row(row)
    reader.point(3, 3)
    assert reader.tip == ""
    reader.point(*place)
    # Another point may lie on the same pixel; the tip names the one it shows.
    found = int(re.match(r"row (\d+)", reader.tip)[1])
    assert abs(penguins[0][found] - penguins[0][row])[[0, 1]].max() < 0.01
    assert species[found] in reader.tip
    for value in penguins[0][found]:
        assert f"{value:.6g}" in reader.tip
    assert "misfit" in reader.tip


def test_points_have_the_colour_of_their_cluster(open_page, penguin_page, linear):
    reader = open_page(penguin_page)
    row = 282
    place = reader.show_row(row)
    # Alone, so that nothing lies above it.
    reader.click("#no-cluster")
    reader.click(f"[data-cluster='{linear.labels_[row]}']")
    light = penguin_page.points["clusters"][linear.labels_[row]]["light"]
    wanted = [int(light[start : start + 2], 16) for start in (1, 3, 5)]
    assert np.abs(np.array(reader.color_at(*place)[:3]) - wanted).max() < 40


def test_a_row_s_button_brings_it_back_into_view(open_page, penguin_page, linear):
    reader = open_page(penguin_page)
    reader.click("#no-cluster")
    assert reader.drawn == 0
    reader.show_row(282)
    assert reader.tip.startswith("row 282 · cluster 2")
    assert reader.drawn == (linear.labels_ == 2).sum()
    assert reader.run("return document.activeElement.id") == "plot"
    assert "row 282, " in reader.find("#spoken").get_attribute("textContent").replace(" ·", ",")


def test_the_legend_hides_and_shows_clusters(open_page, penguin_page, linear):
    reader = open_page(penguin_page)
    before = reader.picture
    sizes = np.bincount(linear.labels_)
    reader.click("[data-cluster='1']")
    assert reader.drawn == 333 - sizes[1]
    assert reader.find("[data-cluster='1']").get_attribute("aria-pressed") == "false"
    assert len(reader.browser.find_elements("css selector", "#plot .own")) == 3
    reader.click("[data-cluster='1']")
    assert (reader.drawn, reader.picture) == (333, before)
    double = "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('dblclick'))"
    reader.run(double, "[data-cluster='2']")
    assert reader.drawn == sizes[2]
    reader.click("#all-clusters")
    assert reader.drawn == 333


def test_a_choice_of_axes_moves_the_points(open_page, penguin_page, penguins):
    reader = open_page(penguin_page)
    before = reader.picture
    reader.choose("x", "bill_length_mm")
    reader.choose("y", "body_mass_g")
    assert reader.picture != before
    names = [one.text for one in reader.browser.find_elements("css selector", "#plot .name")]
    assert names == ["bill_length_mm", "body_mass_g"]
    places = np.array([reader.show_row(row) for row in (9, 178, 282)])
    X = penguins[0][[9, 178, 282]]
    for axis, column in ((0, 0), (1, 3)):
        slope = np.diff(places[:, axis]) / np.diff(X[:, column])
        assert slope[0] == pytest.approx(slope[1], rel=1e-3)
        assert (slope[0] > 0) == (axis == 0)
    reader.click("#swap")
    names = [one.text for one in reader.browser.find_elements("css selector", "#plot .name")]
    assert names == ["body_mass_g", "bill_length_mm"]


def test_codes_have_no_common_axes_and_the_page_says_so(open_page, penguin_page):
    reader = open_page(penguin_page)
    assert not reader.find("#frame-note").is_displayed()
    reader.choose("x", "code 0")
    assert reader.find("#frame-note").is_displayed()
    assert reader.browser.find_elements("css selector", "#plot .own") == []
    assert not reader.find("#axes").is_enabled()


def test_axes_can_be_hidden(open_page, penguin_page):
    reader = open_page(penguin_page)
    reader.click("#overall")
    assert reader.browser.find_elements("css selector", "#plot .overall") == []
    reader.click("#axes")
    assert reader.browser.find_elements("css selector", "#plot .own") == []


def test_dragging_zooms_and_a_double_click_zooms_out(open_page, penguin_page):
    from selenium.webdriver import ActionChains

    reader = open_page(penguin_page)
    reader.point(300, 100)
    chain = ActionChains(reader.browser, duration=0)
    chain.click_and_hold().move_by_offset(300, 200).release().perform()
    assert 0 < reader.drawn < 333
    assert reader.find("#reset").is_displayed()
    ActionChains(reader.browser).double_click(reader.find("#plot svg")).perform()
    assert reader.drawn == 333
    assert not reader.find("#reset").is_displayed()


def test_the_map_is_walked_with_the_keyboard(open_page, penguin_page, penguins):
    reader = open_page(penguin_page)
    reader.run("document.getElementById('plot').focus()")
    along = penguins[0][:, 0]
    seen = []
    for _ in range(4):
        reader.press("\ue014")  # right
        seen.append(int(re.match(r"row (\d+)", reader.tip)[1]))
    np.testing.assert_array_equal(along[seen], np.sort(along)[:4])
    assert len(set(seen)) == 4
    reader.press("\ue012")  # left
    assert reader.tip.startswith(f"row {seen[2]} ")
    reader.press("\ue00c")
    assert reader.tip == ""


def test_a_reversal_is_shown_on_the_map(open_page, penguin_page):
    reader = open_page(penguin_page)
    buttons = reader.browser.find_elements("css selector", ".show")
    reader.run("arguments[0].click()", buttons[2])
    names = {one.text for one in reader.browser.find_elements("css selector", "#plot .name")}
    assert names == {"bill_length_mm", "bill_depth_mm"}


def test_tables_sort_by_mouse_and_keyboard(open_page, penguin_page, linear, penguins):
    reader = open_page(penguin_page)
    heads = reader.browser.find_elements("css selector", "#anomalies thead th")
    assert [head.get_attribute("aria-sort") for head in heads][2] == "descending"
    rows = [int(text) for text in reader.column("#anomalies", 0)]
    worst = np.argsort(-linear.costs(penguins[0]).min(1))[:50].tolist()
    assert rows == worst
    button = heads[0].find_element("css selector", "button")
    reader.run("arguments[0].click()", button)
    assert [int(text) for text in reader.column("#anomalies", 0)] == sorted(worst, reverse=True)
    assert heads[0].get_attribute("aria-sort") == "descending"
    assert heads[2].get_attribute("aria-sort") == "none"
    reader.run("arguments[0].focus()", button)
    reader.press("\ue007")  # Enter
    assert [int(text) for text in reader.column("#anomalies", 0)] == sorted(worst)
    reader.run("arguments[0].click()", heads[-1].find_element("css selector", "button"))
    names = reader.column("#anomalies", len(heads) - 1)
    assert names == sorted(names)


def test_dark_screens_get_a_dark_page(open_page, penguin_page):
    shade = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    light = open_page(penguin_page)
    assert min(light.run(shade)) > 200
    bright = light.picture
    dark = open_page(penguin_page, dark=True)
    assert max(dark.run(shade)) < 60
    assert dark.drawn == 333
    assert dark.picture != bright


@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_sticks_out_on_narrow_and_wide_screens(open_page, penguin_page, width):
    reader = open_page(penguin_page, width=width)
    page = "document.documentElement"
    assert reader.run(f"return {page}.scrollWidth <= {page}.clientWidth")
    assert reader.drawn == 333


def test_print_is_light_whole_and_without_controls(open_page, penguin_page):
    reader = open_page(penguin_page, dark=True)
    pdf = base64.b64decode(reader.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf[:5] == b"%PDF-"
    n_pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= n_pages <= 9
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    media = {"media": "print", "features": [scheme]}
    reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    shade = "return getComputedStyle(document.body).backgroundColor"
    assert reader.run(shade) == "rgb(255, 255, 255)"
    assert not reader.find(".controls").is_displayed()
    assert not reader.find("nav").is_displayed()
    assert reader.find("#anomalies tbody tr:last-child").is_displayed()
    overflow = "return getComputedStyle(document.querySelector('#anomalies .scroll')).maxHeight"
    assert reader.run(overflow) == "none"


def test_names_and_values_do_nothing(open_page, linear, penguins, nasty, write):
    page = write(
        linear,
        penguins[0],
        title=nasty.text,
        feature_names=nasty.names,
        identifiers={nasty.text: [nasty.text] * 333},
    )
    # Without the policy too: escaping alone has to hold.
    page.path.write_text(re.sub("<meta http-equiv.*?>", "", page.source), "utf-8")
    reader = open_page(page)
    assert reader.browser.title == nasty.text
    assert reader.drawn == 333
    for row in (9, 178, 282):
        reader.show_row(row)
        assert nasty.text in reader.tip
    for name in nasty.names[:2]:
        reader.choose("x", name)
        assert reader.find("#plot .name").get_attribute("textContent") == name
    assert reader.run("return window.hit") is None
    assert reader.run("return document.images.length") == 0


def test_the_policy_lets_no_foreign_script_run(open_page, penguin_page, write, browser):
    source = penguin_page.source.replace("</main>", "<script>window.hit = 3</script></main>")
    path = penguin_page.path.with_name("foreign.html")
    path.write_text(source, "utf-8")
    browser.get(path.as_uri())
    assert browser.execute_script("return window.hit") is None
    (complaint,) = browser.get_log("browser")
    assert "Content Security Policy" in complaint["message"]


@pytest.mark.parametrize("scale", [0.0, 1e-100, 1e100])
def test_points_are_drawn_whatever_their_size(open_page, scale, write):
    X = scale * np.random.RandomState(0).normal(size=(30, 2)) + scale
    reader = open_page(write(LinearTAE(1, 1).fit(X), X))
    assert reader.drawn == 30


def test_images_are_shown_on_hover(open_page, digits, write):
    X = digits[0].reshape(-1, 64)
    page = write(LinearTAE(4, 2, random_state=0).fit(X), X, shape=(8, 8))
    reader = open_page(page)
    reader.show_row(next(one["data-row"] for one in page.has("button") if "data-row" in one))
    size = reader.find("#tip .picture").size
    assert (size["width"], size["height"]) == (88, 88)  # eleven times as large as it is
    broken = "return [...document.images].filter((one) => !one.naturalWidth).length"
    assert reader.run(broken) == 0


@pytest.mark.parametrize("dark", [False, True])
def test_a_first_look_opens_with_its_answer(open_page, write, dark):
    """The page of an exploration: the answer on the first screen, every link leads somewhere."""
    from palmerpenguins import load_penguins

    found = explore(load_penguins())
    page = write(SimpleNamespace(report=lambda _, path: found.report(path)), None)
    reader = open_page(page, dark=dark)
    assert reader.drawn == 342
    assert reader.find(".head").text == f"{found.head}."
    assert "3 groups, clear" in reader.find(".clarity").text
    assert found.worth_a_look in reader.find(".look").text
    groups = reader.find(".groups")
    assert [rule.text in groups.text for rule in found.rules] == [True] * 3
    assert groups.location["y"] + groups.size["height"] < 600
    assert reader.find(".answer").text == found.sentences[0]
    missing = """return [...document.querySelectorAll('nav a')].map((one) => one.hash)
        .filter((one) => !document.querySelector(one))"""
    assert reader.run(missing) == []
    reader.show_row(found.outliers[0].row)
    table = "const t = document.querySelector('#outliers table');"
    assert reader.run(f"{table} return t.scrollWidth <= t.parentNode.clientWidth")  # not cut off
    assert reader.run("return document.documentElement.scrollWidth <= window.innerWidth")
