"""Laws of the deep model: what it equals, what must not matter, and what must always agree."""

import copy

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import nn

from tensorae import TAE, LinearTAE, tensorize
from tensorae.datasets import lines_3d, orthogonal_lines, parallel_lines, triangle
from tensorae.deep.epoch import WARM_UP

ASSIGNMENTS = ["lloyd", "projected", "constrained", "em"]
every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS)
SHORT = {"max_epochs": 10, "n_init": 1, "random_state": 0}


class Recorded(nn.Module):
    """A small autoencoder that keeps what it is trained on."""

    def __init__(self, d=4, h=2, width=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d, width), nn.Tanh(), nn.Linear(width, h))
        self.decoder = nn.Sequential(nn.Linear(h, width), nn.Tanh(), nn.Linear(width, d))
        self.batches = []

    def encode(self, x):
        if self.training:
            self.batches.append(x.detach().clone())
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


class Regularised(nn.Module):
    """Layers that behave differently in training; keeps the mode of every call."""

    def __init__(self, d=4, h=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.code = nn.Linear(8, h)
        self.decoder = nn.Linear(h, d)

    def encode(self, x):
        return self.code(self.encoder(x))

    def decode(self, z):
        return self.decoder(z)


@pytest.fixture(scope="module")
def crowd():
    """Eight clusters that touch, more than a row has candidates: 240 samples of five features."""
    rng = np.random.RandomState(1)
    X = 2 * rng.randn(8, 5)[rng.randint(8, size=240)] + 0.7 * rng.randn(240, 5)
    X.setflags(write=False)
    return X


@pytest.fixture(scope="module")
def model(blobs):
    return TAE(3, 2, **SHORT).fit(blobs[0])


def assert_same_fit(model, other, X, rtol=1e-6):
    """Compare labels and costs of the same rows."""
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    costs = other.costs(X)
    np.testing.assert_allclose(model.costs(X), costs, rtol=rtol, atol=rtol * costs.mean())
    assert model.loss_ == pytest.approx(other.loss_, rel=rtol)


# What it equals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [16, 64])
def test_one_cluster_without_penalty_equals_a_plain_autoencoder_batch_for_batch(blobs, batch_size):
    made, epochs = [], []

    def make():
        made.append(Recorded())
        made.append(copy.deepcopy(made[0]))
        return made[0]

    model = TAE(
        1,
        2,
        architecture=make,
        latent_penalty=0,
        batch_size=batch_size,
        lr=2e-3,
        max_epochs=10,
        random_state=0,
        callbacks=lambda epoch: epochs.append((epoch.phase, len(made[0].batches))),
    ).fit(blobs[0])
    trained, plain = made
    assert model.module_.autoencoders[0] is trained

    optimizer = torch.optim.Adam(plain.parameters())
    assert [phase for phase, _ in epochs].count("close") == 8
    done = 0
    for number, (_, upto) in enumerate(epochs):
        # The rate falls in the last half, and rises over the first steps.
        lr = 2e-3 * min(1, (len(epochs) - number) / 5)
        for step, u in enumerate(trained.batches[done:upto], done + 1):
            optimizer.param_groups[0]["lr"] = lr * min(1, step / WARM_UP)
            loss = (plain.decode(plain.encoder(u)) - u).square().sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        done = upto
    assert done == len(trained.batches)
    for name, parameter in trained.named_parameters():
        torch.testing.assert_close(parameter, plain.get_parameter(name), rtol=1e-4, atol=1e-6)

    # What it was trained on is X about its mean, every row once an epoch.
    per_epoch = len(trained.batches) // 10
    seen = torch.cat(trained.batches[:per_epoch]) * model.module_.scale
    rows = seen.numpy() + blobs[0].mean(0)
    np.testing.assert_allclose(np.sort(rows, 0), np.sort(blobs[0], 0), atol=1e-4)


@pytest.mark.parametrize(
    "draw", [parallel_lines, orthogonal_lines, triangle, lines_3d], ids=lambda f: f.__name__
)
def test_linear_autoencoders_reach_the_loss_of_the_linear_model(draw):
    X, y = draw(random_state=0)
    k = y.max() + 1
    deep = TAE(k, 1, architecture="linear", max_epochs=60, random_state=0).fit(X)
    exact = LinearTAE(k, 1, random_state=0, latent_penalty=0.1).fit(X)
    assert deep.loss_ == pytest.approx(exact.loss_, rel=0.01)
    assert adjusted_rand_score(deep.labels_, exact.labels_) > 0.95


@pytest.mark.parametrize("assignment", ["projected", "constrained", "em"])
@pytest.mark.parametrize("draw", [parallel_lines, lines_3d], ids=lambda f: f.__name__)
def test_soft_assignments_reach_the_loss_of_the_linear_model_too(draw, assignment):
    X, y = draw(random_state=0)
    k = y.max() + 1
    options = {"assignment": assignment, "random_state": 0}
    deep = TAE(k, 1, architecture="linear", max_epochs=40, **options).fit(X)
    exact = LinearTAE(k, 1, latent_penalty=0.1, **options).fit(X)
    assert deep.loss_ == pytest.approx(exact.loss_, rel=0.03)


def random_module(k=3, d=4, h=2):
    module = tensorize(lambda: Recorded(d, h), k, input_shape=(d,))
    module.set_centers(torch.randn(k, d))
    return module


def gradients(module, loss):
    module.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in module.named_parameters()}


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradient_of_the_decoupled_loss_equals_that_of_the_full_one(kind, penalty):
    torch.manual_seed(0)
    module, x = random_module(), torch.randn(40, 4)
    S = torch.softmax(3 * torch.randn(40, 3), 1)
    S = S * (S > 0.1)
    if kind == "hard":
        S = nn.functional.one_hot(S.argmax(1), 3).float()

    def cost(j, rows):
        u = x[rows] - module.centers[j]
        return module.objective(j, u, u, penalty)

    everyone = torch.arange(40)
    full = sum(S[i, j] * cost(j, everyone[i : i + 1])[0] for i in range(40) for j in range(3))
    members = [(S[:, j] > 0).nonzero().squeeze(1) for j in range(3)]
    decoupled = sum((S[rows, j] * cost(j, rows)).sum() for j, rows in enumerate(members))
    assert sum(map(len, members)) < 3 * 40
    wanted = gradients(module, full)
    for name, gradient in gradients(module, decoupled).items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-5, msg=name)


