"""The map as a widget: what is selected in a browser is selected in Python, and the other way."""

import json
import sys

import numpy as np
import pytest

from tensorae import LinearTAE, explore
from tensorae.exceptions import InvalidInputError, InvalidParameterError, MissingDependencyError

pytest.importorskip("anywidget")

# What a notebook does with a widget: hand over its state, and take back what it saves.
HOST = """
const [code, state] = [arguments[0], JSON.parse(arguments[1])], done = arguments[2];
const listeners = {}, saved = {};
const model = {
  get: (name) => state[name],
  set(name, value) { state[name] = value; saved[name] = value; },
  save_changes() { window.sent = JSON.stringify(saved); },
  on: (event, call) => { listeners[event] = call; },
  off: (event) => { delete listeners[event]; },
};
window.receive = (name, value) => { state[name] = value; listeners[`change:${name}`](); };
document.body.replaceChildren();
const el = document.body.appendChild(document.createElement("div"));
window.sent = null;
import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })))
  .then((module) => module.default.render({ model, el }))
  .then(() => { window.root = el.shadowRoot; done(""); })
  .catch((error) => done(String(error)));
"""


class Notebook:
    """A widget on a page, and a mouse."""

    def __init__(self, browser, widget):
        self.browser, self.widget = browser, widget
        state = {name: getattr(widget, name) for name in ("_page", "_points", "selection")}
        problem = browser.execute_async_script(HOST, widget._esm, json.dumps(state))
        assert problem == ""
        self.plot = self.run("return root.getElementById('plot')")

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def settle(self):
        """Give Python what the page has sent, as a kernel does."""
        sent = self.run("return window.sent")
        if sent is not None:
            self.widget.set_state(json.loads(sent))
        return self.widget.selection

    def drag(self, start, stop, *keys):
        """From a place on the map to another one, both as shares of its sides."""
        from selenium.webdriver import ActionChains

        self.run("arguments[0].scrollIntoView({block: 'center'})", self.plot)
        width, height = self.plot.size["width"], self.plot.size["height"]
        chain = ActionChains(self.browser, duration=0)
        for key in keys:
            chain.key_down(key)
        points = [(round((x - 0.5) * width), round((y - 0.5) * height)) for x, y in (start, stop)]
        chain.move_to_element_with_offset(self.plot, *points[0]).click_and_hold()
        chain.move_to_element_with_offset(self.plot, *points[1]).release()
        for key in keys:
            chain.key_up(key)
        chain.perform()

    def text(self, name):
        return self.run("return root.getElementById(arguments[0]).textContent", name)

    @property
    def points(self):
        return json.loads(self.widget._points)


@pytest.fixture
def notebook(browser, tmp_path):
    browser.get_log("browser")
    page = tmp_path / "empty.html"
    page.write_text("<!doctype html><body></body>")
    browser.get(page.as_uri())
    yield lambda widget: Notebook(browser, widget)
    assert browser.get_log("browser") == []


@pytest.fixture
def widget(linear, penguins, names):
    return linear.widget(penguins[0], feature_names=names)


def test_dragging_selects_what_lies_inside(notebook, widget, penguins):
    from selenium.webdriver import Keys

    opened = notebook(widget)
    assert int(opened.plot.get_attribute("data-drawn")) == len(penguins[0])
    opened.drag((0.1, 0.05), (0.5, 0.8))
    left = opened.settle()
    assert 0 < len(left) < len(penguins[0])
    assert opened.text("n-selected") == f"{len(left)} selected"
    # What is selected is a rectangle of the two features on the axes.
    columns = [opened.points["columns"][place] for place in opened.points["start"]]
    chosen = [np.array(column["values"]) for column in columns]
    inside = np.logical_and.reduce(
        [(values >= values[left].min()) & (values <= values[left].max()) for values in chosen]
    )
    assert np.flatnonzero(inside).tolist() == left
    opened.drag((0.5, 0.05), (0.98, 0.8), Keys.SHIFT)
    both = opened.settle()
    assert set(left) < set(both)
    opened.drag((0.1, 0.05), (0.5, 0.8), Keys.SHIFT)
    assert opened.settle() == sorted(set(both) - set(left))
    opened.run("root.getElementById('clear').click()")
    assert opened.settle() == []


def test_the_keyboard_selects_rows(notebook, widget):
    from selenium.webdriver import ActionChains, Keys

    opened = notebook(widget)
    opened.run("root.getElementById('plot').focus()")
    keys = [Keys.ARROW_RIGHT, " ", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, " "]
    ActionChains(opened.browser).send_keys(*keys).perform()
    rows = opened.settle()
    first = opened.points["columns"][opened.points["start"][0]]["values"]
    order = np.argsort(first, kind="stable")
    assert sorted(order[[0, 2]]) == rows


def test_what_python_selects_is_shown(notebook, widget):
    changes = []
    widget.observe(lambda change: changes.append(change["new"]), "selection")
    widget.selection = np.array([7, 3, 7])
    opened = notebook(widget)
    assert opened.text("n-selected") == "2 selected"
    opened.run("receive('selection', [1, 2, 5])")
    assert opened.text("n-selected") == "3 selected"
    assert changes == [[3, 7]]


def test_dragging_zooms_where_that_is_chosen(notebook, widget):
    opened = notebook(widget)
    opened.run("root.getElementById('drag').value = 'zoom'")
    before = int(opened.plot.get_attribute("data-drawn"))
    opened.drag((0.1, 0.05), (0.5, 0.8))
    assert int(opened.plot.get_attribute("data-drawn")) < before
    assert opened.settle() == []


def test_nothing_leaves_the_shadow_and_text_stays_text(notebook, nasty, penguins):
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(penguins[0])
    identifiers = {nasty.names[0]: [nasty.text] * len(penguins[0])}
    opened = notebook(model.widget(penguins[0], feature_names=nasty.names, identifiers=identifiers))
    assert opened.run("return window.hit") is None
    assert opened.run("return document.querySelectorAll('#plot').length") == 0  # in the shadow


def test_a_mask_selects_rows(widget, penguins):
    mask = penguins[0][:, 0] > 50
    widget.selection = mask
    assert widget.selection == np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("wrong", [[333], [-1], [1.5], ["a"], [True, False]])
def test_wrong_rows_are_refused(widget, wrong):
    with pytest.raises(InvalidInputError, match="selection"):
        widget.selection = wrong
    assert widget.selection == []


def test_tables_keep_their_units():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(rng.randn(60, 3) + 5 * (np.arange(60) % 2)[:, None], columns=list("abc"))
    frame["a"] *= 1000
    frame["name"] = [f"row {i}" for i in range(60)]
    widget = explore(frame, n_clusters=2).model.widget(frame)
    points = json.loads(widget._points)
    column = next(one for one in points["columns"] if one["name"] == "a")
    np.testing.assert_allclose(column["values"], frame["a"], rtol=1e-5)
    with pytest.raises(InvalidParameterError, match="max_points"):
        explore(frame, n_clusters=2).model.widget(frame, max_points=0)


def test_a_missing_package_is_named(linear, penguins, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "tensorae.report.widget", raising=False)
    with pytest.raises(MissingDependencyError, match=r"anywidget.*tensorae\[notebook\]"):
        linear.widget(penguins[0])
