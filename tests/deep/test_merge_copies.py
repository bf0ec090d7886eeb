"""Copies that learned on a fold each become one network, and nothing is lost by it."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from tensorae import TAE
from tensorae.data.rows import Rows
from tensorae.datasets import parallel_lines
from tensorae.deep import epoch, train
from tensorae.deep.assign import Assigner, Assignments, Copies, TrainingData
from tensorae.deep.epoch import Trainer
from tensorae.deep.finalize import merge_copies
from tensorae.deep.initial import aligned_to
from tensorae.deep.module import tensorize
from tensorae.deep.networks import built_in
from tensorae.deep.schedule import TrainingOptions

N, D, H, K = 60, 6, 2, 3


class _Normed(nn.Module):
    """Has running means, a count of batches and a flag."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(D, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, H))
        self.decoder = nn.Linear(H, D)
        self.register_buffer("flag", torch.tensor(True))

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


def trained(make, epochs, shared="none"):
    """Two copies after so many epochs, and what merges them."""
    torch.manual_seed(0)
    x, labels = torch.randn(N, D), torch.arange(N) % K
    options = TrainingOptions(
        factory=make, n_clusters=K, latent_dim=H, latent_penalty=0.1, rule=None, init="linear",
        n_init=None, max_epochs=4, batch_size=8, lr=1e-2, noise=0.0, validation_fraction=0.0,
        tol=0.0, patience=9,
    )  # fmt: skip
    data = TrainingData(Rows(x, chunk_rows=N), weights=torch.ones(N))
    generator = torch.Generator().manual_seed(0)
    copies = Copies.of(tensorize(make, K, input_shape=(D,), shared=shared), N, generator)
    trainer = Trainer(copies, data, options, 8, generator)
    now = Assignments(labels)
    for _ in range(epochs):
        trainer.run_epoch(Assigner(data, copies, options), now, options.lr)
    return copies, (Assigner(data, copies.first(), options), now, trainer)


def states_of(copies):
    return [copy.deepcopy(module.state_dict()) for module in copies.modules]


MAKES = {
    "mlp": built_in("mlp", (D,), H),
    "linear": built_in("linear", (D,), H),
    "normed": _Normed,
}
every_network = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


@every_network
def test_merging_identical_copies_changes_nothing(make):
    copies, others = trained(make, epochs=0)
    before = states_of(copies)[0]
    merge_copies(copies, *others)
    for name, value in copies.modules[0].state_dict().items():
        assert torch.equal(value, before[name]), name


@every_network
@pytest.mark.parametrize("epochs", [1, 30])
def test_no_cluster_is_worse_than_in_either_copy(make, epochs):
    copies, (assigner, now, trainer) = trained(make, epochs)

    def losses(module):
        x = assigner.data.rows.data
        with torch.no_grad():
            return torch.stack(
                [
                    module.eval().mean_objective(j, u, u, 0.1)
                    for j in range(K)
                    for u in [(x[now.labels == j] - module.centers[j]) / module.scale]
                ]
            )

    apart = [losses(module) for module in copies.modules]
    merge_copies(copies, assigner, now, trainer)
    assert bool((losses(copies.modules[0]) <= torch.minimum(*apart) * (1 + 1e-6)).all())


def test_both_copies_contribute():
    copies, others = trained(MAKES["mlp"], 1)
    before = states_of(copies)
    merge_copies(copies, *others)
    merged, means = copies.modules[0].state_dict(), 0
    for j in range(K):
        name = f"autoencoders.{j}.encoder_path"
        first, second = (state[name] for state in before)
        assert not torch.equal(first, second)
        means += torch.equal(merged[name], (first + second) / 2)
    assert means


def test_counts_and_flags_are_those_of_a_copy():
    copies, others = trained(_Normed, 2)
    before = states_of(copies)
    merge_copies(copies, *others)
    after = copies.modules[0].state_dict()
    whole = [name for name, value in after.items() if not value.is_floating_point()]
    assert any("num_batches_tracked" in name for name in whole)
    for name in whole:
        assert after[name].dtype == before[0][name].dtype
        assert any(torch.equal(after[name], state[name]) for state in before)


def test_a_copy_that_is_not_a_number_is_left_behind():
    copies, others = trained(MAKES["mlp"], 1)
    with torch.no_grad():
        copies.modules[0].autoencoders[1].encoder_path.fill_(torch.nan)
    wanted = copies.modules[1].autoencoders[1].encoder_path.clone()
    merge_copies(copies, *others)
    assert torch.equal(copies.modules[0].autoencoders[1].encoder_path, wanted)


def test_shared_layers_stay_shared_and_their_momentum_follows():
    copies, (assigner, now, trainer) = trained(MAKES["mlp"], 2, shared="layers")
    merge_copies(copies, assigner, now, trainer)
    one, other = copies.modules[0].autoencoders[:2]
    assert one.encoder[0].weight is other.encoder[0].weight
    known = [p for optimizer in trainer.optimizers for p in optimizer.state]
    assert any(p is one.encoder[0].weight for p in known)
    assert not any(p is q for p in known for q in copies.modules[1].parameters())


def test_momentum_is_interpolated():
    copies, (_, _, trainer) = trained(MAKES["mlp"], 1)
    one, other = (module.autoencoders[0].encoder_path for module in copies.modules)
    moments = {p: o.state[p]["exp_avg"].clone() for o in trainer.optimizers for p in o.state}
    trainer.merge_moments([one], [other], 0.5)
    found = next(o.state[one]["exp_avg"] for o in trainer.optimizers if one in o.state)
    assert torch.allclose(found, (moments[one] + moments[other]) / 2)


def test_aligned_directions_span_the_same_and_meet_the_first():
    first, own = (torch.linalg.qr(torch.randn(D, H, dtype=torch.float64)).Q.mT for _ in range(2))
    rotation = torch.linalg.qr(torch.randn(H, H, dtype=torch.float64)).Q
    aligned = aligned_to(first, own, signs_only=False)
    assert torch.allclose(aligned.mT @ aligned, own.mT @ own)
    assert torch.allclose(aligned_to(first, rotation @ first, signs_only=False), first)
    assert torch.allclose(aligned_to(first, -first, signs_only=True), first)


def test_the_close_of_a_fit_begins_no_worse_than_with_the_first_copy_alone(monkeypatch):
    X, _ = parallel_lines(random_state=0)
    options = {"max_epochs": 4, "random_state": 0}
    merged = TAE(2, 1, **options).fit(X)
    monkeypatch.setattr(train, "merge_copies", lambda *_: None)
    alone = TAE(2, 1, **options).fit(X)
    assert merged.history_["loss"][1] <= alone.history_["loss"][1] * 1.01


def test_the_first_steps_do_not_undo_the_start(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 100))
    X += 0.05 * rng.standard_normal(X.shape)

    def first_loss():
        return TAE(2, 3, max_epochs=2, random_state=0).fit(X).history_["loss"][0]

    gentle = first_loss()
    monkeypatch.setattr(epoch, "WARM_UP", 1)
    assert gentle < first_loss()
