"""The built-in autoencoders fit any shape, begin as given directions, and can learn more."""

import pytest
import torch

from tensorae.deep.networks import (
    ConvAutoencoder,
    CurveAutoencoder,
    LinearAutoencoder,
    MLPAutoencoder,
    built_in,
)
from tensorae.exceptions import InvalidParameterError

SHAPES = [(1, 1, 1), (1, 1, 5), (3, 2, 2), (1, 3, 3), (2, 7, 10), (4, 13, 1), (1, 28, 28)]


def every_built_in(d=6, h=2):
    return {
        "linear": LinearAutoencoder(d, h),
        "mlp": MLPAutoencoder(d, h),
        "curve": CurveAutoencoder(d, h),
        "conv": ConvAutoencoder((1, d, 1), h),
    }


def orthonormal_rows(h, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(d, h, generator=generator)).Q.mT


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolutions_fit_images_of_any_size(shape):
    autoencoder = ConvAutoencoder(shape, 1)
    x = torch.randn(5, *shape)
    codes = autoencoder.encode(x)
    assert codes.shape == (5, 1)
    assert autoencoder.decode(codes).shape == x.shape


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_parameter_of_the_convolutions_is_trained(shape):
    torch.manual_seed(0)
    autoencoder = ConvAutoencoder(shape, 1)
    x = torch.randn(20, *shape)
    optimizer = torch.optim.SGD(autoencoder.parameters(), lr=0.1)
    # Layers that begin at zero pass no gradient back until they have moved themselves.
    for _ in range(2):
        optimizer.zero_grad()
        (autoencoder.decode(autoencoder.encode(x)) - 2 * x).square().mean().backward()
        optimizer.step()
    last = autoencoder.decoder[-3]
    assert autoencoder.decoder[0].weight.grad.abs().sum() > 0
    assert autoencoder.encoder[0].weight.grad.abs().sum() > 0
    assert last.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["linear", "mlp", "curve", "conv"])
def test_a_network_begins_as_the_given_directions(name):
    components = orthonormal_rows(2, 6)
    autoencoder = every_built_in()[name]
    autoencoder.start_from(components)
    x = torch.randn(10, 6)
    samples = x.view(10, 1, 6, 1) if name == "conv" else x
    codes = autoencoder.encode(samples)
    torch.testing.assert_close(codes, x @ components.mT)
    output = autoencoder.decode(codes).flatten(1)
    torch.testing.assert_close(output, x @ components.mT @ components)


@pytest.mark.parametrize("name", ["linear", "mlp", "conv"])
def test_a_new_network_is_a_projection(name):
    """Encoding what was decoded gives the code back, whatever the random start."""
    autoencoder = every_built_in()[name]
    codes = torch.randn(7, 2)
    torch.testing.assert_close(autoencoder.encode(autoencoder.decode(codes)), codes)


def test_two_networks_do_not_begin_alike():
    for name in ("linear", "mlp", "conv"):
        make = built_in(name, (1, 3, 2), 2)
        first, second = make(), make()
        pairs = zip(first.parameters(), second.parameters(), strict=True)
        assert any(not torch.equal(p, q) for p, q in pairs), name


@pytest.mark.parametrize("h", [1, 3, 6])
def test_linear_directions_stay_orthonormal_while_they_are_trained(h):
    torch.manual_seed(0)
    autoencoder = LinearAutoencoder(6, h)
    optimizer = torch.optim.Adam(autoencoder.parameters(), lr=0.1)
    x = torch.randn(50, 6) * torch.arange(1.0, 7)
    for _ in range(50):
        optimizer.zero_grad()
        (autoencoder.decode(autoencoder.encode(x)) - x).square().sum().backward()
        optimizer.step()
    rows = autoencoder.directions().detach()
    torch.testing.assert_close(rows @ rows.mT, torch.eye(h), atol=1e-4, rtol=0)


