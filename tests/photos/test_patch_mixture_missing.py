"""Missing values with a first guess: likely clusters give what all clusters would give."""

import pytest
import torch

from tensorae.core.mixture import LinearPredictor, Mixture
from tensorae.core.passes import MissingValuesPass
from tensorae.data.rows import Rows
from tensorae.photos.patch_mixture import (
    expected_moments,
    guess_costs,
    likely_clusters,
    observations,
)


@pytest.fixture
def model(rng):
    """Three clusters in six features, with spreads of their own."""
    k, d, h = 3, 6, 5
    centers = torch.as_tensor(4 * rng.standard_normal((k, d)))
    components = torch.linalg.qr(torch.as_tensor(rng.standard_normal((k, d, d))))[0][..., :h].mT
    along = torch.as_tensor(rng.uniform(0.6, 3, (k, h))).sort(-1, descending=True).values
    noise, weights = torch.full((k,), 0.5).double(), torch.tensor([0.5, 0.3, 0.2]).double()
    return Mixture(
        centers,
        components.contiguous(),
        latent_penalty=torch.tensor(1.0).double(),
        noise=noise,
        along=along,
        log_weights=weights.log(),
        levels=centers.new_zeros(k, 0),
        tied=False,
        n_features=d,
    )


@pytest.fixture
def rows(rng, model):
    labels = torch.as_tensor(rng.randint(3, size=60))
    whole = model.centers[labels] + 0.8 * torch.as_tensor(rng.standard_normal((60, 6)))
    holes = torch.as_tensor(rng.uniform(size=(60, 6)) < 0.4)
    return whole, whole.masked_fill(holes, torch.nan)


def test_asking_all_clusters_gives_the_conditional_means_and_variances(model, rows):
    whole, has_missing = rows
    likely = likely_clusters(guess_costs(model, whole), 3)
    likely = likely._replace(asked=torch.ones_like(likely.asked))
    said = observations(model, has_missing, likely)
    means, variances = said.joined(said.log_densities)
    expected = LinearPredictor.of_model(model).conditional(has_missing)
    some = has_missing.isnan().any(1)
    torch.testing.assert_close(means[some], expected[0][some])
    torch.testing.assert_close(variances[some], expected[1][some])


def test_sums_are_those_of_a_pass_with_missing_values(model, rows):
    whole, has_missing = rows
    labels = guess_costs(model, whole).argmin(1)
    sums, said = expected_moments(model, has_missing, labels)
    expected = MissingValuesPass(Rows(has_missing, has_missing=True)).expected(
        model.as_start(), labels[None]
    )
    for own, other in zip(sums.tensors(), expected.tensors(), strict=True):
        torch.testing.assert_close(own, other)
    seen = ~has_missing.isnan()
    torch.testing.assert_close(said.means[0][seen], whole[seen])


def test_clusters_without_a_chance_are_not_asked(model):
    likely = likely_clusters(guess_costs(model, model.centers), 2)
    assert likely.clusters[:, 0].tolist() == [0, 1, 2]
    assert not likely.asked[:, 1].any()


def test_without_noise_means_are_those_of_a_linear_model(model, rows):
    """E[x | y_o] = C + Σx_o (Σ_oo)⁻¹ (y_o - C_o), with Σx the covariance less the noise."""
    has_missing, noise = rows[1][:1], 0.3
    likely = likely_clusters(guess_costs(model, rows[0][:1]), 1)
    said = observations(model, has_missing, likely, noise)
    j, seen = int(likely.clusters[0, 0]), ~has_missing[0].isnan()
    excess = model.along[j] - model.noise[j]
    covariance = (model.components[j].mT * excess) @ model.components[j]
    covariance = covariance + model.noise[j] * torch.eye(6)
    clean = covariance - noise * torch.eye(6)
    gain = clean[:, seen] @ torch.linalg.inv(covariance[seen][:, seen])
    expected = model.centers[j] + gain @ (has_missing[0] - model.centers[j])[seen]
    torch.testing.assert_close(said.means[0, 0], expected)
    left = (clean - gain @ clean[seen]).diagonal()
    torch.testing.assert_close(said.variances[0, 0][~seen], left[~seen])
