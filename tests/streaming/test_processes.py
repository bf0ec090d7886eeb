"""Several processes come to the result of one."""

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

# Seven processes fit nearly thirty models, once for every worker of a parallel run.
pytestmark = pytest.mark.quality


@pytest.fixture(scope="module")
def results(start, tmp_path_factory):
    """What one, two and four processes found: labels joined, the rest of the first process."""
    found = {}
    for size in (1, 2, 4):
        folder = tmp_path_factory.mktemp(f"processes{size}")
        group = [start("fit_share", rank, size, str(folder)) for rank in range(size)]
        for process in group:
            process.join(timeout=300)
        assert [process.exitcode for process in group] == [0] * size
        ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]
        for one in ranks[1:]:
            for name, model in one.items():
                assert model["loss"] == ranks[0][name]["loss"], "processes disagree"
        for name, model in ranks[0].items():
            model["labels"] = [label for one in ranks for label in one[name]["labels"]]
        found[size] = ranks[0]
    return found


LINEAR = [
    "iris", "em", "auto", "sampled", "own", "all auto, sampled", "counted",
    "single precision", "centres", "empty clusters", "gaps", "gaps, hard",
    "categories", "categories, sampled",
]  # fmt: skip


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", LINEAR)
def test_linear_fits_of_several_processes_equal_that_of_one(results, name, size):
    one, many = results[1][name], results[size][name]
    precision = 1e-4 if name == "single precision" else 1e-8
    np.testing.assert_array_equal(many["labels"], one["labels"])
    np.testing.assert_allclose(many["loss"], one["loss"], rtol=precision, atol=1e-12)
    np.testing.assert_allclose(many["centers"], one["centers"], rtol=precision, atol=1e-9)
    np.testing.assert_allclose(many["components"], one["components"], atol=precision)


# A start from neighbourhoods takes long, so that no group of four makes one.
@pytest.mark.parametrize(
    ("name", "size"),
    [("deep", 2), ("deep", 4), ("shared", 2), ("shared", 4), ("manifold", 2)],
)
def test_deep_fits_of_several_processes_reach_the_loss_of_one(results, name, size):
    assert results[size][name]["loss"] == pytest.approx(results[1][name]["loss"], rel=0.01)
    # Clusters of nearly the same size may change places.
    labels = (results[many][name]["labels"] for many in (size, 1))
    assert adjusted_rand_score(*labels) > 0.95


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("small deep", 2),
        ("small deep", 4),
        ("small shared", 2),
        ("small shared", 4),
        ("small manifold", 2),
    ],
)
def test_rows_that_fit_in_memory_give_the_same_model(results, name, size):
    one, many = results[1][name], results[size][name]
    np.testing.assert_array_equal(many["labels"], one["labels"])
    assert many["loss"] == pytest.approx(one["loss"], rel=1e-4)


@pytest.mark.quality
@pytest.mark.parametrize("size", [1, 2])
def test_rings_are_found_by_any_number_of_processes(results, size):
    labels = np.array(results[size]["manifold"]["labels"])
    assert adjusted_rand_score(np.arange(1500) < 750, labels) > 0.98
