"""Wide data: searched among leading directions, fitted in all features without d x d sums."""

from unittest.mock import patch

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE, load
from tensorae.core import selection, statistics
from tensorae.core.compress import RowSpace
from tensorae.core.mixture import Mixture
from tensorae.core.passes import ChunkedPass, MembersPass
from tensorae.core.statistics import MemberMoments
from tensorae.data import Batches
from tensorae.data.rows import Rows
from tensorae.persist.checkpoints import Checkpoint

N, D, K = 600, 160, 4


def planted(rng, n=N, d=D, k=K):
    """Gaussian clusters with two directions of their own."""
    y = rng.randint(k, size=n)
    axes = np.linalg.qr(rng.randn(k, d, 2))[0]
    codes = rng.randn(n, 2) * (5, 3)
    return rng.randn(k, d)[y] + np.einsum("nh,ndh->nd", codes, axes[y]) + rng.randn(n, d), y


@pytest.fixture
def wide(rng):
    return planted(rng)


@pytest.mark.parametrize("settings", [{}, {"latent_dim": 2, "latent_penalty": 0.1}])
def test_planted_clusters_are_found(wide, settings):
    X, y = wide
    model = LinearTAE(K, random_state=0, **settings).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1
    assert adjusted_rand_score(y, KMeans(K, n_init=10, random_state=0).fit_predict(X)) == 1
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.assignment_ == "lloyd"


def test_compressed_and_full_search_end_at_the_same_loss(rng, monkeypatch):
    X = planted(rng)[0] + rng.standard_t(4, size=(N, D))
    compressed = LinearTAE(K, 2, latent_penalty=0.1, random_state=0).fit(X)
    monkeypatch.setattr(selection, "compressed_width", lambda *_: 0)
    full = LinearTAE(K, 2, latent_penalty=0.1, random_state=0).fit(X)
    assert compressed.loss_ == pytest.approx(full.loss_, rel=1e-3)
    assert compressed.loss_ == pytest.approx(compressed.loss_path_[-1], rel=1e-4)
    assert (np.diff(compressed.loss_path_) <= 1e-9 * compressed.loss_).all()


