"""An architecture that does not fit gets one clear sentence before training starts."""

import pytest
import torch
from torch import nn

from tensorae import TAE, tensorize
from tensorae.deep.user_architecture import check_autoencoder, draws_numbers
from tensorae.exceptions import InvalidParameterError, TensoraeError

X = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))


class Autoencoder(nn.Module):
    """Fits; tests take away what they are about."""

    def __init__(self, d=4, h=2):
        super().__init__()
        self.first, self.second = nn.Linear(d, h), nn.Linear(h, d)

    def encode(self, x):
        return self.first(x)

    def decode(self, z):
        return self.second(z)


class WithoutDecode(nn.Module):
    def encode(self, x):
        return x


class WrongCode(Autoencoder):
    def __init__(self):
        super().__init__(h=3)


class WrongOutput(Autoencoder):
    def decode(self, z):
        return self.second(z)[:, :3]


class Flattened(Autoencoder):
    def decode(self, z):
        return self.second(z).flatten()


class Frozen(Autoencoder):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)


class Empty(nn.Module):
    def encode(self, x):
        return x[:, :2]

    def decode(self, z):
        return z.repeat(1, 2)


class NotANumber(Autoencoder):
    def __init__(self):
        super().__init__()
        nn.init.constant_(self.second.bias, float("nan"))


class ThreeCodes(Autoencoder):
    def encode(self, x):
        return self.first(x), self.first(x), self.first(x)


class TwoLosses(Autoencoder):
    def encode(self, x):
        return self.first(x), self.first(x)

    def loss(self, x, target):
        return (x - target).square().sum(1)


class Array(Autoencoder):
    def decode(self, z):
        return self.second(z).numpy()


class MeanLoss(Autoencoder):
    def loss(self, x, target):
        return (x - target).square().mean()


class TakesImages(Autoencoder):
    def encode(self, x):
        return nn.functional.avg_pool2d(x, 2).flatten(1)


CASES = {
    "a method is missing": (WithoutDecode, ["WithoutDecode without decode", "add the missing"]),
    "no methods at all": (lambda: nn.Linear(4, 2), ["Linear without encode and decode"]),
    "nothing is returned": (lambda: None, ["returns NoneType", "return a Module"]),
    "three modules": (lambda: (nn.Linear(4, 2),) * 3, ["returns tuple", "return a Module"]),
    "a pair of functions": (lambda: (torch.sin, torch.cos), ["returns tuple", "pair of Modules"]),
    "a code of another length": (WrongCode, ["encode", "(4, 2)", "got (4, 3)", "latent_dim"]),
    "an output of another length": (WrongOutput, ["decode", "(4, 4)", "got (4, 3)", "last layer"]),
    "an output of another shape": (Flattened, ["decode", "(4, 4)", "got (16,)"]),
    "frozen": (Frozen, ["no parameter to train", "requires_grad"]),
    "no parameters": (Empty, ["no parameter to train", "there are none"]),
    "not a number": (NotANumber, ["decode", "NaN", "before training", "initialised"]),
    "three codes": (ThreeCodes, ["tensor from encode", "got tuple", "mean and log-variance"]),
    "two codes and a loss": (TwoLosses, ["evidence bound", "loss of its own", "leave loss out"]),
    "an array": (Array, ["tensor from decode", "got ndarray"]),
    "a mean as loss": (MeanLoss, ["loss", "(4,)", "got ()", "do not average"]),
    "images where there are rows": (TakesImages, ["encode failed", "(4, 4)", "input_shape"]),
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
    assert_refused(lambda: model.fit(X), *parts)
    assert not epochs
    assert not hasattr(model, "labels_")


def test_one_that_fits_is_accepted():
    model = TAE(2, 2, architecture=Autoencoder, max_epochs=2).fit(X)
    assert isinstance(model.module_.autoencoders[1], Autoencoder)


@pytest.mark.parametrize("method", ["fit", "tensorize"])
def test_the_same_module_twice_is_refused(method):
    shared = Autoencoder()
    model = TAE(3, 2, architecture=lambda: shared)
    call = {"fit": lambda: model.fit(X), "tensorize": lambda: tensorize(lambda: shared, 3)}[method]
    assert_refused(call, "clusters 0 and 1 share parameters", "inside the function")


def test_one_shared_layer_is_refused():
    shared = nn.Linear(2, 4)
    assert_refused(lambda: tensorize(lambda: (nn.Linear(4, 2), shared), 2), "share parameters")


def test_one_cluster_shares_with_nobody():
    shared = Autoencoder()
    assert tensorize(lambda: shared, 1).autoencoders[0] is shared


@pytest.mark.parametrize("method", ["fit", "tensorize"])
def test_a_module_in_place_of_what_makes_it_is_refused(method):
    model = TAE(2, 2, architecture=Autoencoder())
    call = {
        "fit": lambda: model.fit(X),
        "tensorize": lambda: tensorize(Autoencoder(), 2),
    }[method]
    assert_refused(call, "got the Autoencoder itself", "lambda: MyAutoencoder(4, 2)")


def test_a_class_that_wants_arguments_is_refused():
    class Wanting(Autoencoder):
        def __init__(self, d):
            super().__init__(d)

    assert_refused(lambda: tensorize(Wanting, 2), "without arguments", "'d'", "wrap it")


def test_an_error_inside_the_factory_is_not_hidden():
    def broken():
        raise TypeError("can't multiply sequence by non-int")

    with pytest.raises(TypeError, match="can't multiply"):
        tensorize(broken, 2)


def test_the_trial_leaves_no_trace():
    class Normed(Autoencoder):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def encode(self, x):
            return self.norm(self.first(x))

    for training in (True, False):
        autoencoder = Normed().train(training)
        check_autoencoder(autoencoder, X[:4], 2)
        assert autoencoder.training is training
        assert int(autoencoder.norm.num_batches_tracked) == 0
        assert all(p.grad is None for p in autoencoder.parameters())


def test_a_module_with_coders_begins_as_it_wishes():
    started = []

    class WithStart(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

        def start_from(self, components):
            started.append(components.shape)

    TAE(2, 2, architecture=WithStart, max_epochs=1).fit(X)
    assert set(started) == {(2, 4)}


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