def test_the_linear_network_learns_the_main_directions():
    torch.manual_seed(0)
    x = torch.randn(200, 4) * torch.tensor([5.0, 3.0, 0.3, 0.1])
    x = x - x.mean(0)
    autoencoder = LinearAutoencoder(4, 2)
    optimizer = torch.optim.Adam(autoencoder.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (autoencoder.decode(autoencoder.encode(x)) - x).square().sum(1).mean().backward()
        optimizer.step()
    found = autoencoder.directions().detach()
    wanted = torch.linalg.svd(x, full_matrices=False).Vh[:2]
    torch.testing.assert_close(found.mT @ found, wanted.mT @ wanted, atol=0.02, rtol=0)


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_layers_learn_what_no_line_can(name):
    """A parabola has one degree of freedom, but no line follows it."""
    torch.manual_seed(0)
    along = torch.linspace(-1.5, 1.5, 200)
    x = torch.stack([along, along**2], 1)
    x = x - x.mean(0)
    autoencoder = MLPAutoencoder(2, 1) if name == "mlp" else ConvAutoencoder((1, 2, 1), 1)
    samples = x if name == "mlp" else x.view(-1, 1, 2, 1)
    main = torch.linalg.svd(x, full_matrices=False).Vh[:1]
    autoencoder.start_from(main)
    linear_error = (x - x @ main.mT @ main).square().sum(1).mean()
    optimizer = torch.optim.Adam(autoencoder.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        error = (autoencoder.decode(autoencoder.encode(samples)) - samples).square()
        error.flatten(1).sum(1).mean().backward()
        optimizer.step()
    assert error.flatten(1).sum(1).mean() < 0.1 * linear_error


def test_outputs_are_not_squashed():
    for name, autoencoder in every_built_in().items():
        large = autoencoder.decode(1e4 * torch.randn(5, 2)).detach()
        assert large.max() > 100, name
        assert large.min() < -100, name


@pytest.mark.parametrize(
    ("d", "h", "width"), [(4, 2, 32), (20, 2, 160), (784, 10, 256), (2, 80, 80)]
)
def test_the_hidden_layer_adapts_to_the_data(d, h, width):
    autoencoder = MLPAutoencoder(d, h)
    assert autoencoder.encoder[0].out_features == width
    assert autoencoder.decoder[0].out_features == width
    assert MLPAutoencoder(d, h, width=5).encoder[0].out_features == 5


def test_convolutions_need_images():
    with pytest.raises(InvalidParameterError, match=r"needs images of shape .* rows of 12 numbers"):
        built_in("conv", (12,), 2)


@pytest.mark.parametrize(("name", "meant"), [("mpl", "mlp"), ("Linear", "linear"), (3, "")])
def test_a_misspelt_name_gets_a_suggestion(name, meant):
    with pytest.raises(InvalidParameterError, match=f"architecture must be one of .*{meant}"):
        built_in(name, (12,), 2)


# Several proposals ------------------------------------------------------------------------------


def test_the_code_of_a_curve_is_the_proposal_that_decodes_best():
    torch.manual_seed(0)
    network, x = CurveAutoencoder(3, 2), torch.randn(200, 3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    proposals = network.proposals(x)
    errors = torch.stack([(network.decode(z) - x).square().sum(1) for z in proposals.unbind(1)])
    codes = network.encode(x)
    assert set(errors.argmin(0).tolist()) == set(range(proposals.shape[1]))
    torch.testing.assert_close((network.decode(codes) - x).square().sum(1), errors.amin(0))
    codes.sum().backward()
    assert network.others.weight.grad.abs().sum() > 0


def test_only_narrow_rows_of_curved_starts_get_proposals():
    assert isinstance(built_in("mlp", (50,), 1, curved=True)(), CurveAutoencoder)
    for d, curved in ((50, False), (51, True)):
        assert not isinstance(built_in("mlp", (d,), 1, curved=curved)(), CurveAutoencoder)
