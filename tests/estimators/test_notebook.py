"""How models show themselves in notebooks: scikit-learn's diagram before the fit, then a card."""

import re
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from tensorae import TAE, Batches, Choice, ImputerTAE, LinearTAE, OutlierTAE, load
from tensorae.inspect import describe
from tensorae.inspect.comparison import ComparisonView

CLASSES = (LinearTAE, TAE, ImputerTAE, OutlierTAE)
# Numbers that scikit-learn counts up from one diagram to the next.
COUNTERS = re.compile(r"sk-[a-z]+-id-\d+|sk-global")


def new(kind):
    options = {
        LinearTAE: {"n_clusters": 3, "latent_dim": 1, "latent_penalty": 0.1},
        TAE: {"n_clusters": 3, "latent_dim": 1, "max_epochs": 2},
        ImputerTAE: {"n_clusters": (1, 3), "max_iter": 3},
        OutlierTAE: {"n_estimators": 2},
    }
    return kind(**options[kind], random_state=0)


@pytest.fixture(scope="module")
def fitted(penguins):
    return {kind: new(kind).fit(penguins[0]) for kind in CLASSES}


@pytest.mark.parametrize("kind", CLASSES)
def test_before_the_fit_it_is_scikit_learns_diagram(kind):
    expected = COUNTERS.sub("", estimator_html_repr(new(kind)))
    assert COUNTERS.sub("", new(kind)._repr_html_()) == expected
    assert COUNTERS.sub("", new(kind)._repr_mimebundle_()["text/html"]) == expected


@pytest.mark.parametrize("kind", CLASSES)
def test_after_the_fit_it_is_a_card(fitted, kind, read_card):
    model = fitted[kind]
    bundle = model._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/plain": repr(model), "text/html": model._repr_html_()}
    text = read_card(bundle["text/html"])
    assert text.strip().startswith(kind.__name__)
    assert "random_state=0" in text
    assert COUNTERS.search(clone(model)._repr_html_())  # a clone is not fitted


@pytest.mark.parametrize("kind", CLASSES)
def test_text_is_text_where_it_is_asked_for(fitted, kind):
    with sklearn.config_context(display="text"):
        for model in (fitted[kind], new(kind)):
            assert not hasattr(model, "_repr_html_")
            assert model._repr_mimebundle_() == {"text/plain": repr(model)}


@pytest.mark.parametrize("kind", CLASSES)
def test_diagrams_of_scikit_learn_work_as_ever(fitted, kind, penguins):
    assert "sk-estimator fitted" in estimator_html_repr(fitted[kind])
    pipeline = make_pipeline(StandardScaler(), new(LinearTAE) if kind is TAE else new(kind))
    page = pipeline.fit(penguins[0])._repr_html_()
    assert "StandardScaler" in page
    assert type(pipeline[-1]).__name__ in page
    assert "tensorae" not in COUNTERS.sub("", page).split("</style>")[0]


@pytest.mark.parametrize("kind", CLASSES)
def test_names_are_harmless(kind, penguins, read_card):
    pd = pytest.importorskip("pandas")
    names = ["<script>alert(1)</script>", "b & c", '"d"', "</table>"]
    model = new(kind).fit(pd.DataFrame(penguins[0][:60], columns=names))
    text = read_card(model._repr_html_())
    if kind is not ImputerTAE:
        assert any(name in text for name in names)


@pytest.mark.parametrize("kind", CLASSES)
def test_nothing_more_is_needed(fitted, kind, monkeypatch, tmp_path):
    """Neither samples nor jinja2, matplotlib or pandas; a loaded model shows the same."""
    model = fitted[kind]
    for method in ("predict", "costs", "transform", "score_samples", "reconstruct"):
        if hasattr(kind, method):
            monkeypatch.setattr(kind, method, lambda *_: pytest.fail("asked about samples"))
    for package in ("jinja2", "matplotlib", "pandas"):
        monkeypatch.setitem(sys.modules, package, None)
    card = model._repr_html_()
    if hasattr(model, "save"):
        model.save(tmp_path / "model.tae")
        assert load(tmp_path / "model.tae")._repr_html_() == card


# What it says -----------------------------------------------------------------------------------