def test_a_training_step_follows_the_gradient_of_the_full_loss(blobs):
    """At the close a batch is a cluster: its gradients are those of the loss over all samples."""
    snapshots = []

    def snapshot(epoch):
        module = copy.deepcopy(epoch.module)
        for trained, kept in zip(epoch.module.parameters(), module.parameters(), strict=True):
            kept.grad = None if trained.grad is None else trained.grad.clone()
        # The batches of this epoch only.
        for network in epoch.module.autoencoders:
            network.batches.clear()
        snapshots.append((epoch.phase, module))

    X, _ = blobs
    TAE(3, 2, architecture=Recorded, batch_size=90, callbacks=snapshot, **SHORT).fit(X)
    (_, before), (phase, after) = snapshots[-2:]
    assert phase == "close"
    batches = [torch.cat(network.batches) for network in after.autoencoders]
    assert sum(map(len, batches)) == 90
    x = torch.cat([before.centers[j] + before.scale * u for j, u in enumerate(batches)])
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor([len(u) for u in batches]))
    S = nn.functional.one_hot(labels, 3).float()
    penalty = float(before.latent_penalty)
    full = torch.zeros(())
    for j in range(3):
        u = (x - before.centers[j]) / before.scale
        full = full + (S[:, j] * before.objective(j, u, u, penalty)).sum()
    wanted = gradients(before, full)
    for name, parameter in after.named_parameters():
        count = len(batches[int(name.split(".")[1])])
        torch.testing.assert_close(
            count * parameter.grad, wanted[name], rtol=1e-3, atol=1e-3, msg=name
        )
    # All samples, each in one cluster only.
    spread = np.sqrt(((X - X.mean(0)) ** 2).mean())
    seen = x.numpy() * spread + X.mean(0)
    np.testing.assert_allclose(np.sort(seen, 0), np.sort(X, 0), atol=1e-4)


# What agrees ------------------------------------------------------------------------------------


