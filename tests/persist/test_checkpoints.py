"""The state of a fit comes back as it was, belongs to one fit, and is one clear error if not."""

import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from tensorae import TAE, Batches, LinearTAE
from tensorae.data.processes import Processes
from tensorae.exceptions import CheckpointError, InvalidParameterError, ModelFileError
from tensorae.persist.checkpoints import KIND, Checkpoint, identity_of
from tensorae.persist.container import Container, FileKind, read_container, write_container

IRIS = load_iris().data
CPU = torch.device("cpu")
IDENTITY = {"class": "Sum", "data": "[3, 2] abc", "n_clusters": 3}


@dataclass
class Counted:
    """A state of a loop, which knows nothing of files."""

    step: int
    asked: int = 0

    def state_dict(self):
        self.asked += 1
        return {"step": self.step, "totals": torch.full((3,), float(self.step))}


@pytest.fixture
def checkpoint(tmp_path):
    """Return a function that makes the checkpoint of the fit anew, as a restart does."""
    return lambda **changes: replace(Checkpoint(tmp_path / "run.ckpt", 0, IDENTITY), **changes)


def step_of(checkpoint):
    state = checkpoint.restore(CPU)
    return None if state is None else state["step"]


# What comes back ------------------------------------------------------------------------------


def test_nested_states_come_back_as_they_were(checkpoint):
    state = {
        "step": 3,
        "module": {"0.weight": torch.arange(6.0).reshape(2, 3), "0.bias": torch.zeros(0)},
        "path": [1.5, float("nan"), float("inf"), -float("inf")],
        "phase": "learn",
        "best": None,
        "settled": False,
        "labels": torch.tensor([1, 0], dtype=torch.int32),
        "0": {"weight": torch.ones(1)},
        "module.0": {"weight": torch.ones(2)},
        "$tensor": "a name like any other",
        "nested": {"$items": [1, (2, 3)]},
    }
    checkpoint().write(state)
    again = checkpoint().restore(CPU)
    assert again.keys() == state.keys()
    for name in ("0.weight", "0.bias"):
        assert torch.equal(again["module"][name], state["module"][name])
    assert torch.equal(again["module.0"]["weight"], torch.ones(2))
    assert again["labels"].dtype == torch.int32
    np.testing.assert_array_equal(again["path"], state["path"])
    assert again["nested"] == {"$items": [1, [2, 3]]}
    for name in ("phase", "best", "settled", "step", "$tensor"):
        assert again[name] == state[name]


def test_what_is_no_json_is_named(checkpoint):
    with pytest.raises(TypeError, match=r"paths\.loss must be a tensor or a JSON value"):
        checkpoint().write({"step": 1, "paths": {"loss": object()}})


# When it is written ---------------------------------------------------------------------------


def test_a_state_is_asked_only_when_it_is_time(checkpoint):
    late, soon = Counted(1), Counted(2)
    assert checkpoint(every=1e9)(late) is None
    assert late.asked == 0
    assert checkpoint()(soon) is None
    assert soon.asked == 1
    assert step_of(checkpoint()) == 2


def test_two_files_take_turns_and_the_newest_comes_back(checkpoint, tmp_path):
    observer = checkpoint()
    for step in range(1, 6):
        observer(Counted(step))
        assert step_of(checkpoint()) == step
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.ckpt", "run.ckpt.other"]
    (tmp_path / "run.ckpt").unlink()
    assert step_of(checkpoint()) == 4


def test_the_same_step_in_both_files_can_be_gone_on_from(checkpoint):
    """A fit that was resumed may write the step it came from, and be killed then."""
    checkpoint()(Counted(3))
    resumed = checkpoint()
    assert step_of(resumed) == 3
    resumed(Counted(3))
    again = checkpoint()
    assert step_of(again) == 3
    again(Counted(4))
    assert step_of(checkpoint()) == 4


def test_going_on_overwrites_the_older_file(checkpoint, tmp_path):
    observer = checkpoint()
    for step in (1, 2, 3):
        observer(Counted(step))
    resumed = checkpoint()
    assert step_of(resumed) == 3
    resumed(Counted(4))
    (tmp_path / "run.ckpt.other").unlink()
    assert step_of(checkpoint()) == 3


def test_nothing_is_left_at_the_end(checkpoint, tmp_path):
    observer = checkpoint()
    observer.seeded(np.random.RandomState(0), fixed=False)
    observer(Counted(1))
    observer(Counted(2))
    observer.remove()
    assert list(tmp_path.iterdir()) == []
    assert checkpoint().restore(CPU) is None


KILLED_WRITERS = """
import os, sys
from tensorae._files import open_atomically
with open_atomically(sys.argv[1]), open_atomically(sys.argv[2]), open_atomically(sys.argv[3]):
    os._exit(0)
"""