def test_a_fit_needs_no_d_x_d_sums(rng, monkeypatch, tmp_path):
    """Nor do prediction, de-noising and a model file."""
    X, y = planted(rng, n=400, d=400, k=3)
    monkeypatch.setattr(statistics, "LARGEST_SUMS", 2_000_000)
    monkeypatch.setattr("tensorae.linear_tae.KEPT_NUMBERS", 1000)
    model = LinearTAE(3, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1
    noisy = X + 0.5 * rng.randn(*X.shape)
    clean = model.denoise(noisy, noise=0.5, fitted_on="clean")
    assert ((clean - X) ** 2).mean() < ((noisy - X) ** 2).mean()
    model.save(tmp_path / "m.tae")
    np.testing.assert_array_equal(load(tmp_path / "m.tae").predict(X), model.labels_)


def test_weights_equal_repeated_rows_and_order_does_not_matter(wide, rng):
    X, _ = wide
    twice = rng.rand(N) < 0.5
    repeated = LinearTAE(K, random_state=0).fit(np.concatenate([X, X[twice]]))
    weighted = LinearTAE(K, random_state=0).fit(X, sample_weight=1.0 + twice)
    np.testing.assert_array_equal(repeated.labels_[:N], weighted.labels_)
    np.testing.assert_allclose(repeated.loss_, weighted.loss_, rtol=1e-6)
    order = rng.permutation(N)
    shuffled = LinearTAE(K, random_state=0).fit(X[order])
    straight = LinearTAE(K, random_state=0).fit(X)
    np.testing.assert_array_equal(shuffled.labels_, straight.labels_[order])


def test_streams_single_precision_rotation_and_shift_change_nothing(wide, rng):
    X, y = wide
    turned = X @ np.linalg.qr(rng.randn(D, D))[0] + 3
    for other in (X.astype(np.float32), turned, Batches([X[:250], X[250:]])):
        labels = LinearTAE(K, random_state=0).fit(other).labels_
        assert adjusted_rand_score(y, labels) == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_members_tell_what_d_x_d_sums_tell(rng, weighted):
    x = torch.as_tensor(rng.randn(60, 20) * np.linspace(0.2, 2, 20))
    labels = torch.as_tensor(rng.randint(3, size=60), dtype=torch.int32)
    weights = torch.as_tensor(rng.uniform(0.5, 2, 60)) if weighted else None
    rows = Rows(x, weights)
    sums, members = ChunkedPass(rows).moments(labels[None], 3), MemberMoments(rows, labels, 3)
    basis = torch.as_tensor(rng.randn(1, 3, 20, 2))
    one = torch.linalg.qr(basis[0, 0])[0]
    scatters = sums.scatters()
    torch.testing.assert_close(members.counts, sums.counts)
    torch.testing.assert_close(members.centers(), sums.centers())
    torch.testing.assert_close(members.traces(), sums.traces())
    torch.testing.assert_close(members.scatters(), scatters)
    torch.testing.assert_close(members.scatter_times(basis), sums.scatter_times(basis))
    torch.testing.assert_close(members.pooled(), sums.pooled())
    torch.testing.assert_close(members.scatters_inside(one), sums.scatters_inside(one))
    found, variances = members.leading(4)
    torch.testing.assert_close(variances, torch.linalg.eigvalsh(scatters)[..., -4:].flip(-1))
    torch.testing.assert_close((found @ scatters * found).sum(-1), variances)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(members.reordered(order).centers(), sums.reordered(order).centers())


def test_fewer_members_than_components_leave_directions_of_zero(rng):
    x = torch.as_tensor(rng.randn(5, 20))
    moments = MemberMoments(Rows(x), torch.tensor([0, 0, 0, 0, 1], dtype=torch.int32), 2)
    components, variances = moments.leading(4)
    assert (variances[0, 1] == 0).all()
    assert (components[0, 1] == 0).all()
    assert (variances[0, 0, :3] > 0).all()


def test_a_pass_by_members_is_a_pass(rng):
    x = torch.as_tensor(rng.randn(80, 30))
    rows = Rows(x).in_chunks(16)
    centers = torch.as_tensor(rng.randn(1, 4, 30))
    axes = torch.linalg.qr(torch.as_tensor(rng.randn(1, 4, 30, 2)))[0].mT
    model = Mixture.tied_of(centers, axes, torch.full((1,), 0.2, dtype=torch.float64))
    found = []
    for kind in (ChunkedPass, MembersPass):
        labels = torch.zeros(1, 80, dtype=torch.int32)
        data_pass = kind(rows)
        found.append(data_pass.hard_pass(model, labels, data_pass.moments(labels, 4)))
    sums, members = found
    assert torch.equal(sums.members, members.members)
    assert torch.equal(sums.moved, members.moved)
    torch.testing.assert_close(members.moments.traces(), sums.moments.traces())


def test_leading_directions_are_principal_components(rng):
    x = torch.as_tensor(rng.randn(300, 40) * np.linspace(3, 0.1, 40))
    rows = Rows(x).centered()
    axes = RowSpace.leading(rows, 5).axes
    centered = x - x.mean(0)
    exact = torch.linalg.svd(centered, full_matrices=False)[2][:5]
    torch.testing.assert_close((axes @ exact.mT).abs().diagonal(), torch.ones(5).double())


def test_irrelevant_directions_do_not_decide_the_penalty(wide):
    """λ is estimated among leading directions, whatever the number of features is."""
    X, _ = wide
    padded = np.concatenate([X, 1e-3 * np.random.RandomState(1).randn(N, 400)], axis=1)
    plain, wider = (LinearTAE(K, random_state=0).fit(data) for data in (X, padded))
    assert wider.latent_penalty_ == pytest.approx(plain.latent_penalty_, rel=0.05)


# Products with a basis instead of d x d sums ------------------------------------------------------

KINDS = [
    {"spread": "own"},
    {"spread": "own", "assignment": "lloyd"},
    {"spread": "shared", "assignment": "em"},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", ["array", "single", "weights", "batches"])
def test_products_with_a_basis_end_where_d_x_d_sums_do(rng, monkeypatch, kind, data):
    X, y = planted(rng)
    model = LinearTAE(K, 2, init=np.stack([X[y == j].mean(0) for j in range(K)]), **kind)
    weights = rng.randint(1, 4, size=N) if data == "weights" else None
    given = {"single": X.astype(np.float32), "batches": Batches(X, batch_rows=90)}.get(data, X)
    ours = clone(model).fit(given, sample_weight=weights)
    monkeypatch.setattr("tensorae.core.passes.COMPRESSED_FROM", 1 << 30)
    full = clone(model).fit(given, sample_weight=weights)
    np.testing.assert_array_equal(ours.labels_, full.labels_)
    assert ours.objective_path_[-1] == pytest.approx(full.objective_path_[-1], rel=2e-6)
    np.testing.assert_allclose(ours.noise_variance_, full.noise_variance_, rtol=1e-3)
    if data == "array":
        assert (np.diff(ours.objective_path_) <= 1e-9 * abs(ours.objective_path_[-1])).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_with_a_basis_ends_the_same_where_no_d_x_d_sums_are_kept(rng, monkeypatch, kind):
    X, _ = planted(rng)
    model = LinearTAE(K, 2, random_state=0, n_init=1, **kind)  # clusters are numbered at the end
    kept = clone(model).fit(X)
    for module in ("linear_tae", "core.search"):
        monkeypatch.setattr(f"tensorae.{module}.KEPT_NUMBERS", 0)
    ours = clone(model).fit(X)
    np.testing.assert_array_equal(ours.labels_, kept.labels_)
    assert ours.loss_ == pytest.approx(kept.loss_, rel=1e-6)
    noisy = X[:50] + rng.randn(50, D)
    expected = kept.denoise(noisy, noise=1)
    np.testing.assert_allclose(ours.denoise(noisy, noise=1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_with_a_basis_goes_on_from_its_checkpoint(rng, tmp_path):
    X, y = planted(rng)
    start, file = X[[np.flatnonzero(y == j)[0] for j in range(K)]], tmp_path / "run.ckpt"
    model = LinearTAE(K, 2, init=start, spread="own", tol=0, max_iter=8)
    whole = clone(model).fit(X)

    class KilledError(Exception):
        pass

    write, done = Checkpoint.__call__, []

    def killed(self, state):
        write(self, state)
        done.append(1)
        if len(done) == 4:
            raise KilledError

    with patch.object(Checkpoint, "__call__", killed), pytest.raises(KilledError):
        clone(model).fit(X, checkpoint=file, checkpoint_every=0)
    again = clone(model).fit(X, checkpoint=file)
    np.testing.assert_array_equal(again.objective_path_, whole.objective_path_)


def test_the_last_search_keeps_clusters_that_cut_few_neighbours_apart():
    """By the loss alone, one component each, tumours would be divided by their size instead."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    model = LinearTAE("auto", random_state=0).fit(StandardScaler().fit_transform(X))
    assert adjusted_rand_score(y, model.labels_) > 0.6
