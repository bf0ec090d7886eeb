"""The same loop over rows that are read pass by pass: no row is missed, no cluster stays empty."""

import copy

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from torch import nn

from tensorae import TAE, Batches, tensorize
from tensorae.data.processes import Processes
from tensorae.data.streamed import StreamedRows
from tensorae.deep import train
from tensorae.deep.assign import Copies, TrainingData
from tensorae.deep.epoch import buffers
from tensorae.deep.schedule import Schedule
from tensorae.deep.train import TrainingLoop, fit_loop
from tensorae.deep_tae import deep_options

PLACES = np.array([[0.0, 0, 0, 0], [12, 0, 0, 0], [0, 12, 0, 0], [0, 0, 12, 12]])
SHORT = {"max_epochs": 4, "random_state": 0}


@pytest.fixture(scope="module")
def blobs():
    """Four long clusters that nobody can confuse: 1,200 samples of four features."""
    rng = np.random.RandomState(0)
    y = np.arange(1200) % 4
    X = (PLACES[y] + rng.randn(1200, 4) * [1, 0.5, 2, 0.3]).astype(np.float32)
    X.setflags(write=False)
    return X, y


@pytest.fixture
def small_sample(monkeypatch):
    """Let fits of few rows be streamed: a sample of 300 trains the networks first."""
    monkeypatch.setattr(train, "SAMPLE_ROWS", 300)


def streamed(X, batch_rows=130):
    return StreamedRows(Batches(X, batch_rows=batch_rows), Processes(), torch.device("cpu"))


def streamed_loop(X, centers, **parameters):
    """A loop over streamed rows whose networks begin at given centres."""
    rows = streamed(X)
    k, d = centers.shape
    parameters = TAE(k, 2, **parameters).get_params(deep=False)
    options = deep_options(parameters, rows, (d,))
    module = tensorize(options.factory, k, input_shape=(d,))
    module.set_centers(torch.as_tensor(centers))
    schedule = Schedule.of_stream(max_epochs=options.max_epochs, batch_size=None)
    generator = torch.Generator().manual_seed(0)
    return TrainingLoop(Copies((module,)), TrainingData(rows), options, schedule, generator)


@pytest.mark.parametrize("batch_rows", [7, 60, 250, 2000])
@pytest.mark.parametrize("size", [1, 100, 999, 5000])
def test_buffers_are_full_and_hold_every_row_once(blobs, batch_rows, size):
    X, _ = blobs
    found = list(buffers(streamed(X[:1000], batch_rows), size))
    assert len(found) == -(-1000 // size)
    assert all(len(x) == size for _, x in found[:-1])
    np.testing.assert_array_equal(torch.cat([x for _, x in found]), X[:1000])
    assert [place.start for place, _ in found] == list(range(0, 1000, size))


class Recorded(nn.Module):
    """A small autoencoder that keeps what it is trained on."""

    seen = []  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

    def encode(self, x):
        if self.training:
            Recorded.seen.append(x.detach().clone())
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


@pytest.mark.usefixtures("small_sample")
def test_every_row_is_trained_on_once_in_each_pass(blobs):
    X, _ = blobs
    seen = []

    def after(epoch):
        seen.append(torch.cat(Recorded.seen))
        Recorded.seen.clear()

    model = TAE(1, 2, architecture=Recorded, callbacks=after, **SHORT)
    model.fit(Batches(X, batch_rows=130))
    scale, center = model.module_.scale, model.module_.centers[0]
    for u in seen[1:]:  # the first has the sample before it
        rows = (u * scale + center).numpy()
        np.testing.assert_allclose(np.sort(rows, 0), np.sort(X, 0), atol=1e-3)


@pytest.mark.parametrize("empty", [[2], [1, 3]])
def test_a_cluster_without_members_is_revived(blobs, empty):
    X, y = blobs
    centers = PLACES.copy()
    centers[empty] = 1e4
    loop = streamed_loop(X, centers, **SHORT)
    state = loop.init(None)
    assert state.assignments.revivals == len(empty)
    assert torch.bincount(state.assignments.labels, minlength=4).min() > 0
    for j in empty:  # it begins by the network of the cluster that it came from
        weights = loop.copies.modules[0].autoencoders[j].state_dict()
        others = [net for i, net in enumerate(loop.copies.modules[0].autoencoders) if i != j]
        assert any(
            all(torch.equal(weights[name], value) for name, value in net.state_dict().items())
            for net in others
        )
    state = fit_loop(loop, state)
    labels = state.assignments.labels
    assert torch.bincount(labels, minlength=4).min() > 0
    assert all(torch.isfinite(v).all() for v in loop.copies.modules[0].state_dict().values())
    means = np.stack([X[labels == j].mean(0) for j in range(4)])
    np.testing.assert_allclose(loop.copies.modules[0].centers, means, atol=1e-3)
    if len(empty) == 1:
        assert adjusted_rand_score(y, labels) > 0.7


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("penalty", [0.1, "auto"])
def test_a_stream_reaches_the_loss_of_the_same_rows_in_memory(rng, penalty):
    centers, axes = 1.5 * rng.randn(4, 6), rng.randn(4, 2, 6)
    y = np.sort(rng.randint(4, size=1500))
    along = np.einsum("nh,nhd->nd", rng.randn(1500, 2), axes[y])
    X = centers[y] + along + 0.3 * rng.randn(1500, 6)
    in_memory = TAE(4, 2, latent_penalty=penalty, random_state=0).fit(X)
    model = TAE(4, 2, latent_penalty=penalty, **SHORT).fit(Batches(X, batch_rows=130))
    assert model.loss_ < 1.03 * in_memory.loss_
    assert model.latent_penalty_ == pytest.approx(in_memory.latent_penalty_, rel=0.1)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.history_["phase"] == ["learn"] * 2 + ["close"] * 2
    assert model.n_iter_ == model.best_epoch_ == 4


@pytest.mark.usefixtures("small_sample")
def test_a_streamed_model_takes_noise_out(blobs, rng):
    X, _ = blobs
    noisy = X + 0.5 * rng.randn(*X.shape).astype(np.float32)
    model = TAE(4, 1, noise=0.5, **SHORT).fit(Batches(X, batch_rows=130))
    done = ((model.denoise(noisy) - X) ** 2).mean()
    assert done < 0.9 * ((noisy - X) ** 2).mean()


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("last", [1, 3])
def test_an_interrupt_keeps_the_model_of_the_last_whole_pass(blobs, last):
    X, y = blobs
    kept = []

    def interrupt(epoch):
        kept.append(copy.deepcopy(epoch.module))
        if epoch.epoch == last:
            raise KeyboardInterrupt

    model = TAE(4, 2, callbacks=interrupt, **SHORT)
    with pytest.warns(ConvergenceWarning, match=f"interrupted in epoch {last + 1}"):
        model.fit(Batches(X, batch_rows=130))
    assert model.n_iter_ == model.best_epoch_ == last
    assert adjusted_rand_score(y, model.labels_) == 1

    def summary(networks):
        return sorted(sum(float(p.detach().sum()) for p in n.parameters()) for n in networks)

    wanted = summary(kept[-1].autoencoders)
    np.testing.assert_allclose(summary(model.module_.autoencoders), wanted, rtol=1e-6)
