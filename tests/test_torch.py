"""Settings and random numbers of torch that are the caller's play no part, and are not changed."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from torch import nn

from tensorae import TAE, Batches, LinearTAE, load
from tensorae._torch import FitRNG

IRIS = load_iris().data
IRIS.setflags(write=False)


class WithDropout(nn.Module):
    """Draws first weights, and numbers in every step."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 2), nn.Linear(2, 4)

    def encode(self, x):
        # Zeros are of the default type, on the default device.
        return nn.functional.dropout(self.first(x), 0.2, self.training) + torch.zeros(2)

    def decode(self, z):
        return self.last(z)


# Settings -----------------------------------------------------------------------------------------


@contextmanager
def default_type():
    torch.set_default_dtype(torch.float64)
    yield
    assert torch.get_default_dtype() == torch.float64
    torch.set_default_dtype(torch.float32)


@contextmanager
def default_device():
    torch.set_default_device("meta")
    yield
    assert torch.get_default_device().type == "meta"
    torch.set_default_device(None)


SETTINGS = {
    "float64 by default": default_type,
    "meta by default": default_device,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}
SHORT = {"random_state": 0, "max_epochs": 3}
CASES = {
    "linear": (lambda: LinearTAE(3, 1, random_state=0, latent_penalty="auto"), lambda: IRIS),
    "linear, streamed": (
        lambda: LinearTAE(3, 1, random_state=0, latent_penalty=0.1),
        lambda: Batches(IRIS),
    ),
    "deep": (
        lambda: TAE(3, 1, **SHORT),
        lambda: torch.tensor(IRIS, dtype=torch.float32, device="cpu"),
    ),
    "deep, streamed": (lambda: TAE(3, 1, **SHORT), lambda: Batches(IRIS)),
    "soft, noise": (
        lambda: TAE(3, 1, **SHORT, architecture="linear", assignment="em", noise=0.1),
        lambda: IRIS,
    ),
    "dropout": (lambda: TAE(3, 2, **SHORT, architecture=WithDropout), lambda: IRIS),
}


def answers(model, X):
    labels, codes = model.predict(X), model.transform(X)
    found = [labels, codes, model.costs(X), model.inverse_transform(codes, labels)]
    if isinstance(model, LinearTAE):
        found.append(model.denoise(X, 0.1))
    return [np.array(values) for values in found]


@pytest.fixture(scope="module")
def undisturbed():
    """Answers without any settings."""
    small = IRIS.astype(np.float32)
    return {name: answers(make().fit(data()), small) for name, (make, data) in CASES.items()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_settings_of_the_caller_do_not_matter(undisturbed, tmp_path, setting, case):
    make, data = CASES[case]
    path, small = tmp_path / "model.tae", IRIS.astype(np.float32)
    own = {"architecture": WithDropout} if case == "dropout" else {}
    with SETTINGS[setting]():
        fitted = make().fit(data())
        fitted.save(path)
        again = load(path, **own)
        found = [answers(one, small) for one in (fitted, again)]
    found += [answers(one, small) for one in (fitted, again, load(path, **own))]
    for values in found:
        for value, wanted in zip(values, undisturbed[case], strict=True):
            assert value.dtype == wanted.dtype
            np.testing.assert_array_equal(value, wanted)
    if isinstance(fitted, TAE):
        for one in (fitted, again):  # networks can be trained further
            one.module_.costs(torch.ones(2, 4)).sum().backward()


def test_partial_fit_takes_no_part_in_an_inference(two_lines):
    X, _ = two_lines
    outside = (
        LinearTAE(2, 1, random_state=0, latent_penalty=0.1)
        .partial_fit(X[:100])
        .partial_fit(X[100:])
    )
    with torch.inference_mode():
        inside = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).partial_fit(X[:100])
    inside.partial_fit(X[100:])
    np.testing.assert_array_equal(inside.components_, outside.components_)


# Random numbers -----------------------------------------------------------------------------------


def stacked(kind):
    return lambda: kind(3, 3, 2, dropout=0.5)(torch.ones(2, 2, 3))[0]


def attention():
    x = torch.ones(3, 1, 4)
    return nn.MultiheadAttention(4, 2, dropout=0.5)(x, x, x)[0]


DRAWS = {
    "rand": lambda: torch.rand(3),
    "randn": lambda: torch.randn(3, dtype=torch.float64),
    "randint": lambda: torch.randint(2, 99, (4,)),
    "randperm": lambda: torch.randperm(9),
    "randn_like": lambda: torch.randn_like(torch.ones(3)),
    "bernoulli": lambda: torch.bernoulli(torch.full((9,), 0.5)),
    "multinomial": lambda: torch.multinomial(torch.ones(9), 3),
    "normal": lambda: torch.distributions.Normal(0.0, 1.0).rsample((3,)),
    "gumbel": lambda: nn.functional.gumbel_softmax(torch.ones(3)),
    "linear layer": lambda: nn.Linear(3, 2).weight,
    "orthogonal": lambda: nn.init.orthogonal_(torch.empty(2, 3)),
    "dropout": lambda: nn.Dropout(0.5)(torch.ones(9)),
    "dropout of channels": lambda: nn.Dropout2d(0.5)(torch.ones(1, 9, 2, 2)),
    "alpha dropout": lambda: nn.AlphaDropout(0.5)(torch.ones(9)),
    "random slope": lambda: nn.RReLU()(-torch.ones(9)),
    "recurrent": stacked(nn.LSTM),
    "gated": stacked(nn.GRU),
    "attention": attention,
    "decomposition": lambda: torch.svd_lowrank(torch.arange(12.0).view(4, 3), q=2)[2],
}


