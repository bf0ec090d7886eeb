"""``import tensorae`` is instant: the heavy packages load when an estimator is first used."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "sklearn", "matplotlib", "scipy", "pandas", "plotly")


def run(program: str) -> str:
    # A fresh interpreter: this one has imported everything already.
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["tensorae", "tensorae.exceptions", "tensorae.photos"])
def test_import_loads_nothing_heavy(module):
    program = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    assert run(program).strip() == "[]"


def test_estimators_load_on_first_use():
    program = (
        "import sys, tensorae; before = 'torch' in sys.modules; tensorae.LinearTAE; "
        "print(before, 'torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    assert run(program).split() == ["False", "True", "False"]


def test_an_estimator_of_arrays_loads_no_files_networks_or_reports():
    program = (
        "import sys; from tensorae import LinearTAE; "
        "print(*(name for name in sys.modules if name.startswith('tensorae')))"
    )
    loaded = run(program).split()
    assert len(loaded) < 60
    assert not {f"tensorae.{name}" for name in ("persist", "deep", "report", "plot")} & set(loaded)


def test_public_names_are_listed_and_exist():
    import tensorae

    assert "LinearTAE" in tensorae.__all__
    assert set(tensorae.__all__) <= set(dir(tensorae))
    for name in tensorae.__all__:
        assert getattr(tensorae, name) is not None
    assert tensorae.LinearTAE is tensorae.LinearTAE


def test_a_name_that_does_not_exist_is_an_attribute_error():
    import tensorae

    with pytest.raises(AttributeError, match="no attribute 'LinearTEA'"):
        _ = tensorae.LinearTEA
