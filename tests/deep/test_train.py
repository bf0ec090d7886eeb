"""A training ends well: all clusters alive, or a warning that says what happened and when."""

import copy
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from torch import nn

from tensorae import TAE, LinearTAE
from tensorae.datasets import lines_3d, parallel_lines

ASSIGNMENTS = ["lloyd", "projected", "constrained", "em"]
every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS)
PLACES = np.array([[0.0, 0, 0, 0], [12, 0, 0, 0], [0, 12, 0, 0], [0, 0, 12, 12]])
SHORT = {"max_epochs": 20, "n_init": 2, "random_state": 0}


@pytest.fixture(scope="module")
def blobs():
    """Four long clusters that nobody can confuse: 120 samples of four features."""
    rng = np.random.RandomState(0)
    y = np.arange(120) % 4
    X = PLACES[y] + rng.randn(120, 4) * [1, 0.5, 2, 0.3]
    X.setflags(write=False)
    return X, y


class Small(nn.Module):
    """A small autoencoder; tests build on it."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


def assert_in_order(model, X):
    """Check that all that a fit publishes is finite and agrees."""
    assert np.isfinite(model.costs(X)).all()
    assert np.isfinite(model.reconstruct(X)).all()
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite(model.loss_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert all(bool(torch.isfinite(v).all()) for v in model.module_.state_dict().values())


def means_of(X, labels):
    return np.stack([X[labels == j].mean(0) for j in range(labels.max() + 1)])


# Rules and starts -------------------------------------------------------------------------------


@every_assignment
@pytest.mark.parametrize("architecture", ["linear", "mlp"])
def test_every_rule_finds_clear_clusters(blobs, assignment, architecture):
    X, y = blobs
    model = TAE(4, 2, assignment=assignment, architecture=architecture, **SHORT).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1
    assert_in_order(model, X)


@every_assignment
def test_no_cluster_dies_on_data_without_clusters(rng, assignment):
    X = rng.randn(200, 4)
    model = TAE(5, 1, assignment=assignment, **SHORT).fit(X)
    assert np.bincount(model.labels_, minlength=5).min() >= 4


@every_assignment
def test_no_cluster_dies_where_a_code_holds_all_features(assignment):
    """With as many codes as features every autoencoder could serve every sample."""
    rng = np.random.RandomState(1)
    X = np.array([[-1.5, 0.5], [0.5, 1.0], [0.8, -1.3]])[np.arange(60) % 3]
    X = X + 0.15 * rng.randn(60, 2)
    model = TAE(3, 2, assignment=assignment, **SHORT).fit(X)
    assert adjusted_rand_score(np.arange(60) % 3, model.labels_) > 0.9


@pytest.mark.parametrize("init", ["linear", "k-means++", "random"])
def test_every_start_finds_clear_clusters(blobs, init):
    X, y = blobs
    model = TAE(4, 2, init=init, max_epochs=40, random_state=0).fit(X)
    assert np.bincount(model.labels_, minlength=4).min() > 0
    if init != "random":
        assert adjusted_rand_score(y, model.labels_) == 1


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
@pytest.mark.parametrize("as_kind", [np.array, torch.tensor, np.ndarray.tolist])
def test_given_centers_number_the_clusters(blobs, order, as_kind):
    X, y = blobs
    model = TAE(4, 2, init=as_kind(PLACES[order]), max_epochs=10, random_state=0).fit(X)
    np.testing.assert_array_equal(np.array(order)[model.labels_], y)


def test_the_largest_cluster_comes_first_where_nobody_numbered_them(blobs):
    X, y = blobs
    rows = np.concatenate([np.flatnonzero(y == j)[:size] for j, size in enumerate([9, 30, 15, 22])])
    model = TAE(4, 2, **SHORT).fit(X[rows])
    assert np.bincount(model.labels_).tolist() == [30, 22, 15, 9]
    np.testing.assert_allclose(model.weights_, np.array([30, 22, 15, 9]) / 76)


def test_known_labels_number_the_clusters(blobs, rng):
    X, y = blobs
    for clusters in ([0, 1, 2, 3], [2, 3]):
        known = np.full(120, -1)
        for j in clusters:
            known[rng.choice(np.flatnonzero(y == j), 3, replace=False)] = j
        model = TAE(4, 2, max_epochs=10, random_state=0).fit(X, labels=known)
        for j in clusters:
            np.testing.assert_array_equal(model.labels_ == j, y == j)


def test_all_labels_unknown_equals_no_labels(blobs):
    X, _ = blobs
    model = TAE(4, 2, max_epochs=5, random_state=0).fit(X)
    other = TAE(4, 2, max_epochs=5, random_state=0).fit(X, labels=np.full(120, -1))
    np.testing.assert_array_equal(other.costs(X), model.costs(X))


# No collapse ------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["lloyd", "em"])
def test_a_cluster_that_starts_without_members_is_revived(blobs, assignment):
    X, y = blobs
    start = PLACES.copy()
    start[2] = 1e3
    model = TAE(4, 2, init=start, assignment=assignment, max_epochs=40, random_state=0).fit(X)
    assert model.history_["sizes"][0][2] == 0
    assert np.bincount(model.labels_, minlength=4).min() > 0
    assert adjusted_rand_score(y, model.labels_) > 0.7
    assert_in_order(model, X)


def test_a_revived_cluster_is_a_candidate_for_all_rows(rng):
    """Six groups, of which a far centre leaves one without a cluster of its own."""
    places = 15 * np.eye(6)
    y = np.arange(180) % 6
    X = places[y] + rng.randn(180, 6)
    start = places.copy()
    start[5] = 1e3
    model = TAE(6, 1, init=start, max_epochs=60, random_state=0).fit(X)
    assert np.bincount(model.labels_, minlength=6).min() > 0
    assert_in_order(model, X)


def test_clusters_that_no_row_is_left_for_are_named():
    X = np.repeat(np.random.RandomState(0).randn(3, 4), 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="of n_clusters=5 have no members.*lower n_clus"):
        model = TAE(5, 1, max_epochs=10, random_state=0).fit(X)
    assert_in_order(model, X)
    assert len(set(model.labels_)) <= 3


def test_a_cluster_of_one_row_trains_layers_that_need_more():
    """Batch norm cannot take a single sample."""

    class Normed(Small):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))

    rng = np.random.RandomState(0)
    X = np.vstack([rng.randn(65, 4), [[100.0, 100, 100, 100]]])
    start = np.stack([np.zeros(4), np.full(4, 100.0)])
    model = TAE(2, 2, architecture=Normed, init=start, max_epochs=10, random_state=0).fit(X)
    assert model.labels_.tolist() == [0] * 65 + [1]
    assert_in_order(model, X)


@pytest.mark.parametrize("n", [4, 5, 7, 9])
def test_few_rows_are_enough(n, rng):
    X = rng.randn(n, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = TAE(4, 1, max_epochs=6, random_state=0).fit(X)
    assert_in_order(model, X)


def test_features_that_never_change_are_no_problem(blobs):
    X = np.hstack([blobs[0], np.full((120, 2), 7.0)])
    model = TAE(4, 2, **SHORT).fit(X)
    assert adjusted_rand_score(blobs[1], model.labels_) == 1
    np.testing.assert_allclose(model.reconstruct(X)[:, 4:], 7, atol=0.3)


def test_rows_that_are_all_the_same_are_no_problem():
    X = np.full((12, 3), 5.0)
    model = TAE(1, 1, max_epochs=3, random_state=0).fit(X, clean=X)
    assert model.loss_ == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(model.reconstruct(X), X, atol=1e-5)
    np.testing.assert_allclose(model.denoise(X), X, atol=1e-5)


# Ends that were not planned -----------------------------------------------------------------------


def interrupt_in(phase):
    def callback(epoch):
        if epoch.phase == phase:
            raise KeyboardInterrupt

    return callback


@every_assignment
@pytest.mark.parametrize("phase", ["learn", "close"])
def test_an_interrupt_gives_a_fitted_model_and_a_warning(blobs, phase, assignment):
    X, y = blobs
    model = TAE(4, 2, assignment=assignment, callbacks=interrupt_in(phase), **SHORT)
    with pytest.warns(ConvergenceWarning, match=r"interrupted in epoch \d+; the best model so far"):
        model.fit(X)
    assert model.n_iter_ == (1 if phase == "learn" else 6)
    assert_in_order(model, X)
    assert adjusted_rand_score(y, model.labels_) == 1
    if assignment != "em":
        means = means_of(X, model.labels_)
        np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-4)


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained"])
def test_an_interrupt_at_the_close_leaves_hard_assignments(rng, assignment):
    """Clusters that touch, so that assignments are still soft when learning ends."""
    X = 2 * rng.randn(8, 5)[rng.randint(8, size=240)] + 0.7 * rng.randn(240, 5)
    options = {"max_epochs": 5, "random_state": 0, "callbacks": interrupt_in("close")}
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = TAE(5, 2, assignment=assignment, **options).fit(X)
    assert_in_order(model, X)
    np.testing.assert_allclose(model.cluster_centers_, means_of(X, model.labels_), atol=1e-4)


def test_an_interrupt_still_leaves_a_model_that_denoises():
    X, _ = lines_3d(random_state=0)
    model = TAE(3, 1, noise=0.1, callbacks=interrupt_in("learn"), **SHORT)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X)
    assert np.isfinite(model.denoise(X)).all()


class Breaks(Small):
    """Gives NaN in training for samples that are far out, once it is told to."""

    broken = False

    def decode(self, z):
        output = self.decoder(z)
        return output * float("nan") if Breaks.broken and self.training else output


@pytest.fixture
def breaking():
    yield Breaks
    Breaks.broken = False


@every_assignment
@pytest.mark.parametrize("at", [0, 3, 12, 18])
def test_a_loss_that_is_no_number_gives_the_last_good_model(blobs, breaking, at, assignment):
    X, _ = blobs

    def callback(epoch):
        breaking.broken = epoch.epoch >= at

    breaking.broken = at == 0
    model = TAE(4, 2, architecture=breaking, assignment=assignment, callbacks=callback, **SHORT)
    with pytest.warns(ConvergenceWarning, match=rf"cluster \d .* in epoch {at + 1};.* Lower lr"):
        model.fit(X)
    assert model.n_iter_ == at
    assert model.best_epoch_ <= at
    assert_in_order(model, X)
    if assignment != "em":
        means = means_of(X, model.labels_)
        np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-4)


def test_the_warning_names_the_cluster_whose_loss_broke(blobs):
    class OneBreaks(Small):
        """The autoencoder that sees the longest samples breaks."""

        def decode(self, z):
            output = self.decoder(z)
            return output * float("nan") if self.training and hasattr(self, "doomed") else output

    made = []

    def make():
        made.append(OneBreaks())
        if len(made) == 3:
            made[-1].doomed = True
        return made[-1]

    X, _ = blobs
    with pytest.warns(ConvergenceWarning, match=r"loss of cluster 2 .*epoch 1;.*epoch 0 is kept"):
        TAE(4, 2, architecture=make, init=PLACES, max_epochs=5, random_state=0).fit(X)


def test_a_learning_rate_that_is_far_too_high_is_reported(blobs):
    X, _ = blobs
    with pytest.warns(
        ConvergenceWarning, match=r"no longer a finite number.*Lower lr \(now 1e\+30"
    ):
        model = TAE(4, 2, lr=1e30, max_epochs=20, random_state=0).fit(X)
    assert_in_order(model, X)


# Early stopping -----------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["lloyd", "em"])
def test_early_stopping_restores_the_best_epoch(assignment):
    X, _ = parallel_lines(random_state=0)
    kept = {}
    model = TAE(
        2,
        1,
        assignment=assignment,
        validation_fraction=0.3,
        patience=1,
        lr=0.05,
        max_epochs=100,
        random_state=0,
        callbacks=lambda epoch: kept.update({epoch.epoch: copy.deepcopy(epoch.module)}),
    ).fit(X)
    held_out = np.array(model.history_["held_out_loss"])
    assert model.best_epoch_ == np.nanargmin(held_out) + 1
    # The order of the clusters may have changed since.
    wanted = kept[model.best_epoch_].autoencoders

    def summary(networks):
        return sorted(sum(float(p.detach().sum()) for p in n.parameters()) for n in networks)

    np.testing.assert_allclose(summary(model.module_.autoencoders), summary(wanted), rtol=1e-6)


def test_learning_ends_where_the_held_out_loss_falls_no_more():
    X, _ = parallel_lines(random_state=0)
    options = {"max_epochs": 200, "validation_fraction": 0.3, "random_state": 0}
    patient = TAE(2, 1, tol=0.0, patience=1000, **options).fit(X)
    impatient = TAE(2, 1, tol=0.5, patience=0, **options).fit(X)
    assert patient.n_iter_ == 200
    assert impatient.n_iter_ < patient.n_iter_
    assert impatient.history_["phase"][-1] == "close"


class Recorded(Small):
    seen = []  # noqa: RUF012

    def encode(self, x):
        if self.training:
            Recorded.seen.append(x.detach().clone())
        return self.encoder(x)


def test_held_out_rows_are_not_trained_on(blobs):
    X, _ = blobs

    def forget(epoch):
        if epoch.epoch < 10:
            Recorded.seen.clear()

    model = TAE(
        1,
        2,
        architecture=Recorded,
        validation_fraction=0.25,
        max_epochs=10,
        random_state=0,
        callbacks=forget,
    ).fit(X)
    seen = torch.cat(Recorded.seen) * model.module_.scale + model.module_.centers[0]
    distances = torch.cdist(seen.double(), torch.tensor(X))
    assert (distances.amin(1) < 1e-3).all()
    assert len(distances.argmin(1).unique()) == 90
    assert len(model.labels_) == 120


def test_the_held_out_loss_is_that_of_the_held_out_rows(blobs):
    """Rows that one cluster does not train on cost what the history says."""
    X, _ = blobs
    model = TAE(1, 2, validation_fraction=0.25, max_epochs=10, random_state=0)
    last = {}
    model.set_params(callbacks=lambda epoch: last.update(held_out=epoch.held_out_loss)).fit(X)
    # One row in four: the mean cost of all rows is near it, in the units of the data.
    assert last["held_out"] == pytest.approx(-model.score(X), rel=0.5)


def test_samples_are_scored_by_networks_that_did_not_train_on_them():
    """Networks that learn by heart score what they have learned at nothing, others not."""
    rng = np.random.RandomState(0)
    X = rng.randn(40, 8)

    def make():
        encoder = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))
        return encoder, nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 8))

    model = TAE(2, 4, architecture=make, lr=5e-3, latent_penalty=0, max_epochs=250, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = model.set_params(patience=100).fit(X).history_
    measured = ~np.isnan(history["held_out_loss"])
    loss, held_out = np.array(history["loss"])[measured], np.array(history["held_out_loss"])
    assert held_out[measured][-1] > 1.5 * loss[-1]


# The penalty --------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [parallel_lines, lines_3d], ids=lambda f: f.__name__)
def test_an_estimated_penalty_is_that_of_the_linear_model(draw):
    X, y = draw(random_state=0)
    k = y.max() + 1
    options = {"latent_penalty": "auto", "random_state": 0}
    deep = TAE(k, 1, architecture="linear", max_epochs=60, **options).fit(X)
    exact = LinearTAE(k, 1, spread="shared", assignment="lloyd", **options).fit(X)
    assert deep.latent_penalty_ == pytest.approx(exact.latent_penalty_, rel=0.1)
    assert deep.loss_ == pytest.approx(exact.loss_, rel=0.05)


def test_one_cluster_trains_with_the_penalty_that_is_estimated(rng):
    """Almost no noise means almost no penalty, so that the code is hardly shortened."""
    X = rng.randn(100, 1) * [3.0, 2.0, 1.0] + 1e-3 * rng.randn(100, 3)
    model = TAE(1, 1, architecture="linear", latent_penalty="auto", max_epochs=100, random_state=0)
    model.fit(X)
    assert model.latent_penalty_ < 1e-3
    X = X - X.mean(0)
    shortened = (model.transform(X) ** 2).sum() / (X**2).sum()
    assert shortened == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("penalty", [0.0, 0.3, 1.0])
def test_a_given_penalty_is_used(blobs, penalty):
    model = TAE(4, 2, latent_penalty=penalty, max_epochs=5, random_state=0).fit(blobs[0])
    assert model.latent_penalty_ == pytest.approx(penalty)
    assert float(model.module_.latent_penalty) == pytest.approx(penalty)


# Noise --------------------------------------------------------------------------------------------


def test_noise_is_fresh_each_epoch_and_of_the_given_size(blobs):
    X, _ = blobs
    Recorded.seen.clear()
    counts = []
    model = TAE(
        1,
        2,
        architecture=Recorded,
        noise=0.7,
        max_epochs=10,
        random_state=0,
        callbacks=lambda epoch: counts.append(len(Recorded.seen)),
    ).fit(X)
    scale, center = model.module_.scale, model.module_.centers[0]
    last = torch.cat(Recorded.seen[counts[-2] :]) * scale + center
    before = torch.cat(Recorded.seen[counts[-3] : counts[-2]]) * scale + center
    assert len(last) == len(before) == 120
    assert torch.cdist(last, before).amin() > 1e-4
    # The spread of the inputs is that of the data and of the noise together.
    wanted = X.var(0) + 0.7**2
    np.testing.assert_allclose(last.var(0).numpy(), wanted, rtol=0.35, atol=0.1)
