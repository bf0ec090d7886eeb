"""A file that is not a whole model of this version gets one clear error, and runs no code."""

import copy
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tensorae import LinearTAE, OutlierTAE, load
from tensorae.exceptions import (
    FileWriteError,
    InvalidParameterError,
    ModelFileError,
    TensoraeError,
)
from tensorae.persist import read_header
from tensorae.persist.container import Container, read_container, write_container
from tensorae.persist.models import KIND


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.tae"


@pytest.fixture
def unsynced(monkeypatch):
    """Hundreds of files that need not survive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def refused(path, match=""):
    """Check that both readers say the same one sentence, and return it."""
    messages = []
    for reader in (load, read_header):
        with pytest.raises(ModelFileError, match=match) as caught:
            reader(path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "model.tae" in messages[0]
    assert ";" in messages[0]  # a remedy follows
    return messages[0]


# Foreign --------------------------------------------------------------------------------------


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trapped",)


def as_torch(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def as_npz():
    buffer = io.BytesIO()
    np.savez(buffer, labels_=np.arange(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        b"\0" * 100,
        b"\xff" * 100,
        b"species,length\nAdelie,39.1\n" * 100,
        pickle.dumps(Trap()),
        as_torch({"a": torch.zeros(3)}),
        as_npz(),
        (2).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (10**15).to_bytes(8, "little") + b"{}",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
    ids=["empty", "short", "zeros", "ones", "text", "pickle", "torch", "npz", "nothing", "list",
         "lying length", "deep"],
)  # fmt: skip
def test_a_foreign_file_gets_one_sentence(path, content, monkeypatch):
    monkeypatch.chdir(path.parent)
    path.write_bytes(content)
    refused(path, "is not a tensorae model")
    assert [entry.name for entry in path.parent.iterdir()] == ["model.tae"]


def test_other_safetensors_are_told_apart(path):
    save_file({"a": torch.zeros(3)}, path)
    refused(path, "another safetensors file")
    save_file({"a": torch.zeros(3)}, path, metadata={"format": "pt"})
    refused(path, "another safetensors file")


def test_a_folder_and_a_missing_file_are_named(path):
    with pytest.raises(FileNotFoundError, match=r"model.tae' does not exist; check the path"):
        load(path)
    refused(path, "does not exist")
    refused(path / "below", "does not exist")
    path.mkdir()
    refused(path, "must be a file, got a folder")


def test_a_header_that_promises_too_much_takes_no_memory(path):
    # Ten terabytes of centres, in a file of a few hundred bytes.
    entry = {"dtype": "F64", "shape": [10**9, 1250], "data_offsets": [0, 10**13]}
    header = json.dumps({"cluster_centers_": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(path, "is not a tensorae model")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


# Of another version ---------------------------------------------------------------------------


def with_entries(source, target, **changes):
    """Copy a file with other metadata; None leaves an entry out."""
    with safe_open(source, framework="pt") as file:
        entries = {**file.metadata(), **changes}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, target, {key: text for key, text in entries.items() if text is not None})


def test_a_newer_version_asks_for_an_update(linear, path):
    linear.save(path)
    with_entries(path, path, format_version="2", header="something new")
    refused(path, "format version 2, .*reads version 1; update tensorae")


@pytest.mark.parametrize("version", ["", "0", "-1", "one", "1.5", "²", "9" * 5000, None])
def test_a_version_that_is_none_is_damage(linear, path, version):
    linear.save(path)
    with_entries(path, path, format_version=version)
    refused(path, "is damaged")


# Damaged --------------------------------------------------------------------------------------


def test_a_truncated_file_is_refused_wherever_it_ends(linear, path):
    linear.save(path)
    data = path.read_bytes()
    for length in [*range(0, 20), *range(20, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:length])
        refused(path, "truncated")
    path.write_bytes(data + b"\0")
    refused(path, "truncated")


@pytest.mark.parametrize("name", ["linear_lloyd", "tae_single"])
def test_a_flipped_bit_is_found_or_changes_nothing(models, path, name):
    model, X = models[name]
    model.save(path)
    data = path.read_bytes()
    start = int.from_bytes(data[:8], "little") + 8
    rng = np.random.RandomState(0)
    places = np.concatenate([np.arange(8), rng.randint(start, size=300),
                             rng.randint(start, len(data), size=60)])  # fmt: skip
    expected, harmless = model.costs(X), 0
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randint(8)
        path.write_bytes(changed)
        try:
            again = load(path)
        except ModelFileError:
            continue
        harmless += 1
        assert np.array_equal(again.costs(X), expected)
    assert harmless < 30  # padding of the header, at most


# Changed on purpose, with a checksum that fits ------------------------------------------------


def rewritten(model, path, change):
    """Save, let ``change(header, tensors)`` edit the content, and sign it anew."""
    model.save(path)
    content = read_container(path, KIND)
    header, tensors = copy.deepcopy(content.header), dict(content.tensors)
    change(header, tensors)
    write_container(path, KIND, Container(header, tensors, content.version))


def tensor_set(name, edit):
    def change(header, tensors):
        tensors[name] = edit(tensors[name].clone())

    return change


def header_set(*keys, value):
    def change(header, tensors):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


def column_set(name, column):
    """Give what was compared another column; None leaves it out."""

    def change(header, tensors):
        table = dict(header["details"]["comparison"]) | {name: column}
        pairs = [[name, column] for name, column in table.items() if column is not None]
        header["details"]["comparison"] = pairs

    return change


def spoiled(tensor):
    tensor.view(-1)[0] = float("nan")
    return tensor


LINEAR_EDITS = {
    f"{name} negative": (tensor_set(name, torch.neg), name.rpartition(".")[2])
    for name in (
        "weights_", "noise_variance_", "explained_variance_", "latent_penalty_", "n_iter_",
        "moments.counts", "moments.scatters", "cluster_sizes_", "latent_dims_",
    )
} | {
    f"{name} NaN": (tensor_set(name, spoiled), f"{name} contains NaN")
    for name in (
        "cluster_centers_", "components_", "weights_", "noise_variance_",
    )
} | {
    "centres missing": (lambda h, t: t.pop("cluster_centers_"), "cluster_centers_ is missing"),
    "moments missing": (lambda h, t: t.pop("moments.counts"), "counts is missing"),
    "moments of fewer features": (
        lambda h, t: t.update({
            "moments.centers": t["moments.centers"][:, :4],
            "moments.scatters": t["moments.scatters"][:, :4, :4]}),
        r"centers must have shape \(3, 5\), got \(3, 4\)"),
    "all tensors missing": (lambda h, t: t.clear(), "is missing"),
    "centres transposed": (
        tensor_set("cluster_centers_", lambda c: c.T), r"\(3, 3\), got \(5, 3\)"),
    "centres flat": (tensor_set("cluster_centers_", torch.flatten), "cluster_centers_ must have"),
    "centres whole": (tensor_set("cluster_centers_", torch.Tensor.long), "cluster_centers_ must"),
    "labels too large": (tensor_set("labels_", lambda labels: labels + 1), "between 0 and 2"),
    "labels negative": (tensor_set("labels_", lambda labels: labels - 1), "between 0 and 2"),
    "n_iter as a list": (tensor_set("n_iter_", lambda n: n[None]), "n_iter_ must have shape"),
    "n_clusters": (header_set("parameters", "n_clusters", value=4), r"\(4, 5\), got \(3, 5\)"),
    "n_clusters huge": (header_set("parameters", "n_clusters", value=10**15), "must have shape"),
    "n_clusters text": (header_set("parameters", "n_clusters", value="3"), "n_clusters must"),
    "n_clusters gone": (lambda h, t: h["parameters"].pop("n_clusters"), "cluster_centers_"),
    "latent_dim": (header_set("parameters", "latent_dim", value=1), "components_ must have"),
    "bad parameter": (header_set("parameters", "tol", value=[1]), "tol must be"),
    "bad batch size": (header_set("parameters", "batch_size", value=0), "batch_size must be"),
    "unknown parameter": (header_set("parameters", "spin", value=1), "no parameters spin"),
    "parameters gone": (lambda h, t: h.pop("parameters"), "parameters is missing"),
    "callbacks": (header_set("parameters", "callbacks", value="os.system"), "callbacks"),
    "init without tensor": (
        header_set("parameters", "init", value={"tensor": "init"}), "init must be"),
    "class unknown": (header_set("class", value="os.system"), "class must be LinearTAE"),
    "class of the other": (header_set("class", value="TAE"), "no parameters"),
    "names too few": (header_set("feature_names", value=["a"]), "feature_names"),
    "names no text": (header_set("feature_names", value=[1] * 5), "feature_names must be str"),
    "training gone": (lambda h, t: h.pop("training"), "training is missing"),
    "rows negative": (header_set("training", "n_samples", value=-1), "training.n_samples"),
    "members negative": (header_set("training", "cluster_sizes", value=[3, -1]), "cluster_sizes"),
    "members gone": (header_set("training", "cluster_sizes", value=None), "cluster_sizes"),
    "loss text": (header_set("training", "loss", value="low"), "training.loss"),
    "weights too many": (tensor_set("weights_", torch.ones_like), "weights_ must sum to one"),
    "share of two": (tensor_set("explained_variance_ratio_", lambda r: r + 1), "between 0 and 1"),
    "components doubled": (tensor_set("components_", lambda c: 2 * c), "components_ must"),
    "components alike": (
        tensor_set("components_", lambda c: c[:, :1].repeat(1, 2, 1)), "components_ must"),
    "weights zero": (tensor_set("weights_", torch.zeros_like), "weights_ must sum to one"),
    "centres too far": (
        tensor_set("cluster_centers_", lambda c: c * 1e200), "between -1e\\+140 and 1e\\+140"),
    "penalty zero": (tensor_set("latent_penalty_", torch.zeros_like), "give no density"),
    "variances too large": (tensor_set("noise_variance_", lambda v: v * 1e307), "1e\\+305"),
    "counts zero": (tensor_set("moments.counts", torch.zeros_like), "sums of weights"),
    "counts of others": (
        tensor_set("moments.counts", lambda c: c * torch.tensor([1, 2, 3])), "must be those of"),
    "sums of others": (tensor_set("moments.centers", lambda c: c + 9), "must be those of"),
    "scatters huge": (tensor_set("moments.scatters", lambda s: s * 1e306), "scatters"),
    "products huge": (
        tensor_set("moments.scatters", lambda s: s + 1e9 * (1 - torch.eye(5))),
        "no larger than their squares"),
    "number without end": (
        header_set("parameters", "tol", value=10**400), "tol must be"),
    "init without end": (header_set("parameters", "init", value=[10**400]), "init must be a name"),
    "sizes too small": (tensor_set("cluster_sizes_", torch.zeros_like), "cluster_sizes_"),
    "preprocessing": (header_set("preprocessing", value=[1]), "preprocessing must be dict"),
    "spread unknown": (header_set("details", "spread", value="wide"), "spread must be"),
    "spread a list": (header_set("details", "spread", value=[]), "spread must be"),
    "components too many": (tensor_set("latent_dims_", lambda h: h + 1), "must be at most 2"),
    "components of one": (tensor_set("latent_dims_", lambda h: h[:1]), "must have shape"),
    "reason a number": (header_set("details", "reason", value=3), "reason must be str"),
    "reason too long": (header_set("details", "reason", value="a" * 9999), "reason must have"),
    "spread in words": (header_set("training", "spread", value=3), "training.spread"),
    "dims in words": (header_set("training", "latent_dims", value=["a"]), "training.latent_dims"),
}  # fmt: skip
OWN_EDITS = {
    "no noise": (tensor_set("noise_variance_", torch.zeros_like), "noise_variance_ must be above"),
    "flat": (tensor_set("explained_variance_", torch.zeros_like), "explained_variance"),
    "comparison a list": (header_set("details", "comparison", value=[1]), "comparison must"),
    "comparison a dict": (header_set("details", "comparison", value={"a": 1}), "comparison must"),
    "comparison of numbers": (header_set("details", "comparison", value=[["a", 1]]), "pairs"),
    "comparison of lists": (column_set("cut", [[1]]), "hold numbers and text"),
    "column gone": (column_set("icl", None), "comparison.icl is missing"),
    "column of text": (column_set("icl", ["a"]), "comparison.icl must"),
    "column of booleans": (column_set("n_clusters", [True]), "comparison.n_clusters must"),
    "column too short": (column_set("icl", [1.0]), "same length"),
    "none chosen": (column_set("chosen", [False] * 2), "one chosen row"),
    "other numbers": (header_set("parameters", "n_clusters", value=[7, 8]), "n_clusters"),
    "numbers of text": (header_set("parameters", "n_clusters", value=[2, "4"]), "n_clusters"),
    "no numbers": (header_set("parameters", "n_clusters", value=[]), "n_clusters"),
}  # fmt: skip
DEEP_EDITS = {
    "weights missing": (
        lambda h, t: t.pop("module.autoencoders.1.encoder_path"), "weights of 2 autoencoders"),
    "weights renamed": (
        lambda h, t: t.update({"module.more": t.pop("module.autoencoders.1.encoder_path")}),
        "encoder_path is missing"),
    "weights of another shape": (
        tensor_set("module.autoencoders.0.encoder_path", lambda w: w.T.contiguous()),
        r"must have shape \(2, 5\)"),
    "weights of another type": (
        tensor_set("module.autoencoders.0.encoder_path", torch.Tensor.double),
        "type torch.float32"),
    "weights changed": (
        tensor_set("module.autoencoders.0.encoder_path", torch.zeros_like), "do not compute what"),
    "module centres NaN": (tensor_set("module.centers", spoiled), "centers contains NaN"),
    "scale NaN": (tensor_set("module.scale", spoiled), "scale contains NaN"),
    "scale zero": (tensor_set("module.scale", torch.zeros_like), "must be above zero"),
    "codes turned": (tensor_set("module.code_scales", torch.neg), "must be above zero"),
    "penalty of two": (tensor_set("module.latent_penalty", lambda p: p + 2), "between 0 and 1"),
    "weights NaN": (
        lambda h, t: (t.pop("sample_costs"), spoiled(t["module.autoencoders.0.encoder_path"])),
        "encoder_path contains NaN"),
    "noise NaN": (tensor_set("_noise_variance", spoiled), "_noise_variance contains NaN"),
    "noise negative": (tensor_set("_noise_variance", torch.neg), "must not be negative"),
    "best epoch": (tensor_set("best_epoch_", lambda epoch: epoch - 99), "best_epoch_ must be"),
    "sizes of epochs": (tensor_set("history.sizes", torch.neg), "sizes must be between 0"),
    "blend without unit": (tensor_set("blend.unit", torch.zeros_like), "unit must be between"),
    "blend of negative noise": (
        tensor_set("blend.noise_variance", torch.neg), "noise_variance must be between 0"),
    "blend of negative counts": (
        tensor_set("blend.denoiser.counts", torch.neg), "counts must be between 0"),
    "architecture": (header_set("parameters", "architecture", value="linear"), "weights of 2"),
    "architecture conv": (header_set("parameters", "architecture", value="conv"), "needs images"),
    "architecture unknown": (
        header_set("parameters", "architecture", value="os.system"), "architecture must be one of"),
    "architecture vae": (header_set("parameters", "architecture", value="vae"), "weights of 2"),
    "sharing": (header_set("parameters", "sharing", value="layers"), "weights of 2"),
    "sharing unknown": (header_set("parameters", "sharing", value="all"), "sharing must be one of"),
    "sharing of nothing": (
        lambda h, t: h["parameters"].update(sharing="layers", architecture="linear"),
        "none around its code"),
    "noise of plain codes": (
        lambda h, t: t.update({"module.noise_variance": torch.ones(())}), "weights of 2"),
    "input_shape": (header_set("details", "input_shape", value=[2, 3]), "input_shape must"),
    "input_shape gone": (lambda h, t: h["details"].pop("input_shape"), "input_shape is missing"),
    "sample_shape": (header_set("details", "sample_shape", value=[1, 5]), "does not fit image"),
    "phases": (header_set("details", "phases", value=["learn"]), "2 epochs, but 1 phases"),
    "phases gone": (lambda h, t: h["details"].pop("phases"), "phases is missing"),
    "history": (tensor_set("history.sizes", lambda s: s[:, :1]), "sizes must have shape"),
    "blend halved": (tensor_set("blend.weights", lambda w: w[:1]), "weights must have shape"),
    "blend NaN": (tensor_set("blend.weights", spoiled), "weights contains NaN"),
    "blend too wide": (
        lambda h, t: t.update({
            "blend.denoiser.basis": torch.zeros(5, 6).double(),
            "blend.denoiser.covariances": torch.zeros(2, 6, 6).double()}),
        "6 directions"),
}  # fmt: skip


VARIATIONAL_EDITS = {
    "noise zero": (tensor_set("module.noise_variance", torch.zeros_like), "must be above zero"),
    "noise NaN": (tensor_set("module.noise_variance", spoiled), "noise_variance contains NaN"),
    "noise gone": (lambda h, t: t.pop("module.noise_variance"), "weights of 2 autoencoders"),
    "not shared": (header_set("parameters", "sharing", value="none"), "weights of 2 autoencoders"),
    "a shared layer gone": (
        lambda h, t: t.pop("module.autoencoders.0.encoder.0.weight"), "weights of 2 autoencoders"),
}  # fmt: skip


OUTLIER_EDITS = {
    "no noise": (tensor_set("member0.noise_variance", lambda t: t * 0), "member0.noise_variance"),
    "centers NaN": (tensor_set("member0.centers", spoiled), "member0.centers contains NaN"),
    "columns": (tensor_set("member1.columns", lambda t: t + 3), "member1.columns"),
    "latent_dims": (tensor_set("member0.latent_dims", lambda t: t + 9), "latent_dims"),
    "weights": (tensor_set("member0.weights", lambda t: t * 0), "member0.weights"),
    "components": (tensor_set("member1.components", lambda t: t * 2), "member1.components"),
    "decreasing": (tensor_set("calibration.ordinary", lambda t: t.flip(0)), "calibration.ordinary"),
    "no decay": (tensor_set("calibration.decay", lambda t: t * 0), "calibration.decay"),
    "unit": (tensor_set("unit", lambda t: t[:2]), "unit must have shape"),
    "tiny unit": (tensor_set("unit", lambda t: t * 1e-300), "unit must be above"),
    "shift": (tensor_set("shift", lambda t: t + 1e200), "shift must be between"),
    "a model gone": (
        lambda h, t: [t.pop(name) for name in list(t) if name.startswith("member1.")],
        "it must have 6 members"),
    "reference gone": (lambda h, t: t.pop("reference.components_"), "reference.components_"),
    "details gone": (lambda h, t: h["details"].clear(), "reference is missing"),
}  # fmt: skip
EDITS = {
    "linear_lloyd": LINEAR_EDITS,
    "chosen": OWN_EDITS,
    "tae_single": DEEP_EDITS,
    "tae_vae_shared": VARIATIONAL_EDITS,
    "outliers": OUTLIER_EDITS,
}


@pytest.fixture(scope="session")
def edited_models(models):
    """Name -> fitted model."""
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.randn(60, 3) * size + place for size, place in ((1, 0), (3, 30))])
    fitted = {name: models[name][0] for name in EDITS if name in models}
    fitted["chosen"] = LinearTAE((2, 3), 1, spread="own", random_state=0).fit(X)
    fitted["outliers"] = OutlierTAE(n_estimators=2, random_state=0).fit(X)
    return fitted


@pytest.mark.parametrize(("name", "edit"), [(name, edit) for name in EDITS for edit in EDITS[name]])
def test_an_edited_model_is_refused(edited_models, path, unsynced, name, edit):
    change, reason = EDITS[name][edit]
    rewritten(edited_models[name], path, change)
    with pytest.raises(
        ModelFileError, match=rf"(?s)model.tae' is damaged or was changed.*{reason}"
    ):
        load(path)


def test_a_parameter_that_is_missing_is_as_it_is_by_default(edited_models, path):
    rewritten(edited_models["outliers"], path, lambda h, t: h["parameters"].pop("n_clusters"))
    assert load(path).n_clusters == OutlierTAE().n_clusters


VALUES = [None, True, 0, -1, 3, 2.5, 10**30, "", "auto", "mlp", [], [1], {}, {"a": 1},
          {"custom": 1}, {"tensor": "labels_"}]  # fmt: skip


@pytest.mark.parametrize("name", ["linear_lloyd", "linear_chosen", "tae_single"])
def test_any_edit_of_the_header_is_refused_or_gives_a_model_that_works(
    models, path, name, unsynced
):
    model, X = models[name]
    model.save(path)
    content = read_container(path, KIND)
    places = [(key,) for key in content.header] + [
        (key, inner) for key in ("parameters", "details") for inner in content.header[key]
    ]
    for place in places:
        for value in VALUES:
            header = copy.deepcopy(content.header)
            header_set(*place, value=value)(header, {})
            write_container(path, KIND, Container(header, content.tensors, content.version))
            try:
                again = load(path)
            except (ModelFileError, InvalidParameterError):  # an own architecture is asked for
                continue
            # Rows that come in chunks of another size are multiplied in another order.
            np.testing.assert_allclose(
                again.costs(X), model.costs(X), rtol=1e-9, err_msg=f"{place} = {value}"
            )


def test_a_tensor_of_the_wrong_shape_never_escapes_as_another_error(models, path, unsynced):
    for name in ("linear_wide", "linear_large", "tae_conv"):
        model, X = models[name]
        model.save(path)
        content = read_container(path, KIND)
        for key, tensor in content.tensors.items():
            for edit in (
                tensor[None],
                tensor.reshape(-1)[:-1],
                torch.cat([tensor.reshape(-1)] * 2),
            ):
                tensors = {**content.tensors, key: edit.contiguous()}
                write_container(path, KIND, Container(content.header, tensors, content.version))
                try:
                    load(path).predict(X)
                except ModelFileError:
                    continue
                # Paths and histories have lengths of their own.
                assert key.endswith("_path_") or key == "labels_", key


# Nothing is lost ------------------------------------------------------------------------------


def test_a_save_that_fails_leaves_the_old_model(linear, deep, path, monkeypatch):
    linear.save(path)
    before = path.read_bytes()
    broken = copy.copy(deep)
    broken.cluster_centers_ = np.full_like(deep.cluster_centers_, np.nan)
    with pytest.raises(ModelFileError, match="cluster_centers_ contains NaN"):
        broken.save(path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(TensoraeError, match="the disk is full"):
        deep.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["model.tae"]


SAVER = """
import os, sys
from pathlib import Path
from tensorae._files import write_atomically
os.fsync = lambda descriptor: None
path, *models = map(Path, sys.argv[1:])
contents = [model.read_bytes() for model in models]
write_atomically(path, contents[0])
print("ready", flush=True)
while True:
    for content in contents:
        write_atomically(path, content)
"""


def test_a_model_can_be_loaded_while_another_process_saves_it(models, path):
    sources = [path.with_name(f"{number}.tae") for number in range(2)]
    for name, source in zip(("linear_lloyd", "linear_wide"), sources, strict=True):
        models[name][0].save(source)
    with subprocess.Popen(
        [sys.executable, "-c", SAVER, path, *sources], stdout=subprocess.PIPE
    ) as saver:
        try:
            saver.stdout.readline()
            seen, end = set(), time.monotonic() + 1.5
            while time.monotonic() < end or (len(seen) < 2 and saver.poll() is None):
                seen.add(load(path).n_features_in_)
        finally:
            saver.kill()
    assert seen == {5, 600}


def test_a_name_that_no_file_can_have_gets_one_sentence(linear):
    with pytest.raises(FileWriteError, match=r"invalid file name .*choose another"):
        linear.save("model\0.tae")
    refused("model.tae\0", "not a valid path")


def test_a_header_that_could_not_be_read_is_not_written(linear, path):
    with pytest.raises(ModelFileError, match="header must stay below 40,000,000 bytes"):
        linear.save(path, preprocessing={"notes": "x" * 40_000_000})
    assert not path.exists()
