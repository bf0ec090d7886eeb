"""An architecture that does not fit is refused with one sentence before training starts."""

import pytest
import torch
from torch import nn

from tensorae import TAE, tensorize
from tensorae.deep.user_architecture import check_autoencoder, draws_numbers
from tensorae.exceptions import InvalidParameterError, TensoraeError

X = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))


class Autoencoder(nn.Module):
    """Fits; ``variant`` changes one thing."""

    def __init__(self, d=4, h=2):
        super().__init__()
        self.first, self.second = nn.Linear(d, h), nn.Linear(h, d)

    def encode(self, x):
        return self.first(x)

    def decode(self, z):
        return self.second(z)


def variant(**attributes):
    return type("Variant", (Autoencoder,), attributes)


class WithoutDecode(nn.Module):
    def encode(self, x):
        return x


class WithoutParameters(nn.Module):
    def encode(self, x):
        return x[:, :2]

    def decode(self, z):
        return z.repeat(1, 2)


class Coders(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)


def not_a_number():
    made = Autoencoder()
    nn.init.constant_(made.second.bias, float("nan"))
    return made


def loss(function):
    return variant(loss=lambda self, x, target: function(x - target))


CASES = {
    "a method is missing": (WithoutDecode, ["WithoutDecode without decode"]),
    "no methods at all": (lambda: nn.Linear(4, 2), ["Linear without encode and decode"]),
    "nothing is returned": (lambda: None, ["NoneType"]),
    "three modules": (lambda: (nn.Linear(4, 2),) * 3, ["tuple"]),
    "a pair of functions": (lambda: (torch.sin, torch.cos), ["tuple"]),
    "a code of another length": (
        lambda: Autoencoder(h=3),
        ["encode", "(4, 2)", "got (4, 3)", "latent_dim"],
    ),
    "an output of another length": (
        variant(decode=lambda self, z: self.second(z)[:, :3]),
        ["decode", "(4, 4)", "got (4, 3)"],
    ),
    "an output of another shape": (
        variant(decode=lambda self, z: self.second(z).flatten()),
        ["decode", "(4, 4)", "got (16,)"],
    ),
    "frozen": (lambda: Autoencoder().requires_grad_(False), ["requires_grad"]),
    "no parameters": (WithoutParameters, ["requires_grad"]),
    "not a number": (not_a_number, ["decode", "NaN"]),
    "three codes": (variant(encode=lambda self, x: (self.first(x),) * 3), ["encode", "tuple"]),
    "two codes and a loss": (
        type("Both", (loss(torch.sum),), {"encode": lambda self, x: (self.first(x),) * 2}),
        ["encode", "loss"],
    ),
    "an array": (variant(decode=lambda self, z: self.second(z).numpy()), ["decode", "ndarray"]),
    "a mean as loss": (loss(torch.mean), ["loss", "(4,)", "got ()"]),
    "images where there are rows": (
        variant(encode=lambda self, x: nn.functional.avg_pool2d(x, 2).flatten(1)),
        ["encode", "(4, 4)", "input_shape"],
    ),
    "an autoencoder in place of a function": (Autoencoder(), ["Autoencoder", "lambda"]),
    "a class that needs arguments": (variant(__init__=lambda self, d: None), ["'d'", "lambda"]),
}


def assert_refused(call, *parts):
    with pytest.raises(InvalidParameterError) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    assert isinstance(caught.value, TensoraeError)
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize("name", CASES)
def test_an_architecture_that_does_not_fit_is_refused(name):
    make, parts = CASES[name]
    epochs = []
    model = TAE(2, 2, architecture=make, callbacks=epochs.append)
    assert_refused(lambda: model.fit(X), "architecture must", *parts)
    assert not epochs
    assert not hasattr(model, "labels_")


def test_one_that_fits_is_accepted():
    model = TAE(2, 2, architecture=Autoencoder, max_epochs=2).fit(X)
    assert isinstance(model.module_.autoencoders[1], Autoencoder)


