"""What is built holds all that is needed, and works beside the base dependencies alone."""

import csv
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tensorae

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED_TO_TEST = (
    "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "constraints.txt",
    "docs/conf.py", "pyproject.toml",
)  # fmt: skip


def run(*command, **options):
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True, text=True, check=False, env=environment, **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def below(folder):
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def packages_needed(requirements):
    """All that pip would install for these requirements."""
    found, waiting = {}, [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        extras = {""} | wanted.extras
        if wanted.marker and not any(wanted.marker.evaluate({"extra": one}) for one in extras):
            continue
        package = distribution(wanted.name)
        if package.name not in found:
            found[package.name] = package
            waiting += [
                one
                for one in map(Requirement, package.requires or ())
                if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    return list(found.values())


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The folder of commands of an environment with the wheel and the base dependencies alone."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    commands = home / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", home)
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel)
    (site,) = home.glob("[Ll]ib/**/site-packages")
    for package in packages_needed(PROJECT["dependencies"]):
        for name in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(package.locate_file(name))
    return commands


def test_the_wheel_holds_every_file_of_the_package(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {f"src/{name}" for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == below("src")
    assert any(name.endswith(".css") for name in packed)
    assert not [name for name in packed if "paper" in name or "experiments" in name]


def test_the_sdist_holds_what_it_takes_to_test_it(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed >= below("src") | below("tests") | below("paper") | set(NEEDED_TO_TEST)


def test_one_version_everywhere(built):
    names = sorted(path.name for path in built.iterdir() if path.suffix in (".whl", ".gz"))
    version = tensorae.__version__
    assert names == [f"tensorae-{version}-py3-none-any.whl", f"tensorae-{version}.tar.gz"]
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == version
    assert re.search(r"^## \[(\d.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version


def test_the_installed_command_works_without_any_extra(installed, tmp_path):
    rows = [(x // 2, x // 2 + (x % 7) / 9 + 90 * (x % 2)) for x in range(60)]
    with (tmp_path / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("width", "height"), *rows])
    command = installed / "tensorae"
    assert run(command, "--version").split() == ["tensorae", tensorae.__version__]
    run(command, "fit", "data.csv", "-k", 2, "-o", "model.tae", cwd=tmp_path)
    run(command, "predict", "model.tae", "data.csv", "-o", "labels.csv", cwd=tmp_path)
    with (tmp_path / "labels.csv").open() as file:
        labels = [row["cluster"] for row in csv.DictReader(file)]
    assert len(set(labels[::2])) == len(set(labels[1::2])) == 1
    assert labels[0] != labels[1]


WITHOUT_EXTRAS = """
import numpy as np, tensorae
from tensorae.data import find_files, read_images
from tensorae.exceptions import MissingDependencyError

X = np.vstack([np.random.RandomState(0).randn(30, 3), 9 + np.random.RandomState(1).randn(30, 3)])
gaps = np.where(np.random.RandomState(2).rand(*X.shape) < 0.1, np.nan, X)
for model in (
    tensorae.LinearTAE(2, random_state=0).fit(gaps),
    tensorae.TAE(2, latent_dim=1, max_epochs=2, random_state=0).fit(X),
):
    model.save("model.tae")
    assert np.array_equal(tensorae.load("model.tae").predict(X), model.predict(X))
    assert "<script" in model.report(X, "page.html").read_text()
assert np.isfinite(tensorae.ImputerTAE(random_state=0).fit_transform(gaps)).all()
assert set(tensorae.OutlierTAE(random_state=0).fit(X).predict(X)) <= {1, -1}
assert tensorae.photos.denoise(np.zeros((16, 16)), noise=0.1).shape == (16, 16)
assert tensorae.datasets.lines_3d()[0].shape == (300, 6)

for extra, use in {
    "plots": lambda: model.plot(X),
    "manifold": lambda: tensorae.embed(X),
    "datasets": tensorae.datasets.load_penguins,
    "photos": lambda: read_images(find_files(["picture.png"])),
}.items():
    try:
        use()
    except MissingDependencyError as error:
        assert f'pip install "tensorae[{extra}]"' in str(error), error
    else:
        raise AssertionError(f"{extra} is no extra here")
try:
    tensorae.inspect.describe(tensorae.LinearTAE(2).fit(X), X).to_frame()
except MissingDependencyError as error:
    assert str(error).endswith("pip install pandas"), error
print(tensorae.__file__)
"""


def test_the_installed_package_works_without_any_extra_or_says_which(installed, tmp_path):
    (tmp_path / "picture.png").write_bytes(b"no picture, but nothing here could tell")
    where = run(installed / "python", "-W", "error", "-c", WITHOUT_EXTRAS, cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
