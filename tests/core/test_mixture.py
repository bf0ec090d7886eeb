"""Centres and components -> costs, codes and points, against Eq. 3 written out."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae.core.mixture import Mixture

law = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def random_model(rng, r, k, h, d):
    frames = np.linalg.qr(rng.randn(r, k, d, max(h, 1)))[0][..., :h]
    return Mixture.tied_of(
        torch.tensor(3 * rng.randn(r, k, d)),
        torch.tensor(frames).mT.contiguous(),
        torch.tensor(rng.uniform(size=r)),
    )


def costs_by_hand(model, x):
    """Return |x - C - UᵀU(x - C)|² + λ |U(x - C)|², shape (r, n, k), sample by sample."""
    r, k, _ = model.centers.shape
    costs = torch.empty(r, len(x), k, dtype=x.dtype)
    for start in range(r):
        for j in range(k):
            centered = x - model.centers[start, j]
            codes = centered @ model.components[start, j].mT
            errors = centered - codes @ model.components[start, j]
            penalties = model.latent_penalty[start] * codes.square().sum(1)
            costs[start, :, j] = errors.square().sum(1) + penalties
    return costs


@law
@given(
    seed=st.integers(0, 2**31 - 1),
    r=st.integers(1, 3),
    k=st.integers(1, 4),
    d=st.integers(1, 6),
    data=st.data(),
)
def test_costs_equal_error_plus_penalty(seed, r, k, d, data):
    h = data.draw(st.integers(0, d), label="h")
    rng = np.random.RandomState(seed)
    model, x = random_model(rng, r, k, h, d), torch.tensor(3 * rng.randn(15, d))
    expected = costs_by_hand(model, x)
    torch.testing.assert_close(model.costs(x), expected, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(model[0].costs(x), expected[0], atol=1e-10, rtol=1e-10)
    scores = x.square().sum(1) - expected.mT
    torch.testing.assert_close(model.fold().scores(x), scores, atol=1e-9, rtol=1e-9)


def test_costs_are_never_negative():
    rng = np.random.RandomState(0)
    model = random_model(rng, 1, 3, 2, 4)
    model = Mixture.tied_of(model.centers + 1e3, model.components, model.latent_penalty * 0)
    points = model[0].decode(torch.tensor(rng.randn(30, 2)), torch.arange(30) % 3)
    costs = model[0].costs(points)
    assert (costs >= 0).all()
    own = costs[torch.arange(30), torch.arange(30) % 3]
    torch.testing.assert_close(own, torch.zeros_like(own), atol=1e-6, rtol=0)


def test_codes_and_points_are_those_of_the_named_autoencoder():
    rng = np.random.RandomState(1)
    model, x = random_model(rng, 1, 3, 2, 5)[0], torch.tensor(rng.randn(12, 5))
    labels = torch.arange(12) % 3
    codes = model.encode(x, labels)
    points = model.decode(codes, labels)
    for i, j in enumerate(labels.tolist()):
        code = model.components[j] @ (x[i] - model.centers[j])
        torch.testing.assert_close(codes[i], code)
        torch.testing.assert_close(points[i], model.components[j].mT @ code + model.centers[j])
    # Reconstructing twice changes nothing: VU is a projection.
    torch.testing.assert_close(model.decode(model.encode(points, labels), labels), points)


def test_shifted_is_the_model_of_shifted_data():
    rng = np.random.RandomState(3)
    model, x = random_model(rng, 2, 3, 2, 4), torch.tensor(rng.randn(10, 4))
    offset = torch.tensor(rng.randn(4))
    torch.testing.assert_close(model.shifted(offset).costs(x + offset), model.costs(x))
