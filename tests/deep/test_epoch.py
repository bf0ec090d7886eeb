"""Every epoch is told to the history, to callbacks and, where wanted, in one line."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from torch import nn

from tensorae import TAE
from tensorae.deep.epoch import COLUMNS, Epoch, ProgressReporter, as_columns, from_columns

X = np.random.RandomState(0).randn(40, 3)
EPOCH = Epoch(
    epoch=3,
    n_epochs=9,
    phase="learn",
    loss=1.25,
    held_out_loss=1.5,
    changed=0.125,
    sizes=(7, 12),
    seconds=0.5,
    module=nn.Identity(),
)


def test_the_history_makes_a_table():
    pd = pytest.importorskip("pandas")
    model = TAE(2, 1, max_epochs=10, random_state=0).fit(X)
    table = pd.DataFrame(model.history_)
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == model.n_iter_ == 10
    assert table["epoch"].tolist() == list(range(1, 11))
    assert table["phase"].tolist() == ["learn"] * 2 + ["close"] * 8
    assert table["loss"].notna().all()
    assert (table["sizes"].map(sum) == 40).all()
    assert table["sizes"].map(len).eq(2).all()
    assert (table["seconds"] > 0).all()
    assert table["changed"].between(0, 1).all()
    assert table["held_out_loss"].notna().any()


def after(*epochs):
    """A state of a training, as far as observers look."""
    return SimpleNamespace(history=epochs)


def test_the_history_is_plain_lists_and_comes_back_from_them():
    columns = as_columns([EPOCH])
    assert all(type(values) is list for values in columns.values())
    assert columns["sizes"] == [[7, 12]]
    assert columns["phase"] == ["learn"]
    assert from_columns(columns, EPOCH.n_epochs, EPOCH.module) == (EPOCH,)


def test_an_epoch_is_told_once():
    heard = []
    reporter = ProgressReporter([heard.append])
    for state in (after(), after(EPOCH), after(EPOCH)):
        reporter(state)
    assert heard == [EPOCH]


def test_losses_are_in_units_of_the_data():
    options = {"max_epochs": 20, "random_state": 0}
    small, large = TAE(2, 1, **options).fit(X), TAE(2, 1, **options).fit(100 * X)
    for name in ("loss", "held_out_loss"):
        values, scaled = np.array(small.history_[name]), np.array(large.history_[name])
        np.testing.assert_allclose(scaled, 1e4 * values, rtol=0.01)
    # Near the mean cost of the model that comes out.
    assert small.history_["loss"][-1] == pytest.approx(-small.score(X), rel=0.3)


def test_the_loss_falls():
    losses = TAE(1, 1, max_epochs=60, init="random", random_state=0).fit(X).history_["loss"]
    assert losses[-1] < losses[0]


def test_callbacks_hear_of_every_epoch():
    first, second = [], []
    model = TAE(2, 1, max_epochs=10, callbacks=[first.append, second.append]).fit(X)
    assert [epoch.epoch for epoch in first] == list(range(1, 11))
    assert first == second
    assert {epoch.n_epochs for epoch in first} == {10}
    assert [epoch.loss for epoch in first] == model.history_["loss"]
    assert first[0].module.costs is not None


@pytest.mark.parametrize("last", [1, 3, 9])
def test_a_callback_can_end_the_training(last):
    model = TAE(2, 1, max_epochs=10, callbacks=lambda epoch: epoch.epoch == last).fit(X)
    assert model.n_iter_ == last
    assert model.best_epoch_ <= last
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_every_callback_is_called_even_if_one_ends_the_training():
    heard = []
    reporter = ProgressReporter([lambda epoch: True, heard.append])
    assert reporter(after(EPOCH)) is True
    assert heard == [EPOCH]


@pytest.mark.parametrize(
    "callbacks", [list.append, lambda heard, epoch: heard.append(epoch) or "go on"]
)
def test_one_callback_needs_no_list_and_only_true_ends_the_training(callbacks, capsys):
    heard = []
    model = TAE(2, 1, max_epochs=5, callbacks=lambda epoch: callbacks(heard, epoch)).fit(X)
    assert len(heard) == model.n_iter_ == 5
    assert capsys.readouterr() == ("", "")  # nothing is shown unless asked for


def test_progress_is_one_line_on_standard_error(capsys):
    TAE(2, 1, max_epochs=6, random_state=0, verbose=1).fit(X)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert err.count("\r") == 6
    assert "epoch 6/6 (close)" in err
    assert "loss" in err
    assert "sizes" in err


def test_a_shorter_line_wipes_a_longer_one(capsys):
    reporter = ProgressReporter(verbose=True)
    reporter(after(dataclasses.replace(EPOCH, loss=1.2345e-10)))
    reporter(after(dataclasses.replace(EPOCH, epoch=4, loss=1.0)))
    reporter.close()
    first, second = capsys.readouterr().err.strip("\r\n").split("\r")
    assert len(second) >= len(first)


def test_an_error_in_a_callback_is_not_hidden_and_ends_the_line(capsys):
    def broken(epoch):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        TAE(2, 1, max_epochs=3, verbose=1, callbacks=broken).fit(X)
    assert capsys.readouterr().err.endswith("\n")
