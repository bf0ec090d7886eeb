"""Layers that all clusters have in common: one set of weights, which learns from all of them."""

import copy

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import nn

from tensorae import TAE, tensorize
from tensorae.data.rows import Rows
from tensorae.deep.assign import Copies, Members, TrainingData
from tensorae.deep.epoch import Trainer
from tensorae.deep.networks import ConvAutoencoder, MLPAutoencoder, VariationalAutoencoder
from tensorae.deep_tae import deep_options

PLACES = np.array([[0.0, 0, 0, 0], [12, 0, 0, 0], [0, 12, 0, 0], [0, 0, 12, 12]])
SHORT = {"max_epochs": 20, "random_state": 0}
BUILT_IN = {
    "mlp": lambda: MLPAutoencoder(4, 2),
    "conv": lambda: ConvAutoencoder((1, 2, 2), 2),
    "vae": lambda: VariationalAutoencoder(4, 2),
}


@pytest.fixture(scope="module")
def blobs():
    """Four long clusters of 60, 30, 20 and 10 samples that nobody can confuse."""
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(4), [60, 30, 20, 10])
    X = PLACES[y] + rng.randn(120, 4) * [1, 0.5, 2, 0.3]
    X.setflags(write=False)
    return X, y


class Normalised(nn.Module):
    """An autoencoder with buffers, a tensor of two names, and a part that it shares."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.encoder = nn.Sequential(self.first, nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2))
        self.decoder = nn.Linear(2, 4)

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)

    def shared_parts(self):
        return ["first", "encoder.1", "decoder.bias"]


def n_numbers(module):
    return sum(parameter.numel() for parameter in module.parameters())


def in_images(name, x):
    return x.view(-1, 1, 2, 2) if name == "conv" else x


@pytest.mark.parametrize("name", BUILT_IN)
def test_one_cluster_alone_shares_with_nobody(blobs, name):
    shape = {"input_shape": (1, 2, 2)} if name == "conv" else {}
    alone, shared = (
        TAE(1, 2, architecture=name, sharing=sharing, max_epochs=4, random_state=0, **shape)
        for sharing in ("none", "layers")
    )
    X = blobs[0]
    states = [model.fit(X).module_.state_dict() for model in (alone, shared)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    np.testing.assert_array_equal(alone.costs(X), shared.costs(X))


@pytest.mark.parametrize("name", BUILT_IN)
def test_gradients_of_shared_parts_are_the_sum_over_clusters(name):
    torch.manual_seed(0)
    tied = tensorize(BUILT_IN[name], 3, shared="layers")
    for parameter in tied.parameters():  # away from the zeros of a start
        nn.init.normal_(parameter, std=0.3)
    apart = tensorize(BUILT_IN[name], 3)
    for mine, theirs in zip(apart.autoencoders, tied.autoencoders, strict=True):
        mine.load_state_dict(theirs.state_dict())
    x = in_images(name, torch.randn(10, 4))
    torch.testing.assert_close(tied.costs(x), apart.costs(x))
    for module in (tied, apart):
        (module.costs(x) * torch.tensor([1.0, 2, 3])).sum().backward()
    parts = tied.autoencoders[0].shared_parts()
    for key, parameter in tied.autoencoders[0].named_parameters():
        gradients = [one.get_parameter(key).grad for one in apart.autoencoders]
        shared = key.rpartition(".")[0] in parts
        expected = sum(gradients) if shared else gradients[0]
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-4)
        assert expected.abs().sum() > 0, key


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("name", BUILT_IN)
def test_shared_parts_count_once(name, k):
    one = BUILT_IN[name]()
    outer = sum(n_numbers(one.get_submodule(part)) for part in one.shared_parts())
    assert n_numbers(tensorize(BUILT_IN[name], k)) == k * n_numbers(one)
    shared = tensorize(BUILT_IN[name], k, shared="layers")
    assert n_numbers(shared) == outer + k * (n_numbers(one) - outer)


def test_a_state_has_shared_tensors_once_and_they_stay_shared():
    torch.manual_seed(0)
    module = tensorize(Normalised, 3, shared="layers")
    assert n_numbers(module) == 15 + 6 + 4 + 3 * (8 + 8)
    state = module.state_dict()
    names = [name for name in state if name.startswith("autoencoders.1.")]
    inner = ("encoder.3.weight", "encoder.3.bias", "decoder.weight")
    assert names == [f"autoencoders.1.{name}" for name in inner]
    x = torch.randn(9, 4)
    module.train()
    module.costs(x)  # moves the buffers, of all at once
    others = {
        "a copy": copy.deepcopy(module),
        "double": copy.deepcopy(module).to(torch.float64).float(),
    }
    for assign in (False, True):
        fresh = tensorize(Normalised, 3, shared="layers")
        fresh.load_state_dict(copy.deepcopy(module.state_dict()), assign=assign)
        others[f"loaded, assign={assign}"] = fresh
    for how, other in others.items():
        first, last = other.autoencoders[0], other.autoencoders[2]
        assert first.encoder[0].weight is last.first.weight, how
        assert first.encoder[1].running_mean is last.encoder[1].running_mean, how
        assert first.encoder[3].weight is not last.encoder[3].weight, how
        assert torch.equal(other.eval().costs(x), module.eval().costs(x)), how


def test_inside_another_module_the_state_is_complete():
    outer, again = (nn.ModuleDict({"tae": tensorize(Normalised, 2, shared="layers")}) for _ in "ab")
    assert "tae.autoencoders.1.encoder.0.weight" not in outer.state_dict()
    again.load_state_dict(outer.state_dict())
    x = torch.randn(5, 4)
    assert torch.equal(outer.eval()["tae"].costs(x), again.eval()["tae"].costs(x))


def test_parts_can_be_named_from_outside():
    def pair():
        return nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

    module = tensorize(pair, 3, shared=["decoder.2", "encoder.bias"])
    assert n_numbers(module) == 36 + 2 + 3 * (8 + 24)
    assert module.shared == ("encoder.bias", "decoder.2.weight", "decoder.2.bias")


def test_what_wraps_a_module_with_coders_passes_its_parts_on():
    class Coders(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

        def shared_parts(self):
            return ["decoder"]

    assert n_numbers(tensorize(Coders, 3, shared="layers")) == 3 * 10 + 12


# Training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "em"])
@pytest.mark.parametrize("name", ["mlp", "vae"])
def test_clear_clusters_are_found(blobs, name, assignment):
    X, y = blobs
    model = TAE(4, 2, architecture=name, sharing="layers", assignment=assignment, **SHORT).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.costs(X)).all()
    assert len({id(one.encoder[0].weight) for one in model.module_.autoencoders}) == 1
    assert len({id(one.encoder[2].weight) for one in model.module_.autoencoders}) == 4


@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_follows_the_mean_over_all_clusters(blobs, weighted):
    """Shared layers take the gradient of the mean loss of the rows of a step, whatever cluster."""
    X, y = blobs
    rows = Rows(torch.tensor(X, dtype=torch.float32))
    options = deep_options(TAE(4, 2, sharing="layers").get_params(deep=False), rows, (4,))
    module = tensorize(options.factory, 4, input_shape=(4,), shared="layers", latent_penalty=0)
    data = TrainingData(rows, weights=torch.ones(120))
    trainer = Trainer(Copies((module,)), data, options, 15, torch.Generator().manual_seed(0))
    weights = torch.linspace(0.5, 2, 120) if weighted else None
    members = {}
    for j in range(4):
        own = torch.as_tensor(y == j).nonzero()[:, 0]
        members[0, j] = Members(0, j, own, None if weights is None else weights[own])
    batches = trainer._batches(members)
    assert {len(one.parts) for one in batches} == {2}
    for step in range(2):
        losses, total = [], 0.0
        for one in batches:
            loss, summed = trainer._loss(Copies((module,)), rows.data, one, step, None)
            losses.append(loss)
            total += float(summed)
        counted = [one.parts[step] for one in batches]
        assert [len(part) for part in counted] == [30, 15, 10, 5]
        means = [1.0 if weights is None else float(weights[y == j].mean()) for j in range(4)]
        size = sum(len(part) * mean for part, mean in zip(counted, means, strict=True))
        assert float(sum(losses).detach()) == pytest.approx(total / size, rel=1e-5)
    (optimizer,) = trainer.optimizers
    assert sum(p.numel() for p in optimizer.param_groups[0]["params"]) == n_numbers(module)


def test_a_network_that_starts_again_keeps_the_momentum_of_shared_layers(blobs):
    module = tensorize(lambda: MLPAutoencoder(4, 2), 2, shared="layers")
    rows = Rows(torch.tensor(blobs[0], dtype=torch.float32))
    options = deep_options(TAE(2, 2).get_params(deep=False), rows, (4,))
    generator = torch.Generator().manual_seed(0)
    trainer = Trainer(Copies((module,)), TrainingData(rows), options, 15, generator)
    (optimizer,) = trainer.optimizers
    module.costs(rows.data).sum().backward()
    optimizer.step()
    trainer.forget(module.own_parameters(1))
    kept = set(map(id, optimizer.state))
    assert id(module.autoencoders[1].encoder[0].weight) in kept
    assert id(module.autoencoders[0].encoder[2].weight) in kept
    assert id(module.autoencoders[1].encoder[2].weight) not in kept