def test_a_fit_that_ends_removes_what_killed_writers_have_left(tmp_path):
    file = tmp_path / "c.ckpt"
    files = [file, *(file.with_name(f"c.ckpt.{end}") for end in ("other", "seed"))]
    subprocess.run([sys.executable, "-c", KILLED_WRITERS, *files], check=True)
    assert len(list(tmp_path.glob(".c.*.tmp.*"))) == 3
    LinearTAE(2, 1, latent_penalty=0.1, random_state=0).fit(IRIS, checkpoint=file)
    assert list(tmp_path.iterdir()) == []


# Groups of processes --------------------------------------------------------------------------


@dataclass(frozen=True)
class Told(Processes):
    """One process of a group; what the others would send is told beforehand."""

    rank: int = 0
    size: int = 2
    steps_of_other: tuple[int, int] = (-1, -1)
    seed_of_first: int = 0
    value_of_other: float = 0

    def all_sum(self, tensor):
        tensor[1 - self.rank] = torch.tensor(self.steps_of_other, dtype=tensor.dtype)
        return tensor

    def of_each(self, value, device=None):
        return torch.tensor([value, self.value_of_other], device=device)

    def broadcast(self, *tensors):
        if self.rank:
            tensors[0].fill_(self.seed_of_first)

    def wait(self):
        pass


@pytest.mark.parametrize(
    ("other", "expected"), [((4, 3), 4), ((3, 2), 3), ((5, 4), 4), ((6, 5), None), ((-1, -1), None)]
)
def test_a_group_goes_on_from_the_newest_step_that_all_have(checkpoint, tmp_path, other, expected):
    observer = checkpoint(processes=Told())
    observer(Counted(3))
    observer(Counted(4))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["run.ckpt.0-of-2", "run.ckpt.0-of-2.other"]
    assert step_of(checkpoint(processes=Told(steps_of_other=other))) == expected


def test_all_of_a_group_refuse_where_one_has_other_rows(checkpoint):
    checkpoint(processes=Told(), checksum=lambda: "a")(Counted(3))
    for mine, differs_there in (("a", 0), ("a", 1), ("b", 0)):
        group = Told(steps_of_other=(3, -1), value_of_other=differs_there)
        again = checkpoint(processes=group, checksum=lambda mine=mine: mine)
        if (mine, differs_there) == ("a", 0):
            assert step_of(again) == 3
        else:
            with pytest.raises(InvalidParameterError, match=r"run\.ckpt.* of other data"):
                again.restore(CPU)


def test_a_group_shares_the_seed_of_its_first_process(checkpoint, tmp_path):
    (tmp_path / "run.ckpt.1-of-2.seed").write_text("7")
    second = checkpoint(processes=Told(rank=1, seed_of_first=5))
    drawn = second.seeded(np.random.RandomState(0), fixed=False)
    assert drawn.randint(1000) == np.random.RandomState(5).randint(1000)
    assert (tmp_path / "run.ckpt.1-of-2.seed").read_text() == "5"


# Seeds ----------------------------------------------------------------------------------------


def test_a_seed_file_without_a_seed_is_named(checkpoint, tmp_path):
    (tmp_path / "run.ckpt.seed").write_text("nonsense")
    with pytest.raises(CheckpointError, match=r"run\.ckpt\.seed.*remove the file"):
        checkpoint().seeded(np.random.RandomState(0), fixed=False)


# Of another fit -------------------------------------------------------------------------------


def test_another_fit_hears_the_difference(checkpoint, tmp_path):
    checkpoint()(Counted(3))
    for change, reason in (
        ({"n_clusters": 4}, "n_clusters was 3, now 4"),
        ({"class": "Mean"}, "class was 'Sum', now 'Mean'"),
        ({"tol": 0.1}, "tol was None, now 0.1"),
    ):
        with pytest.raises(InvalidParameterError, match=f"{reason}.*remove the file"):
            checkpoint(identity=IDENTITY | change).restore(CPU)
    with pytest.raises(InvalidParameterError, match="more parameters"):
        checkpoint(identity={"class": "Sum"}).restore(CPU)
    assert (tmp_path / "run.ckpt").exists()


def test_an_identity_has_what_changes_a_fit():
    parameters = LinearTAE(3, 1, random_state=0).get_params(deep=False)
    same = identity_of("LinearTAE", parameters, "data")
    assert identity_of("LinearTAE", parameters | {"verbose": 2, "device": "cpu"}, "data") == same
    for change in ({"n_clusters": 4}, {"init": np.ones((3, 2))}, {"random_state": 1}):
        assert identity_of("LinearTAE", parameters | change, "data") != same
    centres = [
        identity_of("LinearTAE", parameters | {"init": init}, "data")
        for init in (np.ones((3, 2)), [[1.0, 1.0]] * 3, np.zeros((3, 2)))
    ]
    assert centres[0] == centres[1] != centres[2]


# Damaged --------------------------------------------------------------------------------------


def refused(checkpoint, reason):
    with pytest.raises(CheckpointError, match=r"run\.ckpt") as caught:
        checkpoint.restore(CPU)
    assert isinstance(caught.value, ModelFileError)
    message = str(caught.value)
    assert reason in message
    assert "remove the file" in message


