"""Copies that learned on a fold each become one network, and nothing is lost by it."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from tensorae import TAE
from tensorae.datasets import parallel_lines
from tensorae.deep import epoch as deep_epoch
from tensorae.deep import loop as deep_loop
from tensorae.deep import twins
from tensorae.deep.assign import Assigner, Assignments, TrainingData
from tensorae.deep.cross_fit import Copies
from tensorae.deep.epoch import Steps
from tensorae.deep.module import tensorize
from tensorae.deep.networks import built_in
from tensorae.deep.schedule import TrainingOptions
from tensorae.rows import Rows

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


def training(make, shared="none"):
    """Two copies, an assigner of the first alone, labels and steps."""
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
    steps = Steps(copies, data, options, 8, generator)
    return copies, Assigner(data, copies.first(), options), Assignments(labels), steps, options


def trained(make, epochs, shared="none"):
    copies, assigner, now, steps, options = training(make, shared)
    for _ in range(epochs):
        steps.epoch(Assigner(assigner.data, copies, options), now, options.lr)
    return copies, assigner, now, steps


MAKES = {
    "mlp": built_in("mlp", (D,), H),
    "linear": built_in("linear", (D,), H),
    "normed": _Normed,
}
every_network = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


@every_network
def test_merging_identical_twins_changes_nothing(make):
    copies, assigner, now, steps, _ = training(make)
    before = copy.deepcopy(copies.modules[0].state_dict())
    twins.merge(copies, assigner, now, steps)
    for name, value in copies.modules[0].state_dict().items():
        assert torch.equal(value, before[name]), name


@every_network
@pytest.mark.parametrize("epochs", [1, 30])
def test_no_cluster_is_worse_than_in_either_copy(make, epochs):
    copies, assigner, now, steps = trained(make, epochs)
    few = [twins._few(one) for one in assigner.members(now, slice(0, N))]
    apart = [twins._losses(module, assigner.data, few) for module in copies.modules]
    twins.merge(copies, assigner, now, steps)
    after = twins._losses(copies.modules[0], assigner.data, few)
    assert bool((after <= torch.minimum(*apart) * (1 + 1e-6)).all())


def test_both_copies_contribute():
    copies, assigner, now, steps = trained(MAKES["mlp"], 1)
    before = [copy.deepcopy(module.state_dict()) for module in copies.modules]
    twins.merge(copies, assigner, now, steps)
    merged, means = copies.modules[0].state_dict(), 0
    for j in range(K):
        name = f"autoencoders.{j}.encoder_path"
        first, second = (state[name] for state in before)
        assert not torch.equal(first, second)
        means += torch.equal(merged[name], (first + second) / 2)
    assert means


def test_counts_and_flags_are_those_of_a_copy():
    copies, assigner, now, steps = trained(_Normed, 2)
    before = [copy.deepcopy(module.state_dict()) for module in copies.modules]
    twins.merge(copies, assigner, now, steps)
    after = copies.modules[0].state_dict()
    whole = [name for name, value in after.items() if not value.is_floating_point()]
    assert any("num_batches_tracked" in name for name in whole)
    for name in whole:
        assert after[name].dtype == before[0][name].dtype
        assert any(torch.equal(after[name], state[name]) for state in before)


def test_a_copy_that_is_no_number_is_left_behind():
    copies, assigner, now, steps = trained(MAKES["mlp"], 1)
    with torch.no_grad():
        copies.modules[0].autoencoders[1].encoder_path.fill_(torch.nan)
    wanted = copies.modules[1].autoencoders[1].encoder_path.clone()
    twins.merge(copies, assigner, now, steps)
    assert torch.equal(copies.modules[0].autoencoders[1].encoder_path, wanted)


def test_shared_layers_stay_shared_and_their_momentum_follows():
    copies, assigner, now, steps = trained(MAKES["mlp"], 2, shared="layers")
    twins.merge(copies, assigner, now, steps)
    one, other = copies.modules[0].autoencoders[:2]
    assert one.encoder[0].weight is other.encoder[0].weight
    known = [p for optimizer in steps.optimizers for p in optimizer.state]
    assert any(p is one.encoder[0].weight for p in known)
    assert not any(p is q for p in known for q in copies.modules[1].parameters())


def test_momentum_becomes_that_of_what_goes_on():
    copies, _, _, steps = trained(MAKES["mlp"], 1)
    one, other = (module.autoencoders[0].encoder_path for module in copies.modules)
    moments = {p: o.state[p]["exp_avg"].clone() for o in steps.optimizers for p in o.state}
    steps.merge_moments([one], [other], 0.5)
    found = next(o.state[one]["exp_avg"] for o in steps.optimizers if one in o.state)
    assert torch.allclose(found, (moments[one] + moments[other]) / 2)


def test_turned_directions_span_the_same_and_meet_the_first():
    first, own = (torch.linalg.qr(torch.randn(D, H, dtype=torch.float64)).Q.mT for _ in range(2))
    rotation = torch.linalg.qr(torch.randn(H, H, dtype=torch.float64)).Q
    turned = twins.turned_to(first, own, variational=False)
    assert torch.allclose(turned.mT @ turned, own.mT @ own)
    assert torch.allclose(twins.turned_to(first, rotation @ first, variational=False), first)
    signs = twins.turned_to(first, -first, variational=True)
    assert torch.allclose(signs, first)


def test_the_close_of_a_fit_begins_no_worse_than_with_the_first_copy_alone(monkeypatch):
    X, _ = parallel_lines(random_state=0)
    options = {"max_epochs": 4, "random_state": 0}
    merged = TAE(2, 1, **options).fit(X)
    monkeypatch.setattr(deep_loop, "merge", lambda *_: None)
    alone = TAE(2, 1, **options).fit(X)
    assert merged.history_["loss"][1] <= alone.history_["loss"][1] * 1.01


def test_the_first_steps_do_not_undo_the_start(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 100))
    X += 0.05 * rng.standard_normal(X.shape)

    def first_loss():
        return TAE(2, 3, max_epochs=2, random_state=0).fit(X).history_["loss"][0]

    gentle = first_loss()
    monkeypatch.setattr(deep_epoch, "WARM_UP", 1)
    assert gentle < first_loss()
