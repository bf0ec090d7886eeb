"""Pages to read, written once, and a browser to open them in."""

import json
import os
import shutil
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from sklearn.datasets import load_digits

from tensorae import TAE, LinearTAE
from tensorae.datasets import add_noise, load_penguins

pytest.importorskip("jinja2")

VOID = {"meta", "img", "input", "br", "link"}


class Page(HTMLParser):
    """A page as a browser would take it apart: elements with their section, numbers, texts."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.path = path
        self.source = path.read_text("utf-8")
        self.elements, self.numbers, self.texts = [], [], []
        self._open = []
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "data":
            self.numbers.append((self.place(), float(dict(attributes)["value"])))
        if tag not in VOID:
            self._open.append((tag, dict(attributes).get("id")))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, text):
        self.texts.append((self.place(), self._open[-1][0] if self._open else "", text))

    def place(self):
        return [name for _, name in self._open if name]

    def numbers_in(self, name):
        return [value for place, value in self.numbers if name in place]

    def text_in(self, name):
        joined = "".join(
            text for place, tag, text in self.texts if name in place and tag != "script"
        )
        return " ".join(joined.split())

    def has(self, tag, **attributes):
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [one for kind, one in self.elements if kind == tag and wanted.items() <= one.items()]

    @property
    def points(self):
        return json.loads("".join(text for place, _, text in self.texts if "points" in place))

    def column(self, key):
        return next(one for one in self.points["columns"] if one["key"] == key)


@pytest.fixture(scope="session")
def write(tmp_path_factory):
    """Write a report and take it apart."""

    def report(model, X, **options):
        return Page(model.report(X, tmp_path_factory.mktemp("report") / "page.html", **options))

    return report


@pytest.fixture(scope="session")
def nasty():
    """What an attacker would call four columns, and write into a cell."""
    return SimpleNamespace(
        names=["<script>window.hit=1</script>", "a\"b'c&amp;<b>", "\u2028</style>", "{{ 7*7 }}"],
        text="</script><img src=x onerror=window.hit=2>",
    )


@pytest.fixture(scope="session")
def names():
    return list(load_penguins().feature_names)


@pytest.fixture(scope="session")
def linear(penguins):
    return LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(penguins[0])


@pytest.fixture(scope="session")
def deep(penguins):
    return TAE(3, latent_dim=1, max_epochs=5, random_state=0).fit(penguins[0])


@pytest.fixture(scope="session")
def species(penguins):
    bunch = load_penguins()
    return bunch.target_names[bunch.target].tolist()


@pytest.fixture(scope="session")
def digits():
    """Clean and noisy images (300, 8, 8)."""
    clean = load_digits().data[:300].reshape(-1, 8, 8) / 16
    return clean, add_noise(clean, 0.2, random_state=0)


@pytest.fixture(scope="session")
def penguin_page(linear, penguins, names, species, write):
    X = penguins[0]
    return write(linear, X, title="Penguins", feature_names=names, identifiers={"species": species})


def missing_browser():
    """What a browser test lacks, or nothing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "the package selenium is not installed"
    for names in (("chromium", "google-chrome", "chromium-browser"), ("chromedriver",)):
        if not any(map(shutil.which, names)):
            return f"{names[0]} is not installed (Debian: apt-get install chromium-driver)"
    return ""


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium with an empty profile."""
    lacking = missing_browser()
    if lacking:
        # Where a browser is promised, a missing one is an error and no reason to skip.
        if os.environ.get("TENSORAE_BROWSER") == "required":
            pytest.fail(f"TENSORAE_BROWSER=required, but {lacking}")
        pytest.skip(lacking)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    found = map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))
    options.binary_location = next(path for path in found if path)
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1280,1000",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()