def test_a_foreign_or_torn_file_is_to_be_removed(checkpoint, tmp_path):
    file = tmp_path / "run.ckpt"
    file.write_bytes(b"nonsense")
    refused(checkpoint(), "is not a tensorae checkpoint")
    checkpoint()(Counted(3))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    refused(checkpoint(), "truncated")
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refused(checkpoint(), "checksum")


def test_a_checkpoint_of_another_version_is_to_be_removed(checkpoint, tmp_path):
    header = {"identity": IDENTITY, "step": 3, "state": {}}
    for version in (1, 3):
        kind = FileKind("tensorae checkpoint", version)
        write_container(tmp_path / "run.ckpt", kind, Container(header, {}, version))
        with pytest.raises(CheckpointError, match=rf"run\.ckpt.*format version {version}"):
            checkpoint().restore(CPU)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("state"),
        lambda header: header.pop("identity"),
        lambda header: header.pop("step"),
        lambda header: header.update(step="three"),
        lambda header: header.update(step=-1),
        lambda header: header.update(step=True),
        lambda header: header.update(state=None),
        lambda header: header.update(state=[1]),
        lambda header: header["state"].update(totals={"$tensor": "elsewhere"}),
        lambda header: header["state"].update(totals={"$tensor": []}),
        lambda header: header["state"].update(best={"$float": "large"}),
        lambda header: header["state"].update(best={"$items": 3}),
        lambda header: header["state"].update(best={"$items": [[1, 2, 3]]}),
    ],
)
def test_wrong_content_under_a_right_checksum_is_to_be_removed(checkpoint, tmp_path, change):
    checkpoint()(Counted(3))
    file = tmp_path / "run.ckpt"
    content = read_container(file, KIND)
    change(content.header)
    write_container(file, KIND, content)
    refused(checkpoint(), "is damaged or was changed")


@pytest.mark.parametrize(
    "restored",
    [
        lambda state: state["centers"],
        lambda state: state["step"] + state["totals"]["mean"],
        lambda state: torch.nn.Linear(2, 1).load_state_dict(state["totals"]),
        lambda state: torch.ones(2) + state["totals"],
        lambda state: [][state["step"]],
    ],
)
def test_a_state_that_the_loop_cannot_use_is_to_be_removed(checkpoint, restored):
    checkpoint()(Counted(3))
    with pytest.raises(CheckpointError, match=r"run\.ckpt.*remove the file"):
        checkpoint().resume(restored, CPU)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "data"),
    [
        (LinearTAE(3, 1, init=IRIS[:3]), IRIS),
        (LinearTAE(3, 1, init=IRIS[:3]), Batches(IRIS)),
        (LinearTAE(3, 1, init=IRIS[:3], assignment="em"), IRIS),
        (TAE(3, 1, max_epochs=20, random_state=0), IRIS),
    ],
    ids=["linear", "streamed", "soft", "deep"],
)
def test_a_fit_that_misses_a_name_says_what_to_do(model, data, tmp_path, monkeypatch):
    class KilledError(Exception):
        pass

    def kill(self):
        raise KilledError

    file = tmp_path / "run.ckpt"
    with monkeypatch.context() as patch:
        # The second state is due, but the fit does not live to write it.
        patch.setattr(Checkpoint, "due", lambda self: not file.exists() or kill(self))
        with pytest.raises(KilledError):
            model.fit(data, checkpoint=file, checkpoint_every=0)
    content = read_container(file, KIND)
    names = [name for name in content.header["state"] if not name.startswith("optimizer")]
    tried, messages = names[:: max(1, len(names) // 12)], []
    for name in tried:
        left = {key: value for key, value in content.header["state"].items() if key != name}
        changed = replace(content, header=content.header | {"state": left})
        write_container(file, KIND, changed)
        try:
            model.fit(data, checkpoint=file)
        except CheckpointError as error:
            messages.append(str(error))
    # A name or two may say what others say as well.
    assert len(messages) >= len(tried) / 2
    assert all("run.ckpt" in text and "remove the file" in text for text in messages)


def test_a_training_that_was_interrupted_goes_on_from_its_checkpoint(tmp_path):
    path, options = tmp_path / "run.ckpt", {"max_epochs": 8, "random_state": 0}

    def interrupt(epoch):
        if epoch.epoch == 4:
            raise KeyboardInterrupt

    model = TAE(3, 1, callbacks=interrupt, **options)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(IRIS, checkpoint=path, checkpoint_every=0)
    assert path.exists()
    seen = []
    again = TAE(3, 1, callbacks=lambda epoch: seen.append(epoch.epoch), **options)
    again.fit(IRIS, checkpoint=path, checkpoint_every=0)
    assert seen[0] == 4  # the epoch that was interrupted
    assert list(tmp_path.iterdir()) == []
    whole = TAE(3, 1, **options).fit(IRIS)
    np.testing.assert_array_equal(again.transform(IRIS), whole.transform(IRIS))