@pytest.mark.parametrize("name", DRAWS)
def test_whatever_is_drawn_comes_from_the_fit_and_not_from_torch(name):
    draw, before = DRAWS[name], torch.get_rng_state()
    found = []
    for seed in (0, 0, 1):
        fit_rng = FitRNG(seed)
        with fit_rng.activated():
            found.append(draw().detach())
        assert fit_rng.drawn
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    assert not torch.equal(found[0], found[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_scripted_code_draws_from_the_fit_too():
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        scripted = torch.jit.script(nn.Sequential(nn.Dropout(0.5)))
    with FitRNG(0).activated():
        first = scripted(torch.ones(99))
    with FitRNG(0).activated():
        assert torch.equal(scripted(torch.ones(99)), first)


def test_a_chance_goes_on_where_it_was():
    first, second = FitRNG(0), FitRNG(0)
    with first.activated():
        torch.rand(3)
    second.load_state_dict(first.state_dict())
    with first.activated():
        wanted = torch.rand(3)
    with second.activated():
        assert torch.equal(torch.rand(3), wanted)


def test_a_generator_that_is_given_is_used():
    with FitRNG(0).activated():
        drawn = torch.rand(3, generator=torch.Generator().manual_seed(7))
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7)))


FITS = {
    "mlp": (lambda seed: TAE(3, 1, random_state=seed, max_epochs=4), IRIS),
    "soft": (lambda seed: TAE(3, 1, random_state=seed, max_epochs=4, assignment="em"), IRIS),
    "dropout": (
        lambda seed: TAE(3, 2, random_state=seed, max_epochs=4, architecture=WithDropout), IRIS,
    ),
    "batches": (lambda seed: TAE(3, 1, random_state=seed, max_epochs=4), Batches(IRIS)),
    "wide": (
        lambda seed: TAE(1, 3, random_state=seed, max_epochs=2),
        np.random.RandomState(0).randn(140, 140) * np.linspace(2, 0.1, 140),
    ),
    "linear": (lambda seed: LinearTAE(3, 1, random_state=seed, latent_penalty=0.1), IRIS),
}  # fmt: skip


@pytest.mark.parametrize("kind", FITS)
def test_fits_in_threads_equal_serial_ones(kind):
    make, X = FITS[kind]
    fits = [make(seed) for seed in (0, 1, 2)]
    wanted = [make(seed).fit(X).costs(X) for seed in (0, 1, 2)]
    drawing = threading.Event()
    drawing.set()

    def draw():
        while drawing.is_set():
            torch.rand(10)

    before = torch.get_rng_state()
    threads = [threading.Thread(target=model.fit, args=(X,)) for model in fits]
    stranger = threading.Thread(target=draw)
    stranger.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drawing.clear()
    stranger.join()
    torch.set_rng_state(before)
    for model, costs in zip(fits, wanted, strict=True):
        np.testing.assert_array_equal(model.costs(X), costs)


def test_training_leaves_the_numbers_of_the_caller_to_callbacks():
    torch.manual_seed(0)
    wanted, drawn = torch.rand(4), []
    torch.manual_seed(0)
    model = TAE(
        3, 2, random_state=0, max_epochs=4, architecture=WithDropout,
        callbacks=lambda epoch: drawn.append(torch.rand(1)),
    )  # fmt: skip
    model.fit(IRIS)
    assert torch.equal(torch.cat(drawn), wanted)
    quiet = TAE(3, 2, random_state=0, max_epochs=4, architecture=WithDropout).fit(IRIS)
    np.testing.assert_array_equal(model.costs(IRIS), quiet.costs(IRIS))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_dropout_goes_on_from_a_checkpoint(tmp_path):
    class KilledError(Exception):
        pass

    def die(epoch):
        if epoch.epoch == 3:
            raise KilledError

    options = {"random_state": 0, "max_epochs": 4, "architecture": WithDropout}
    file = tmp_path / "run.ckpt"
    with pytest.raises(KilledError):
        TAE(3, 2, **options, callbacks=die).fit(IRIS, checkpoint=file, checkpoint_every=0)
    again = TAE(3, 2, **options).fit(IRIS, checkpoint=file)
    np.testing.assert_array_equal(again.costs(IRIS), TAE(3, 2, **options).fit(IRIS).costs(IRIS))
