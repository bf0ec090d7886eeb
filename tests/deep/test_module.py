"""One module out of k autoencoders: shapes, shares of the work, states and devices."""

import copy
import pickle

import pytest
import torch
from torch import nn

from tensorae import tensorize
from tensorae.deep.module import TensorizedAutoencoder
from tensorae.deep.networks import ConvAutoencoder, MLPAutoencoder


class WithCoders(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)


class OwnLoss(WithCoders):
    """Counts absolute errors."""

    def loss(self, x, target):
        return (self.decoder(self.encoder(x)) - target).abs().sum(1)


def pair():
    return nn.Linear(4, 2), nn.Linear(2, 4)


FACTORIES = {
    "methods": lambda: MLPAutoencoder(4, 2),
    "encoder and decoder": WithCoders,
    "pair": pair,
    "list": lambda: [*pair()],
    "sequential": lambda: (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), pair()[1]),
}


@pytest.fixture(autouse=True)
def seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def module():
    made = tensorize(pair, 3, input_shape=(4,), latent_penalty=0.3)
    made.set_centers(torch.randn(3, 4))
    made.scale.fill_(2.0)
    made.code_scales = torch.tensor([1.0, 0.5, 3.0])
    return made


@pytest.mark.parametrize("name", FACTORIES)
def test_shapes_are_those_of_the_samples(name):
    module = tensorize(FACTORIES[name], 3)
    x, labels = torch.randn(10, 4), torch.tensor([0, 2] * 5)
    assert isinstance(module, TensorizedAutoencoder)
    assert module.n_clusters == 3
    assert module.costs(x).shape == (10, 3)
    assert module.encode(x, labels).shape == (10, 2)
    assert module.decode(torch.randn(10, 2), labels).shape == (10, 4)
    assert module.reconstruct(x).shape == module(x).shape == (10, 4)
    assert module.centers.shape == (3, 4)


@pytest.mark.parametrize("input_shape", [None, (2, 5, 3)])
def test_images_keep_their_shape(input_shape):
    module = tensorize(lambda: ConvAutoencoder((2, 5, 3), 4), 3, input_shape=input_shape)
    x, labels = torch.randn(6, 2, 5, 3), torch.tensor([0, 1, 2] * 2)
    assert module.costs(x).shape == (6, 3)
    codes = module.encode(x, labels)
    assert codes.shape == (6, 4)
    assert module.decode(codes, labels).shape == module(x).shape == x.shape
    assert module.centers.shape == (3, 2, 5, 3)


def test_flat_rows_are_put_into_the_shape_of_images():
    module = tensorize(lambda: ConvAutoencoder((2, 5, 3), 4), 3, input_shape=(2, 5, 3))
    x = torch.randn(6, 2, 5, 3)
    torch.testing.assert_close(module.costs(x.flatten(1)), module.costs(x))
    torch.testing.assert_close(module(x.flatten(1)), module(x).flatten(1))


def test_costs_are_the_bracket_of_equation_3(module):
    """Squared error summed over features, plus the penalty times the squared code."""
    x = torch.randn(10, 4)
    costs = module.costs(x)
    for j in range(3):
        labels = torch.full((10,), j)
        codes = module.encode(x, labels)
        output = module.decode(codes, labels)
        wanted = (x - output).square().sum(1) + 0.3 * codes.square().sum(1)
        torch.testing.assert_close(costs[:, j], wanted)
        torch.testing.assert_close(module.costs_of(j, x), wanted)


def test_an_autoencoder_sees_what_is_about_its_center_in_units_of_the_scale(module):
    x = torch.randn(10, 4)
    encoder, decoder = module.autoencoders[1].encoder, module.autoencoders[1].decoder
    codes = encoder((x - module.centers[1]) / 2)
    torch.testing.assert_close(module.encode(x, torch.ones(10).long()), 0.5 * codes)
    wanted = module.centers[1] + 2 * decoder(codes)
    torch.testing.assert_close(module.reconstruct(x, torch.ones(10).long()), wanted)


def test_costs_may_be_those_of_a_clean_target(module):
    x, target = torch.randn(10, 4), torch.randn(10, 4)
    labels = torch.zeros(10).long()
    codes = module.encode(x, labels)
    errors = (module.decode(codes, labels) - target).square().sum(1)
    wanted = errors + 0.3 * codes.square().sum(1)
    torch.testing.assert_close(module.costs(x, target)[:, 0], wanted)


def test_every_sample_goes_to_the_autoencoder_that_is_named(module):
    x, labels = torch.randn(12, 4), torch.tensor([2, 0, 1, 1, 0, 2, 2, 0, 0, 1, 2, 0])
    together = module.encode(x, labels)
    for i, label in enumerate(labels):
        alone = module.encode(x[i : i + 1], label[None])
        torch.testing.assert_close(together[i : i + 1], alone)


def test_a_reconstruction_is_that_of_the_cheapest_autoencoder(module):
    x = torch.randn(30, 4)
    cheapest = module.costs(x).argmin(1)
    assert len(cheapest.unique()) > 1
    torch.testing.assert_close(module.reconstruct(x), module.reconstruct(x, cheapest))


def test_no_rows_give_no_results(module):
    nothing, labels = torch.empty(0, 4), torch.empty(0).long()
    assert module.encode(nothing, labels).shape == (0, 2)
    assert module.costs(nothing).shape == (0, 3)
    assert module(nothing).shape == (0, 4)


