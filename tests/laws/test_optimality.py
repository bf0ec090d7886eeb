"""A fit ends where the theorem says: means, top eigenvectors, 0/1 assignments, nothing better."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from tensorae import LinearTAE
from tensorae.core import search

law = settings(max_examples=10, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
ASSIGNMENTS = ["lloyd", "projected", "constrained", "em"]
every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS)


def costs_by_hand(X, model):
    """Return the bracket of Eq. 3 (n, k): squared error plus λ times the squared code."""
    columns = []
    for center, components in zip(model.cluster_centers_, model.components_, strict=True):
        codes = (X - center) @ components.T
        errors = (X - center - codes @ components) ** 2
        columns.append(errors.sum(1) + model.latent_penalty_ * (codes**2).sum(1))
    return np.stack(columns, axis=1)


# The fixed point --------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained"])
@law
@given(seed=seeds, n=st.integers(20, 80), d=st.integers(1, 6), k=st.integers(1, 4), data=st.data())
def test_parameters_are_means_and_top_eigenvectors_of_their_clusters(
    grouped, assignment, seed, n, d, k, data
):
    h = data.draw(st.integers(1, d), label="h")
    sample = grouped(seed, n, d, k)
    model = LinearTAE(
        k, h, assignment=assignment, init=sample.start, tol=0, latent_penalty=0.1
    ).fit(sample.X)
    for j in range(k):
        members = sample.X[model.labels_ == j]
        np.testing.assert_allclose(model.cluster_centers_[j], members.mean(axis=0), atol=1e-9)
        assert model.weights_[j] == pytest.approx(len(members) / n)
        centered = members - members.mean(axis=0)
        values = np.linalg.eigvalsh(centered.T @ centered / len(members))[::-1]
        np.testing.assert_allclose(model.explained_variance_[j], values[:h], atol=1e-9)
        along = np.var(centered @ model.components_[j].T, axis=0)
        np.testing.assert_allclose(along, values[:h], atol=1e-9)
        rest = values[h:].mean() if h < d else 0
        assert model.noise_variance_[j] == pytest.approx(rest, abs=1e-9)
        whole = max(values.sum(), 1e-300)
        ratios = model.explained_variance_ratio_[j]
        np.testing.assert_allclose(ratios, model.explained_variance_[j] / whole, atol=1e-9)


# Soft clusters that lie on top of each other may leave one without rows of its own.
@pytest.mark.filterwarnings("ignore:only .* clusters have members")
@every_assignment
@law
@given(seed=seeds, d=st.integers(1, 6), k=st.integers(1, 4), penalty=st.floats(0.001, 1))
def test_costs_follow_equation_3_and_the_rest_follows_from_the_costs(
    grouped, assignment, seed, d, k, penalty
):
    sample = grouped(seed, 60, d, k)
    model = LinearTAE(
        k,
        1,
        latent_penalty=penalty,
        spread="shared",
        assignment=assignment,
        init=sample.start,
        max_iter=2000,
    )
    labels = model.fit_predict(sample.X)
    unseen = sample.X + sample.rng.randn(60, d)
    for X in (sample.X, unseen):
        costs = model.costs(X)
        np.testing.assert_allclose(costs, costs_by_hand(X, model), rtol=1e-9, atol=1e-9)
        best = costs if assignment != "em" else -model.predict_proba(X)
        np.testing.assert_array_equal(model.predict(X), best.argmin(1))
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(model.predict(sample.X), model.labels_)
    assert model.loss_ == pytest.approx(model.costs(sample.X)[np.arange(60), labels].sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_assignment
@pytest.mark.parametrize("init", ["k-means++", "k-means", "random"])
@settings(law, max_examples=4)
@given(seed=seeds, k=st.integers(1, 6))
def test_fit_then_predict_agrees(grouped, dtype, assignment, init, seed, k):
    # Coarse values make ties and duplicates.
    X = np.round(grouped(seed, 40, 2, k).X).astype(dtype)
    assume(len(np.unique(X, axis=0)) > 2 * k)
    model = LinearTAE(
        k, 1, assignment=assignment, init=init, n_init=2, random_state=seed, latent_penalty=0.1
    )
    model.set_params(max_iter=3000)
    labels = model.fit_predict(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_array_equal(labels, model.fit(X).predict(X))


def test_loss_of_weighted_rows_is_the_weighted_sum_of_costs(grouped):
    sample = grouped(0)
    weights = sample.rng.uniform(0, 3, size=80)
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(sample.X, sample_weight=weights)
    assert model.loss_ == pytest.approx(weights @ model.costs(sample.X).min(1))
    shares = [weights[model.labels_ == j].sum() / weights.sum() for j in range(3)]
    np.testing.assert_allclose(model.weights_, shares, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "h"), [(1, 1), (2, 1), (5, 3), (5, 5), (40, 4), (300, 3)])
def test_components_are_orthonormal_ordered_by_variance_and_of_a_fixed_sign(grouped, dtype, d, h):
    X = grouped(1, n=120, d=d, k=3).X.astype(dtype)
    model = LinearTAE(3, h, random_state=0, n_init=1, latent_penalty=0.1).fit(X)
    tolerance = 1e-6 if dtype == np.float32 else 1e-10
    for components in model.components_:
        np.testing.assert_allclose(components @ components.T, np.eye(h), atol=tolerance)
        largest = np.abs(components).argmax(axis=1)
        assert (components[np.arange(h), largest] > 0).all()
    assert (np.diff(model.explained_variance_, axis=1) <= 0).all()
    assert (model.explained_variance_ >= 0).all()
    assert (model.noise_variance_ >= 0).all()
    assert (model.explained_variance_ratio_.sum(axis=1) <= 1 + 1e-6).all()


def test_flipping_the_sign_of_the_data_keeps_the_sign_of_the_components(grouped):
    sample = grouped(2)
    model = LinearTAE(3, 2, init=sample.start, latent_penalty=0.1).fit(sample.X)
    mirrored = LinearTAE(3, 2, init=-sample.start, latent_penalty=0.1).fit(-sample.X)
    np.testing.assert_allclose(mirrored.components_, model.components_, atol=1e-9)


def test_clusters_are_numbered_from_the_largest(grouped):
    sample = grouped(3, n=90)
    X = np.vstack([sample.X, sample.X[sample.labels == 2] + 0.01])
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(X)
    assert (np.diff(model.weights_) <= 0).all()
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()


def test_codes_and_reconstructions_come_from_the_autoencoder_of_the_cluster(grouped):
    sample = grouped(4)
    model = LinearTAE(3, 2, random_state=0, latent_penalty=0.1).fit(sample.X)
    labels = model.predict(sample.X)
    codes = model.transform(sample.X)
    for i, j in enumerate(labels):
        expected = model.components_[j] @ (sample.X[i] - model.cluster_centers_[j])
        np.testing.assert_allclose(codes[i], expected, atol=1e-9)
        point = model.cluster_centers_[j] + model.components_[j].T @ expected
        np.testing.assert_allclose(model.reconstruct(sample.X)[i], point, atol=1e-9)
    np.testing.assert_allclose(
        model.inverse_transform(codes, labels), model.reconstruct(sample.X), atol=1e-9
    )
    # A reconstruction lies on its cluster's plane: encoded by that cluster it gives the same code.
    other = (labels + 1) % 3
    decoded = model.inverse_transform(codes, other)
    for i, j in enumerate(other):
        again = model.components_[j] @ (decoded[i] - model.cluster_centers_[j])
        np.testing.assert_allclose(again, codes[i], atol=1e-9)


# Theorem 2.2 --------------------------------------------------------------------------------------


def relaxed_loss(X, shares, centers, frames):
    """Return L_λ at λ = .1 for free parameters: S from squares, U from a QR decomposition."""
    assignments = shares.square() / shares.square().sum(1, keepdim=True)
    components = torch.linalg.qr(frames).Q.mT
    centered = X[:, None] - centers
    codes = torch.einsum("nkd,khd->nkh", centered, components)
    decoded = torch.einsum("nkh,khd->nkd", codes, components)
    costs = (centered - decoded).square().sum(-1) + 0.1 * codes.square().sum(-1)
    return (assignments * costs).sum(), assignments, components


@pytest.mark.parametrize("seed", range(4))
def test_gradient_descent_on_the_relaxed_loss_ends_at_the_solution(grouped, seed):
    """Theorem 2.2, with the decoder tied: started near it, descent comes back to the fit."""
    sample = grouped(seed, n=40, d=4, k=3)
    model = LinearTAE(3, 2, latent_penalty=0.1, random_state=0, tol=0).fit(sample.X)
    X = torch.as_tensor(sample.X)

    def near(values, size):
        values = np.asarray(values) + size * sample.rng.randn(*np.shape(values))
        return torch.tensor(values, requires_grad=True)

    free = [
        near(np.eye(3)[model.labels_], 0.05),
        near(model.cluster_centers_, 0.05),
        near(np.swapaxes(model.components_, 1, 2), 0.05),
    ]
    optimizer = torch.optim.LBFGS(
        free, max_iter=3000, tolerance_grad=1e-10, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        loss = relaxed_loss(X, *free)[0]
        loss.backward()
        return loss

    assert closure().item() > model.loss_ * 1.001
    optimizer.step(closure)
    loss, assignments, components = relaxed_loss(X, *free)
    assert loss.item() >= model.loss_ * (1 - 1e-9)
    assert loss.item() == pytest.approx(model.loss_, rel=1e-6)
    np.testing.assert_allclose(assignments.detach(), np.eye(3)[model.labels_], atol=1e-4)
    np.testing.assert_allclose(free[1].detach(), model.cluster_centers_, atol=1e-3)
    found = (components.mT @ components).detach()
    expected = np.swapaxes(model.components_, 1, 2) @ model.components_
    np.testing.assert_allclose(found, expected, atol=1e-3)


@law
@given(seed=seeds)
def test_no_small_change_of_the_parameters_lowers_the_loss(grouped, seed):
    sample = grouped(seed, n=60, d=4, k=3)
    model = LinearTAE(3, 2, init=sample.start, tol=0, latent_penalty=0.1).fit(sample.X)
    best = model.loss_
    centers, components = model.cluster_centers_, model.components_
    for size in (1e-1, 1e-2, 1e-3):
        model.cluster_centers_ = centers + size * sample.rng.randn(*centers.shape)
        turned = np.swapaxes(components + size * sample.rng.randn(*components.shape), 1, 2)
        model.components_ = np.swapaxes(np.linalg.qr(turned)[0], 1, 2)
        members = costs_by_hand(sample.X, model)[np.arange(60), model.labels_]
        assert members.sum() >= best * (1 - 1e-12)


# λ from the data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained"])
@law
@given(seed=seeds, d=st.integers(2, 6), k=st.integers(1, 4), data=st.data())
def test_estimated_penalty_is_a_fixed_point_of_its_formula(grouped, assignment, seed, d, k, data):
    h = data.draw(st.integers(1, d - 1), label="h")
    sample = grouped(seed, 80, d, k)
    model = LinearTAE(
        k,
        h,
        latent_penalty="auto",
        spread="shared",
        assignment=assignment,
        init=sample.start,
        tol=0,
    ).fit(sample.X)
    codes = model.transform(sample.X)
    residual = ((sample.X - model.reconstruct(sample.X)) ** 2).sum()
    ratio = (residual / (d - h)) / ((codes**2).sum() / h)
    assert model.latent_penalty_ == pytest.approx(min(ratio, 1), rel=1e-6)


def test_estimated_penalty_under_em_is_a_fixed_point_of_its_formula(grouped):
    sample = grouped(5, n=80, d=4, k=3)
    model = LinearTAE(
        3,
        1,
        latent_penalty="auto",
        spread="shared",
        assignment="em",
        init=sample.start,
        tol=1e-12,
        max_iter=5000,
    ).fit(sample.X)
    posterior = model.predict_proba(sample.X)
    residual = latent = 0.0
    for j in range(3):
        centered = sample.X - model.cluster_centers_[j]
        codes = centered @ model.components_[j].T
        latent += posterior[:, j] @ (codes**2).sum(1)
        residual += posterior[:, j] @ ((centered**2).sum(1) - (codes**2).sum(1))
    assert model.latent_penalty_ == pytest.approx((residual / 3) / latent, rel=1e-4)


def test_estimated_penalty_is_the_planted_one():
    rng = np.random.RandomState(0)
    X = rng.randn(20_000, 6) * [10, 10, 2, 2, 2, 2]
    model = LinearTAE(1, 2, latent_penalty="auto", spread="shared").fit(X)
    assert model.latent_penalty_ == pytest.approx(0.04, rel=0.05)
    assert LinearTAE(1, 6, latent_penalty="auto", spread="shared").fit(X[:50]).latent_penalty_ == 1


# Posterior ----------------------------------------------------------------------------------------


# Soft clusters that lie on top of each other may leave one without rows of its own.
@pytest.mark.filterwarnings("ignore:only .* clusters have members")
def test_posterior_under_em_is_the_last_assignment(grouped):
    sample = grouped(6, n=80, d=4, k=3)
    model = LinearTAE(
        3, 1, assignment="em", init=sample.start, tol=1e-12, max_iter=5000, latent_penalty=0.1
    )
    posterior = model.fit(sample.X).predict_proba(sample.X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    np.testing.assert_allclose(posterior.mean(axis=0), model.weights_, atol=1e-5)
    means = (posterior.T @ sample.X) / posterior.sum(axis=0)[:, None]
    np.testing.assert_allclose(means, model.cluster_centers_, atol=1e-3)


def test_posterior_is_one_half_between_equal_clusters():
    X = np.array([[-1.0, 0], [-3, 0], [-2, 0.5], [-2, -0.5], [1, 0], [3, 0], [2, 0.5], [2, -0.5]])
    model = LinearTAE(2, 1, init=[[-2.0, 0], [2, 0]], latent_penalty=0.1).fit(X)
    np.testing.assert_allclose(model.predict_proba([[0.0, 0.0], [0, 9]]), 0.5, atol=1e-9)
    far = model.predict_proba([[-2.0, 0.0], [2, 0]])
    assert far[0, 0] > 0.9
    assert far[1, 1] > 0.9


# Restarts and iterations --------------------------------------------------------------------------


@law
@given(seed=seeds, k=st.integers(2, 5), init=st.sampled_from(["k-means++", "k-means", "random"]))
def test_best_of_many_starts_is_the_best_of_its_starts(grouped, seed, k, init):
    X = grouped(seed, 60, 3, k).X
    drawn = []
    with pytest.MonkeyPatch.context() as patch:
        draw = search.Search._seeds

        def draw_and_remember(problem, *arguments, **options):
            centers = draw(problem, *arguments, **options)
            drawn.append(centers + problem.rows.shift)
            return centers

        patch.setattr(search.Search, "_seeds", draw_and_remember)
        best = LinearTAE(k, 1, init=init, n_init=10, random_state=seed, latent_penalty=0.1).fit(X)
    starts = drawn[0].numpy()
    assert starts.shape == (10, k, 3)
    losses = [LinearTAE(k, 1, init=start, latent_penalty=0.1).fit(X).loss_ for start in starts]
    assert best.loss_ <= min(losses) * (1 + 1e-9)
    assert best.loss_ == pytest.approx(min(losses), rel=1e-6)


def test_more_restarts_find_what_one_start_misses(grouped):
    """Over many seeds the best of ten is never worse than one start on average, often better."""
    X = grouped(7, n=120, d=3, k=6).X
    one = [
        LinearTAE(6, 1, n_init=1, random_state=s, latent_penalty=0.1).fit(X).loss_
        for s in range(10)
    ]
    ten = [
        LinearTAE(6, 1, n_init=10, random_state=s, latent_penalty=0.1).fit(X).loss_
        for s in range(10)
    ]
    assert max(ten) <= np.median(one)
    # The default begins with the same ten starts and may only go on from the best of them.
    assert LinearTAE(6, 1, random_state=0, latent_penalty=0.1).fit(X).loss_ <= ten[0] * (1 + 1e-12)


@every_assignment
def test_too_few_iterations_warn_and_the_result_is_still_consistent(grouped, assignment):
    X = grouped(8, n=150, d=3, k=5).X
    model = LinearTAE(
        5, 1, assignment=assignment, init="random", random_state=0, max_iter=1, latent_penalty=0.1
    )
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 iterations; raise max_iter"):
        model.fit(X)
    assert not model.converged_
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.loss_ == pytest.approx(model.costs(X).min(1).sum())


def test_more_iterations_never_end_higher(grouped):
    sample = grouped(9, n=200, d=3, k=6)
    losses = []
    for max_iter in (1, 2, 4, 100):
        model = LinearTAE(6, 1, init=sample.start, max_iter=max_iter, latent_penalty=0.1)
        with pytest.warns(ConvergenceWarning) if max_iter < 100 else nullcontext():
            losses.append(model.fit(sample.X).loss_)
        assert model.n_iter_ <= max_iter
    assert (np.diff(losses) <= 1e-9).all()