@pytest.mark.parametrize("method", ["fit", "tensorize"])
@pytest.mark.parametrize("part", ["all", "one layer"])
def test_parameters_of_two_clusters_must_not_be_the_same(method, part):
    shared, layer = Autoencoder(), nn.Linear(2, 4)
    make = (lambda: shared) if part == "all" else (lambda: (nn.Linear(4, 2), layer))
    model = TAE(3, 2, architecture=make)
    call = {"fit": lambda: model.fit(X), "tensorize": lambda: tensorize(make, 3)}[method]
    assert_refused(call, "architecture", "clusters 0 and 1")
    assert tensorize(lambda: shared, 1).autoencoders[0] is shared


def test_an_error_inside_the_factory_is_not_hidden():
    def broken():
        raise TypeError("can't multiply sequence by non-int")

    with pytest.raises(TypeError, match="can't multiply"):
        tensorize(broken, 2)


@pytest.mark.parametrize("training", [True, False])
def test_the_trial_leaves_no_trace(training):
    autoencoder = Autoencoder().train(training)
    norm = autoencoder.norm = nn.BatchNorm1d(4)
    autoencoder.encode = lambda x: autoencoder.first(norm(x))
    check_autoencoder(autoencoder, X[:4], 2)
    assert autoencoder.training is training
    assert int(norm.num_batches_tracked) == 0
    assert all(p.grad is None for p in autoencoder.parameters())


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_the_trial_while_training_leaves_no_trace_either(p):
    calls = []

    class WithDropout(Autoencoder):
        def encode(self, x):
            self.seen = getattr(self, "seen", 0) + 1
            calls.append(self.training)
            return nn.functional.dropout(self.first(x), p, self.training)

    autoencoder = WithDropout().eval()
    assert draws_numbers(autoencoder, X[:1]) is bool(p)
    assert calls == [True]
    assert not hasattr(autoencoder, "seen")
    assert not autoencoder.training


def test_the_start_of_a_module_with_coders_is_called():
    started = []

    class WithStart(Coders):
        def start_from(self, components):
            started.append(components.shape)

    TAE(2, 2, architecture=WithStart, max_epochs=1).fit(X)
    assert set(started) == {(2, 4)}


# Shared layers --------------------------------------------------------------------------------


def sharing(parts):
    return lambda: variant(shared_parts=lambda self: parts)()


@pytest.mark.parametrize(
    ("architecture", "parts"),
    [
        (Autoencoder, ["sharing", "Autoencoder", "shared_parts()"]),
        (lambda: (nn.Linear(4, 2), nn.Linear(2, 4)), ["sharing", "a Pair", "shared_parts()"]),
        ("linear", ["sharing", "LinearAutoencoder"]),
        (sharing(["frist"]), ["shared", "got 'frist'", "did you mean 'first'?"]),
        (sharing("first"), ["shared_parts()", "got 'first'"]),
        (sharing(3), ["shared_parts()", "got 3"]),
        (sharing([""]), ["shared", "got ''"]),
        (sharing(["first", "second"]), ["shared", "Variant"]),
    ],
)
def test_an_architecture_that_cannot_share_is_refused(architecture, parts):
    model = TAE(2, 2, architecture=architecture, sharing="layers")
    assert_refused(lambda: model.fit(X), *parts)


def test_autoencoders_of_several_sizes_cannot_share():
    widths = iter([5, 6])

    def make():
        width = next(widths)
        return nn.Linear(4, 2), nn.Sequential(nn.Linear(2, width), nn.Linear(width, 4))

    assert_refused(lambda: tensorize(make, 2, shared=["decoder.1"]), "architecture", "structure")


@pytest.mark.parametrize("value", ["layer", "None", None, True, ["encoder"]])
def test_another_word_for_sharing_is_refused(value):
    assert_refused(lambda: TAE(2, 2, sharing=value).fit(X), "sharing", "'layers', 'none'")
    if value == "layer":
        call = lambda: tensorize(Autoencoder, 2, shared=value)  # noqa: E731
        assert_refused(call, "shared", "did you mean 'layers'")