def test_labels_may_be_of_any_integer_type(module):
    x = torch.randn(6, 4)
    wanted = module.encode(x, torch.tensor([0, 1, 2, 0, 1, 2]))
    for dtype in (torch.int32, torch.int16, torch.uint8):
        labels = torch.tensor([0, 1, 2, 0, 1, 2], dtype=dtype)
        torch.testing.assert_close(module.encode(x, labels), wanted)


# A module among modules ---------------------------------------------------------------------------


def test_gradients_reach_the_chosen_autoencoder_only(module):
    x = torch.randn(10, 4)
    module.reconstruct(x, torch.ones(10).long()).square().sum().backward()
    for j, autoencoder in enumerate(module.autoencoders):
        touched = [p.grad is not None for p in autoencoder.parameters()]
        assert all(touched) if j == 1 else not any(touched)


def test_a_loop_of_ones_own_lowers_the_loss():
    module = tensorize(pair, 3, latent_penalty=0.0)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    x = torch.randn(60, 4)
    losses = []
    for _ in range(200):
        loss = module.costs(x).amin(1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_a_loss_of_ones_own_takes_the_place_of_the_squared_error():
    module = tensorize(OwnLoss, 2, latent_penalty=0.0)
    x = torch.randn(10, 4)
    output = module.reconstruct(x, torch.zeros(10).long())
    torch.testing.assert_close(module.costs(x)[:, 0], (output - x).abs().sum(1))
    torch.testing.assert_close(module.objective(0, x, x, 0.0), (output - x).abs().sum(1))
    wanted = (output - x).abs().sum(1) + 0.5 * output.square().sum(1)
    torch.testing.assert_close(module.objective(0, x, x, 0.5), wanted)


def test_a_copy_computes_its_own_loss():
    """A copy must not hold on to the loss of the original."""
    module = tensorize(OwnLoss, 2)
    x = torch.randn(5, 4)
    for duplicate in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(duplicate.costs(x), module.costs(x))
        with torch.no_grad():
            for parameter in duplicate.parameters():
                parameter.zero_()
        torch.testing.assert_close(duplicate.costs(x)[:, 0], x.abs().sum(1))
        assert not torch.allclose(module.costs(x)[:, 0], x.abs().sum(1))


def test_the_state_holds_all_that_decides_the_costs(module):
    x = torch.randn(10, 4)
    other = tensorize(pair, 3, input_shape=(4,))
    assert not torch.allclose(other.costs(x), module.costs(x))
    other.load_state_dict(module.state_dict())
    assert torch.equal(other.costs(x), module.costs(x))
    assert {"centers", "scale", "code_scales", "latent_penalty"} <= set(module.state_dict())


def test_a_state_with_centers_loads_into_a_module_without_shape(module):
    other = tensorize(pair, 3)
    other.load_state_dict(module.state_dict())
    x = torch.randn(10, 4)
    assert torch.equal(other.costs(x), module.costs(x))


def test_a_state_of_another_number_of_clusters_is_refused(module):
    with pytest.raises(RuntimeError, match=r"size mismatch|Unexpected key"):
        tensorize(pair, 2, input_shape=(4,)).load_state_dict(module.state_dict())


def test_centers_move_with_the_module(module):
    moved = copy.deepcopy(module).to("meta")
    assert all(value.device.type == "meta" for value in moved.state_dict().values())
    double = copy.deepcopy(module).double()
    x = torch.randn(10, 4)
    assert double.costs(x.double()).dtype == torch.float64
    torch.testing.assert_close(double.costs(x.double()).float(), module.costs(x))
    double.set_centers(torch.zeros(3, 4))
    assert double.centers.dtype == torch.float64


def test_centers_take_the_shape_but_not_the_precision_of_the_first_samples():
    module = tensorize(pair, 3)
    module.costs(torch.randn(5, 4, requires_grad=True))
    assert module.centers.shape == (3, 4)
    assert not module.centers.requires_grad
    assert "centers" in dict(module.named_buffers())


def test_reordering_renumbers_the_clusters(module):
    x = torch.randn(10, 4)
    before = module.costs(x)
    module.reorder([2, 0, 1])
    torch.testing.assert_close(module.costs(x), before[:, [2, 0, 1]])


def test_changing_the_unit_gives_the_same_module_of_other_data(module):
    x, origin = torch.randn(10, 4), torch.randn(4).double()
    costs, labels = module.costs(x), torch.tensor([0, 1] * 5)
    output = module.reconstruct(x, labels)
    module.change_unit(3.0, origin)
    other = (origin + 3 * x).float()
    torch.testing.assert_close(module.costs(other), 9 * costs, rtol=1e-4, atol=1e-4)
    wanted = (origin + 3 * output).float()
    torch.testing.assert_close(module.reconstruct(other, labels), wanted, rtol=1e-4, atol=1e-4)


# Torch's own tracer looks at gradients of what is no leaf.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_compiled_module_gives_the_same_results(module):
    # The backend that only traces: making machine code takes most of a minute.
    x = torch.randn(10, 4)
    compiled = torch.compile(module, backend="eager")
    torch.testing.assert_close(compiled(x), module(x))
    torch.testing.assert_close(torch.compile(module.costs, backend="eager")(x), module.costs(x))


def test_weights_may_be_shared_inside_an_autoencoder():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 4))

        def encode(self, x):
            return x @ self.weight.mT

        def decode(self, z):
            return z @ self.weight

    module = tensorize(Tied, 3)
    assert len(list(module.parameters())) == 3
    module.costs(torch.randn(5, 4)).sum().backward()
    assert all(p.grad is not None for p in module.parameters())