def test_clusters_are_those_of_describe(fitted, read_card):
    model = fitted[LinearTAE]
    text = read_card(model._repr_html_())
    for cluster in describe(model, n_features=3):
        assert f"{cluster.size} {100 * cluster.share:.1f} %" in re.sub(r"\s+", " ", text)
        assert all(str(loading) in text for loading in cluster.defining)
        assert all(str(loading) in text for loading in cluster.components[0].loadings)
    assert "fitted on 333 rows of 4 features" in text
    assert f"loss {model.loss_:.6g}" in text
    assert "λ 0.1" in text


def test_choices_are_shown_with_their_reason(penguins, read_card):
    model = LinearTAE((2, 3), random_state=0).fit(penguins[0])
    card = model._repr_html_()
    assert model.reason_ in read_card(card)
    choice = read_card(Choice(model, model.comparison_, model.reason_)._repr_html_())
    assert model.reason_ in choice
    chosen = ComparisonView.of(model.comparison_).chosen
    row = f"{chosen.n_clusters} {chosen.kind} {chosen.latent_dim} {chosen.said}"
    assert row in re.sub(r"\s+", " ", choice)
    given = LinearTAE(2, 1, latent_penalty=0.1, spread="shared", random_state=0).fit(penguins[0])
    assert given.reason_ not in read_card(given._repr_html_())
    assert given.reason_ in read_card(Choice(given, {}, given.reason_)._repr_html_())


def test_features_of_networks_are_told_by_their_centres(fitted, read_card):
    model = fitted[TAE]
    sizes, centers = model.cluster_sizes_, model.cluster_centers_
    others = (sizes[1:] @ centers[1:]) / sizes[1:].sum()
    off = centers[0] - others
    largest = int(np.argmax(np.abs(off)))
    assert f"x{largest} {off[largest]:+.3g}" in read_card(model._repr_html_())


def test_outliers_are_described_in_the_units_of_the_features(penguins, read_card):
    names = ("bill", "depth", "flipper", "mass")
    pd = pytest.importorskip("pandas")
    model = OutlierTAE(0.05, n_estimators=2, random_state=0)
    text = read_card(model.fit(pd.DataFrame(penguins[0], columns=names))._repr_html_())
    assert "5 % of rows" in text
    assert any(name in text for name in names)


def test_mixtures_of_an_imputer_are_listed(fitted, read_card):
    model = fitted[ImputerTAE]
    text = re.sub(r"\s+", " ", read_card(model._repr_html_()))
    for k, weight in zip(model.n_clusters_, model.weights_, strict=True):
        assert f"{k} {100 * weight:.1f} %" in text


# Models of all kinds ----------------------------------------------------------------------------


def partial(X):
    return np.where(np.random.RandomState(0).rand(*X.shape) < 0.1, np.nan, X)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda X: LinearTAE(1, 1, random_state=0).fit(X), "clusters 1"),
        (lambda X: LinearTAE(2, spread="own", random_state=0).fit(X), "spread own"),
        (lambda X: LinearTAE(2, 0, spread="own", random_state=0).fit(X), "round"),
        (lambda X: LinearTAE(2, 1, random_state=0).fit(partial(X)), "fitted on 100 rows"),
        (lambda X: LinearTAE(2, 1, random_state=0).fit(X.astype("f4")), "fitted on 100 rows"),
        (lambda X: LinearTAE(2, 1, random_state=0).partial_fit(X).partial_fit(X), "iterations 2"),
        (lambda X: LinearTAE(2, 1, random_state=0).fit(Batches([X[:50], X[50:]])), "on 100 rows"),
        (lambda X: LinearTAE(14, 1, latent_penalty=0.5, random_state=0).fit(X), "… and 2 more"),
        (lambda X: TAE(1, 1, max_epochs=1, random_state=0).fit(X), "epochs 1"),
        (
            lambda X: TAE(2, 1, architecture="vae", max_epochs=1, random_state=0).fit(X),
            "noise variance",
        ),
        (
            lambda X: TAE(2, 1, max_epochs=1, input_shape=(1, 2, 2), random_state=0).fit(X),
            "cluster members share",
        ),
        (lambda X: ImputerTAE(2, max_iter=2, random_state=0).fit(partial(X)), "1 mixture,"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_models_of_all_kinds_have_a_card(make, says, penguins, read_card):
    text = read_card(make(penguins[0][::3][:100])._repr_html_())
    assert says in re.sub(r"\s+", " ", text)
    assert "nan" not in text