@every_assignment
def test_predict_equals_labels(crowd, assignment):
    fitted = TAE(5, 2, assignment=assignment, **SHORT).fit(crowd)
    np.testing.assert_array_equal(fitted.predict(crowd), fitted.labels_)
    np.testing.assert_array_equal(clone_and_predict(fitted, crowd), fitted.labels_)
    costs = fitted.costs(crowd)
    own = costs[np.arange(len(crowd)), fitted.labels_]
    assert fitted.loss_ == pytest.approx(own.sum(), rel=1e-6)
    assert fitted.score(crowd) == pytest.approx(-costs.min(1).mean(), rel=1e-6)
    if assignment != "em":
        np.testing.assert_array_equal(costs.argmin(1), fitted.labels_)


def clone_and_predict(fitted, X):
    return TAE(**fitted.get_params()).fit_predict(X)


def means_of(X, labels, k, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    return np.stack(
        [np.average(X[labels == j], axis=0, weights=weights[labels == j]) for j in range(k)]
    )


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained"])
def test_centers_are_the_means_of_their_members(crowd, assignment):
    fitted = TAE(8, 2, assignment=assignment, **SHORT).fit(crowd)
    means = means_of(crowd, fitted.labels_, 8)
    np.testing.assert_allclose(fitted.cluster_centers_, means, atol=1e-5)
    np.testing.assert_allclose(fitted.weights_, np.bincount(fitted.labels_) / 240)


def test_centers_are_the_means_by_weight(blobs, rng):
    X, _ = blobs
    weights = rng.uniform(0.2, 3, size=90)
    fitted = TAE(3, 2, **SHORT).fit(X, sample_weight=weights)
    means = means_of(X, fitted.labels_, 3, weights)
    np.testing.assert_allclose(fitted.cluster_centers_, means, atol=1e-5)
    shares = np.bincount(fitted.labels_, weights) / weights.sum()
    np.testing.assert_allclose(fitted.weights_, shares)


@every_assignment
@pytest.mark.parametrize("k", [2, 3])
def test_centers_of_clear_clusters_are_their_means_whatever_the_rule(blobs, assignment, k):
    """No more clusters than a row has candidates, in whatever order those come."""
    X, y = blobs[0][blobs[1] < k], blobs[1][blobs[1] < k]
    fitted = TAE(k, 2, assignment=assignment, **SHORT).fit(X)
    assert adjusted_rand_score(y, fitted.labels_) == 1
    means = means_of(X, fitted.labels_, k)
    np.testing.assert_allclose(fitted.cluster_centers_, means, atol=1e-3)


@pytest.mark.parametrize("n_clusters", [4, 8])
def test_candidates_and_all_clusters_agree_at_the_end_of_a_fit(crowd, n_clusters):
    """Centres come from the last refresh of the fit, labels from a pass over all clusters."""
    seen = []
    fitted = TAE(n_clusters, 2, callbacks=seen.append, **SHORT).fit(crowd)
    means = means_of(crowd, fitted.costs(crowd).argmin(1), n_clusters)
    np.testing.assert_allclose(fitted.cluster_centers_, means, atol=1e-5)
    assert len(seen[-1].sizes) == n_clusters


@pytest.mark.parametrize("method", ["transform", "reconstruct", "costs"])
def test_the_module_and_the_estimator_agree(blobs, model, method):
    x = torch.tensor(blobs[0], dtype=torch.float32)
    labels = torch.tensor(model.labels_)
    with torch.no_grad():
        by_module = {
            "transform": lambda: model.module_.encode(x, labels),
            "reconstruct": lambda: model.module_(x),
            "costs": lambda: model.module_.costs(x),
        }[method]()
    by_model = getattr(model, method)(x)
    torch.testing.assert_close(by_module, by_model)
    np.testing.assert_allclose(by_model, getattr(model, method)(blobs[0]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("input_shape", [None, (4,)])
def test_a_saved_and_loaded_state_gives_the_same_costs(blobs, tmp_path, input_shape):
    module = TAE(3, 2, architecture=Recorded, **SHORT).fit(blobs[0]).module_
    torch.save(module.state_dict(), tmp_path / "state.pt")
    other = tensorize(Recorded, 3, input_shape=input_shape)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    x = torch.tensor(blobs[0], dtype=torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(other.eval().costs(x), module.costs(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batch_norm_and_dropout_are_in_evaluation_mode_in_predict(blobs, dtype):
    X = blobs[0].astype(dtype)
    fitted = TAE(3, 2, architecture=Regularised, **SHORT).fit(X)
    results = []
    for mode in (False, True, True):
        fitted.module_.train(mode)
        statistics = copy.deepcopy(fitted.module_.state_dict())
        results.append((fitted.costs(X), fitted.transform(X), fitted.reconstruct(X)))
        for name, value in fitted.module_.state_dict().items():
            assert torch.equal(value, statistics[name]), name
    for other in results[1:]:
        for value, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(value, wanted)
    # Alone or among others: a row gets the same costs.
    np.testing.assert_allclose(fitted.costs(X[:1]), results[0][0][:1], rtol=1e-4)


# The penalty ------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-3, 0.5, 20.0])
def test_scaling_encoder_and_decoder_leaves_the_objective_unchanged(factor):
    torch.manual_seed(0)
    autoencoder = Recorded()
    for parameter in autoencoder.parameters():
        nn.init.normal_(parameter)
    module = tensorize(lambda: autoencoder, 1, input_shape=(4,))
    u = torch.randn(30, 4)
    before = module.objective(0, u, u, 0.5).detach()
    with torch.no_grad():
        for parameter in autoencoder.encoder[2].parameters():
            parameter *= factor
        autoencoder.decoder[0].weight /= factor
    torch.testing.assert_close(module.objective(0, u, u, 0.5), before, rtol=1e-4, atol=1e-4)
    plain = module.objective(0, u, u, 0.0)
    assert (before > plain + 1e-3).all()


@pytest.mark.parametrize("architecture", ["linear", "mlp", Recorded])
def test_codes_are_as_long_as_what_they_decode_to(crowd, blobs, architecture):
    X = blobs[0] if architecture is Recorded else crowd
    k = 3 if architecture is Recorded else 8
    fitted = TAE(k, 2, architecture=architecture, **SHORT).fit(X)
    codes, output = fitted.transform(X), fitted.reconstruct(X)
    for j in range(k):
        members = fitted.labels_ == j
        length = (codes[members] ** 2).sum(1).mean()
        decoded = ((output[members] - fitted.cluster_centers_[j]) ** 2).sum(1).mean()
        assert length == pytest.approx(decoded, rel=1e-3), j


def test_the_cost_is_the_squared_error_plus_the_penalty_on_the_code(blobs, model):
    X, _ = blobs
    errors = ((X - model.reconstruct(X)) ** 2).sum(1)
    codes = (model.transform(X) ** 2).sum(1)
    np.testing.assert_allclose(
        model.costs(X).min(1), errors + model.latent_penalty_ * codes, rtol=1e-6
    )
    assert model.latent_penalty_ == pytest.approx(0.1)


def test_a_larger_penalty_makes_shorter_codes(blobs):
    lengths = []
    for penalty in (0.0, 0.5, 1.0):
        fitted = TAE(3, 2, latent_penalty=penalty, max_epochs=60, random_state=0).fit(blobs[0])
        lengths.append((fitted.transform(blobs[0]) ** 2).sum())
    assert lengths[0] > 1.2 * lengths[1] > 1.2 * lengths[2]


# What must not matter ---------------------------------------------------------------------------


@every_assignment
def test_permuting_rows_permutes_the_labels(crowd, rng, assignment):
    order = rng.permutation(len(crowd))
    options = {"assignment": assignment, **SHORT}
    fitted, shuffled = TAE(4, 2, **options).fit(crowd), TAE(4, 2, **options).fit(crowd[order])
    np.testing.assert_array_equal(shuffled.labels_, fitted.labels_[order])
    assert_same_fit(shuffled, fitted, crowd)


@pytest.mark.parametrize(
    "options",
    [{"init": "k-means++"}, {"init": "random"}, {"validation_fraction": 0.2}, {"noise": 0.1}],
    ids=lambda options: next(iter(options)),
)
def test_permuting_rows_permutes_the_labels_whatever_is_drawn(crowd, rng, options):
    order = rng.permutation(len(crowd))
    fitted = TAE(4, 2, **options, **SHORT).fit(crowd)
    shuffled = TAE(4, 2, **options, **SHORT).fit(crowd[order])
    assert_same_fit(shuffled, fitted, crowd)


def test_permuting_rows_and_their_clean_versions_changes_nothing(crowd, rng):
    noisy = crowd + 0.3 * rng.randn(*crowd.shape)
    order = rng.permutation(len(crowd))
    fitted = TAE(4, 2, **SHORT).fit(noisy, clean=crowd)
    shuffled = TAE(4, 2, **SHORT).fit(noisy[order], clean=crowd[order])
    assert_same_fit(shuffled, fitted, noisy)
    np.testing.assert_allclose(shuffled.denoise(noisy), fitted.denoise(noisy), atol=1e-4)


@every_assignment
def test_weights_equal_repeated_rows(crowd, rng, assignment):
    copies = rng.randint(0, 4, size=len(crowd))
    options = {"assignment": assignment, **SHORT}
    weighted = TAE(4, 2, **options).fit(crowd, sample_weight=copies)
    repeated = TAE(4, 2, **options).fit(np.repeat(crowd, copies, axis=0))
    np.testing.assert_array_equal(np.repeat(weighted.labels_, copies), repeated.labels_)
    assert_same_fit(weighted, repeated, crowd)


@pytest.mark.parametrize("shift", [10.0, -300.0, 1e6])
def test_shifting_the_data_shifts_the_centers_only(blobs, model, shift):
    X, y = blobs
    moved = TAE(3, 2, **SHORT).fit(X + shift)
    np.testing.assert_array_equal(moved.labels_, model.labels_)
    assert adjusted_rand_score(y, moved.labels_) == 1
    np.testing.assert_array_equal(moved.predict(X + shift), moved.labels_)
    np.testing.assert_allclose(moved.cluster_centers_ - shift, model.cluster_centers_, atol=1e-4)
    np.testing.assert_allclose(moved.costs(X + shift), model.costs(X), rtol=0.02, atol=0.05)
    np.testing.assert_allclose(moved.reconstruct(X + shift) - shift, model.reconstruct(X), atol=0.1)


@pytest.mark.parametrize("factor", [1e-6, 0.1, 3.0, 1e6])
def test_scaling_the_data_scales_centers_codes_and_costs(blobs, model, factor):
    X, _ = blobs
    scaled = TAE(3, 2, **SHORT).fit(factor * X)
    np.testing.assert_array_equal(scaled.labels_, model.labels_)
    np.testing.assert_allclose(scaled.cluster_centers_ / factor, model.cluster_centers_, atol=1e-4)
    np.testing.assert_allclose(
        scaled.costs(factor * X) / factor**2, model.costs(X), rtol=0.02, atol=0.05
    )
    np.testing.assert_allclose(scaled.transform(factor * X) / factor, model.transform(X), atol=0.1)
    np.testing.assert_allclose(scaled.predict_proba(factor * X), model.predict_proba(X), atol=1e-2)


def test_single_and_double_precision_agree(blobs):
    X = blobs[0].astype(np.float32)
    single = TAE(3, 2, **SHORT).fit(X)
    double = TAE(3, 2, **SHORT).fit(X.astype(np.float64))
    np.testing.assert_array_equal(single.labels_, double.labels_)
    np.testing.assert_allclose(single.costs(X), double.costs(X.astype(float)), rtol=1e-2, atol=1e-2)
    assert single.cluster_centers_.dtype == np.float32


# Randomness -------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_noise(crowd):
    first, second = (TAE(4, 2, noise=0.1, **SHORT).fit(crowd) for _ in range(2))
    np.testing.assert_array_equal(first.denoise(crowd), second.denoise(crowd))
    assert first.history_["loss"] == second.history_["loss"]


def test_another_seed_gives_another_model(crowd):
    first, second = (TAE(4, 2, max_epochs=5, random_state=seed).fit(crowd) for seed in (0, 1))
    assert not np.allclose(first.costs(crowd), second.costs(crowd))
