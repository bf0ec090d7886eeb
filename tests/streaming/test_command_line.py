"""Files larger than memory at the command line, by one process or several, killed or not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensorae import Batches, LinearTAE, load
from tensorae.cli import main
from tensorae.persist import read_header

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

K, H = 3, 1
WORKERS = Path(__file__).with_name("workers.py")
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three part files of uneven size, and all their rows."""
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=5000)
    X = 4 * rng.normal(size=(K, 4))[y] + rng.normal(size=(5000, 1)) * rng.normal(size=(K, 4))[y]
    X = X + 0.2 * rng.normal(size=X.shape)
    for number, part in enumerate(np.split(X, [100, 3000])):
        table = pyarrow.table({f"x{i}": part[:, i] for i in range(4)})
        parquet.write_table(table, folder / f"part-{number}.parquet", row_group_size=700)
    return folder, X


def run(arguments, **options):
    return subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        **options,
    )


@pytest.mark.quality
def test_two_processes_write_the_model_of_one(files, tmp_path, capsys):
    folder, X = files
    output = tmp_path / "model.tae"
    done = run(
        [*LAUNCH, "-m", "tensorae", "fit", str(folder), "-k", "3", "-l", "1", "-o", str(output)]
    )
    assert done.returncode == 0, done.stderr
    assert "by 2 processes" in done.stdout
    assert done.stdout.count("loss") == 1
    expected = LinearTAE(K, H, random_state=0, latent_penalty=0.1).fit(X)
    np.testing.assert_array_equal(load(output).predict(Batches(folder)), expected.labels_)
    # The file is of the first process, but speaks of the rows of both.
    with pytest.raises(SystemExit):
        main(["info", str(output), "--json"])
    told, sizes = json.loads(capsys.readouterr().out), np.bincount(expected.labels_).tolist()
    assert told["training"]["n_samples"] == 5000
    assert told["training"]["cluster_sizes"] == sizes
    assert [cluster["size"] for cluster in told["clusters"]] == sizes


@pytest.mark.quality  # torchrun starts four processes that load torch: eighteen seconds
def test_a_killed_process_leads_to_a_restart_from_the_checkpoint(files, tmp_path):
    folder, _ = files
    output = tmp_path / "model.tae"
    done = run([*LAUNCH, "--max-restarts", "1", WORKERS, "fit_and_die_once", folder, output])
    assert done.returncode == 0, done.stderr[-6000:]
    assert (tmp_path / "model.tae.died").exists()
    model = load(output)
    assert model.history_["epoch"] == [1, 2, 3, 4, 5, 6]
    sizes = np.bincount(model.predict(Batches(folder)), minlength=3)
    assert sizes.min() > 0
    assert read_header(output)["training"]["cluster_sizes"] == sizes.tolist()
    assert not list(tmp_path.glob("*.ckpt*"))
