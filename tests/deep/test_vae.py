"""Variational autoencoders: the cost is the evidence bound, and the bound is one."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from torch import nn

from tensorae import TAE, tensorize
from tensorae.datasets import parallel_lines
from tensorae.deep.networks import VariationalAutoencoder
from tensorae.deep.vae import divergence, quadrature_codes, sample_codes, split_code
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.inspect.samples import ClusteredSamples

IRIS = load_iris().data


class LinearGaussian(nn.Module):
    """Codes and outputs are linear, so that the density is known."""

    def __init__(self, d, h):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(d, h), nn.Linear(h, d)
        self.log_variance = nn.Parameter(torch.randn(h))

    def encode(self, x):
        mean = self.encoder(x)
        return mean, self.log_variance.expand_as(mean)

    def decode(self, z):
        return self.decoder(z)


def exact_log_density(module, j, x):
    """Log-density of rows under cluster j of linear Gaussian autoencoders."""
    network, v = module.autoencoders[j], module.scale**2 * module.noise_variance
    loading = module.scale * network.decoder.weight
    covariance = loading @ loading.mT + v * torch.eye(x.shape[1], dtype=x.dtype)
    mean = module.centers[j] + module.scale * network.decoder.bias
    return torch.distributions.MultivariateNormal(mean, covariance).log_prob(x)


@pytest.mark.parametrize("h", [1, 2, 4])
def test_the_bound_is_at_most_the_density_of_probabilistic_pca(h):
    torch.manual_seed(h)
    module = tensorize(lambda: LinearGaussian(5, h), 3, input_shape=(5,)).double()
    x = 3 * torch.randn(40, 5, dtype=torch.float64)
    module.set_centers(torch.randn(3, 5))
    module.costs(x)
    module.scale.fill_(1.7)
    for noise in (0.2, 1.0):
        module.noise_variance.fill_(noise)
        bounds = module.evidence(x)
        for j in range(3):
            assert (bounds[:, j] <= exact_log_density(module, j, x) + 1e-9).all()


def test_the_start_reaches_the_density_of_probabilistic_pca():
    rng = np.random.RandomState(0)
    X = rng.randn(400, 6) * [5, 3, 1, 1, 1, 1] @ np.linalg.qr(rng.randn(6, 6))[0]
    offsets = torch.as_tensor(X - X.mean(0))
    values, vectors = torch.linalg.eigh(offsets.mT @ offsets / 400)
    components, noise = vectors.mT.flip(0)[:2], values[:4].mean()
    module = tensorize(lambda: VariationalAutoencoder(6, 2), 1, input_shape=(6,)).double()
    module.autoencoders[0].start_from_gaussian(components, values.flip(0)[:2], noise)
    module.costs(offsets)
    module.noise_variance.fill_(float(noise))
    loading = components.mT * (values.flip(0)[:2] - noise).sqrt()
    covariance = loading @ loading.mT + noise * torch.eye(6)
    exact = torch.distributions.MultivariateNormal(torch.zeros(6).double(), covariance)
    torch.testing.assert_close(module.evidence(offsets)[:, 0], exact.log_prob(offsets))


def test_a_direction_without_signal_can_still_be_learned():
    network = VariationalAutoencoder(3, 2)
    network.start_from_gaussian(torch.eye(3)[:2], torch.tensor([4.0, 0.5]), torch.tensor(1.0))
    mean, log_variance = network.encode(torch.ones(1, 3))
    assert (network.decoder_path.abs().amax(1) > 0).all()
    assert (mean != 0).all()
    assert (log_variance < 0).all()


def test_the_bound_is_below_the_log_density_by_quadrature():
    """For a code of one number the density is an integral that can be computed."""
    X, _ = parallel_lines(random_state=0)
    model = TAE(2, 1, architecture="vae", max_epochs=40, random_state=0).fit(X)
    module, v = model.module_.double(), model.noise_variance_
    grid = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(grid)
    x = torch.as_tensor(X)
    densities = []
    for j, weight in enumerate(model.weights_):
        with torch.no_grad():
            points = module.decode(grid[:, None], torch.full((4001,), j))
        squares = torch.cdist(x, points).square()
        log_joint = -squares / (2 * v) - 2.5 * math.log(2 * math.pi * v) + prior
        densities.append(log_joint.logsumexp(1) + math.log(16 / 4000) + math.log(weight))
    exact = torch.stack(densities).logsumexp(0).numpy()
    bound = model.score_samples(X)
    # Expected errors are taken at points of the code, which for a bent decoder is not exact.
    assert (bound <= exact + 0.05).all()
    assert bound.mean() > exact.mean() - 0.3


def test_fixed_points_give_what_drawn_codes_give_in_the_mean():
    torch.manual_seed(0)
    network = VariationalAutoencoder(6, 3)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    u = torch.randn(5, 6)
    mean, log_variance = split_code(network.encode(u))
    points = quadrature_codes(mean, log_variance)
    torch.testing.assert_close(points.mean(0), mean)
    torch.testing.assert_close(points.var(0, unbiased=False), log_variance.exp())
    module = tensorize(lambda: network, 1)
    with torch.no_grad():
        costs = module.costs(u)[:, 0]
        draws = torch.stack([module.objective(0, u, u, 0.0) for _ in range(4000)])
    error = draws.std(0) / math.sqrt(4000)
    assert ((draws.mean(0) - costs).abs() < 5 * error + 0.05 * costs).all()


def test_the_divergence_is_that_of_gaussians():
    torch.manual_seed(0)
    mean, log_variance = torch.randn(7, 3), torch.randn(7, 3)
    codes = torch.distributions.Normal(mean, (log_variance / 2).exp())
    expected = torch.distributions.kl_divergence(codes, torch.distributions.Normal(0.0, 1.0))
    torch.testing.assert_close(divergence(mean, log_variance), 2 * expected.sum(1))


def test_extreme_codes_stay_finite():
    mean, log_variance = split_code((torch.full((2, 3), 1e9), torch.full((2, 3), 1e30)))
    assert torch.isfinite(divergence(mean, log_variance)).all()
    assert torch.isfinite(quadrature_codes(mean, -1e30 * log_variance.clamp(max=1))).all()
    assert sample_codes(mean, log_variance, None).isfinite().all()


# Fits ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    chosen = np.isin(bunch.target, [0, 2, 4, 6])
    images, classes = bunch.data[chosen].reshape(-1, 8, 8) / 16, bunch.target[chosen]
    model = TAE(4, 4, architecture="vae", max_epochs=40, random_state=0).fit(images[::2])
    return model, images, classes


def test_costs_and_scores_are_one_model(digits):
    model, images, _ = digits
    costs, v, d = model.costs(images), model.noise_variance_, 64
    bounds = -costs / (2 * v) - d / 2 * np.log(2 * np.pi * v)
    expected = np.logaddexp.reduce(bounds + np.log(model.weights_), axis=1)
    np.testing.assert_allclose(model.score_samples(images), expected, rtol=1e-5)
    posterior = np.exp(bounds - np.logaddexp.reduce(bounds, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(images), posterior, atol=1e-4)
    assert (costs > 0).all()
    assert model.loss_ == pytest.approx(model.costs(images[::2]).min(1).sum(), rel=1e-4)


def test_the_noise_is_that_of_samples_that_were_not_seen(digits):
    model, images, _ = digits
    unseen = ((model.reconstruct(images[1::2]) - images[1::2]) ** 2).mean()
    seen = ((model.reconstruct(images[::2]) - images[::2]) ** 2).mean()
    assert seen < unseen < 1.3 * model.noise_variance_ < 1.6 * unseen


@pytest.mark.quality
def test_digits_are_found_and_drawn_samples_are_of_their_cluster(digits):
    model, images, classes = digits
    assert adjusted_rand_score(classes[1::2], model.predict(images[1::2])) > 0.9
    for noise in (True, False):
        drawn, labels = model.sample(200, noise=noise, random_state=1)
        assert drawn.shape == (200, 8, 8)
        assert (np.diff(labels) >= 0).all()
        assert (model.predict(drawn) == labels).mean() > 0.9
    # They are as likely as the real ones are, not more and not less.
    real = model.score(images[1::2])
    assert abs(model.score(model.sample(400, random_state=2)[0]) - real) < 0.3 * abs(real)


def test_labels_say_where_samples_come_from(digits):
    model = digits[0]
    one, labels = model.sample(5, labels=2, random_state=0)
    np.testing.assert_array_equal(labels, [2] * 5)
    some, labels = model.sample(3, labels=[3, 0, 1], noise=False, random_state=0)
    np.testing.assert_array_equal(labels, [3, 0, 1])
    np.testing.assert_array_equal(model.predict(some), [3, 0, 1])
    again, _ = model.sample(5, labels=np.full(5, 2), random_state=0)
    np.testing.assert_array_equal(one, again)
    counts = np.bincount(model.sample(4000, random_state=0)[1], minlength=4) / 4000
    np.testing.assert_allclose(counts, model.weights_, atol=0.04)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"n_samples": 0}, "n_samples must be"),
        ({"labels": 4}, "between 0 and n_clusters-1=3"),
        ({"labels": [0, 1]}, "labels must"),
        ({"noise": 0.1}, "noise must be True or False"),
    ],
)
def test_a_draw_that_makes_no_sense_is_refused(digits, arguments, parts):
    with pytest.raises((InvalidParameterError, InvalidInputError), match=parts):
        digits[0].sample(**{"n_samples": 3, **arguments})


def test_plain_autoencoders_cannot_be_drawn_from():
    model = TAE(2, 1, max_epochs=2, random_state=0).fit(IRIS)
    with pytest.raises(InvalidParameterError, match='architecture="vae"'):
        model.sample(3)
    assert not hasattr(model, "noise_variance_")
    with pytest.raises(TypeError, match="mean and log-variance"):
        model.module_.evidence(torch.as_tensor(IRIS, dtype=torch.float32))


def test_codes_are_means_and_as_long_as_their_prior_says(digits):
    model, images, _ = digits
    codes = model.transform(images)
    assert 0.5 < (codes**2).mean() < 1.5
    points = model.inverse_transform(codes, model.predict(images))
    np.testing.assert_allclose(points, model.reconstruct(images), atol=1e-6)


class Bent(nn.Module):
    """A variational autoencoder of a user's own, without a start."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 2))
        self.decoder = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 4))

    def encode(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        return mean, log_variance

    def decode(self, z):
        return self.decoder(z)

    def shared_parts(self):
        return ["encoder.0", "decoder.2"]


@pytest.mark.parametrize("sharing", ["none", "layers"])
def test_any_module_that_encodes_to_a_pair_is_variational(sharing):
    model = TAE(3, 1, architecture=Bent, sharing=sharing, max_epochs=100, random_state=0).fit(IRIS)
    assert np.isfinite(model.score_samples(IRIS)).all()
    assert adjusted_rand_score(load_iris().target, model.labels_) > 0.7
    assert model.sample(10)[0].shape == (10, 4)
    # Better than the noise alone: the code says something.
    assert model.noise_variance_ < IRIS.var(0).mean() / 2


@pytest.mark.parametrize("options", [{}, {"n_clusters": 1}, {"assignment": "em"}, {"noise": 0.1}])
def test_fits_are_in_order(options):
    settings = {"n_clusters": 3, "latent_dim": 1, "max_epochs": 20, "random_state": 0} | options
    model = TAE(architecture="vae", **settings).fit(IRIS)
    np.testing.assert_array_equal(model.predict(IRIS), model.labels_)
    assert np.isfinite(model.score_samples(IRIS)).all()
    assert (np.bincount(model.labels_, minlength=settings["n_clusters"]) > 10).all()
    if "noise" in options:
        noisy = IRIS + 0.1 * np.random.RandomState(0).randn(*IRIS.shape)
        clean = model.denoise(noisy)
        assert ((clean - IRIS) ** 2).mean() < ((noisy - IRIS) ** 2).mean()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "X",
    [
        np.ones((6, 3)),
        np.repeat(np.eye(3), 4, axis=0),
        np.outer(np.arange(30.0), [1, 2, 3]),
        1e12 * IRIS,
        1e-12 * IRIS,
        1e6 + IRIS,
    ],
    ids=["constant", "three points", "a line", "huge", "tiny", "far away"],
)
def test_degenerate_data_stays_finite(X):
    model = TAE(2, 1, architecture="vae", max_epochs=6, random_state=0).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.costs(1e3 * X)).all()
    assert np.isfinite(model.sample(10)[0]).all()
    assert model.noise_variance_ > 0


def test_a_unit_of_the_data_moves_the_bound_by_its_logarithm():
    one, other = (TAE(2, 1, architecture="vae", max_epochs=10, random_state=0) for _ in "ab")
    first, second = one.fit(IRIS).score_samples(IRIS), other.fit(8 * IRIS).score_samples(8 * IRIS)
    np.testing.assert_allclose(second, first - 4 * np.log(8), atol=1e-3)


def test_empty_clusters_are_told(recwarn):
    X = np.repeat(np.eye(2), 10, axis=0)
    model = TAE(4, 1, architecture="vae", max_epochs=4, random_state=0).fit(X)
    assert any(issubclass(one.category, ConvergenceWarning) for one in recwarn)
    assert np.isfinite(model.score_samples(X)).all()


def test_reports_speak_of_costs(digits):
    samples = ClusteredSamples.of(digits[0], digits[1])
    np.testing.assert_allclose(samples.misfit, digits[0].costs(digits[1]).min(1))
    parts = samples.misfit_parts(np.arange(20))
    assert (parts.sum(1) <= samples.misfit[:20]).all()
    assert (parts.sum(1) > 0.5 * samples.misfit[:20]).all()
