"""Ten tables as people have them, with what a first look should find in each.

Two come with packages, eight are generated, so that nothing has to be downloaded.
"""

# n rows, k groups

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray
Frame = pd.DataFrame


@dataclass(frozen=True, eq=False)
class KnownTable:
    """A table and its known answer."""

    name: str
    frame: Frame
    groups: Array  # (n,), one number where there are none
    used: frozenset[str]  # columns that must be part of the fit
    out: frozenset[str]  # columns that must not be
    n_clusters: tuple[int, int]  # least and most groups that are right
    options: dict[str, Any] = field(default_factory=dict)
    ari: float = 0.9


def known_tables(seed: int = 0) -> list[KnownTable]:
    """All ten."""
    return [make(seed) for make in TABLES]


def penguins(seed: int) -> KnownTable:  # noqa: ARG001
    from palmerpenguins import load_penguins

    frame = load_penguins()
    measured = [name for name in frame if name.endswith(("_mm", "_g"))]
    out = {"species", "island", "sex", "year"}
    groups = frame["species"].to_numpy()
    return KnownTable("penguins", frame, groups, frozenset(measured), frozenset(out), (3, 3))


def breast_cancer(seed: int) -> KnownTable:  # noqa: ARG001
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    frame = data.frame.assign(id=np.random.RandomState(0).permutation(10**6)[: len(data.frame)])
    return KnownTable(
        "breast cancer",
        frame,
        data.target.to_numpy(),
        frozenset({"mean radius", "worst concavity"}),
        frozenset({"target", "id"}),
        (2, 3),
        ari=0.6,
    )


def spending(seed: int) -> KnownTable:
    """Two kinds of customers who spend money, skewed as that of a wholesaler."""
    rng = np.random.RandomState(seed)
    shop = rng.rand(600) < 0.35
    middle = np.where(shop[:, None], [8.3, 9.1, 9.3, 7.1, 8.6, 7.0], [9.1, 7.6, 7.7, 7.8, 5.9, 6.3])
    money = np.exp(middle + rng.randn(600, 6) * [1.1, 0.7, 0.7, 1.2, 0.9, 1.1]).round()
    names = ["Fresh", "Milk", "Grocery", "Frozen", "Detergents_Paper", "Delicassen"]
    frame = Frame(money, columns=names)
    frame.insert(0, "Region", rng.choice([1, 2, 3], 600, p=[0.2, 0.1, 0.7]))
    return KnownTable(
        "wholesale-like", frame, shop, frozenset(names), frozenset({"Region"}), (2, 2), ari=0.8
    )


def telco(seed: int) -> KnownTable:
    """Customers of a telephone company: services go together, contracts with how long they stay."""
    rng = np.random.RandomState(seed)
    n = 3000
    group = rng.choice(3, n, p=[0.25, 0.4, 0.35])  # no internet, long contract, monthly contract
    stay = np.array([30, 50, 18])[group] + rng.randn(n) * np.array([24, 16, 14])[group]
    frame = Frame({"customerID": [f"{rng.randint(10**4):04d}-{j:05d}" for j in range(n)]})
    frame["gender"] = rng.choice(["Female", "Male"], n)
    frame["tenure"] = stay.clip(0, 72).round().astype(int)
    internet = np.array([[1, 0, 0], [0, 0.45, 0.55], [0, 0.25, 0.75]])[group]
    frame["InternetService"] = _draws(rng, internet, ["No", "DSL", "Fiber optic"])
    for name in ("OnlineSecurity", "TechSupport", "StreamingTV", "DeviceProtection"):
        share = np.array([0, 0.65, 0.2])[group]
        yes = np.where(rng.rand(n) < share, "Yes", "No")
        frame[name] = np.where(group == 0, "No internet service", yes)
    contract = np.array([[0.3, 0.3, 0.4], [0.1, 0.45, 0.45], [0.96, 0.03, 0.01]])[group]
    frame["Contract"] = _draws(rng, contract, ["Month-to-month", "One year", "Two year"])
    frame["PaperlessBilling"] = rng.rand(n) < np.array([0.3, 0.6, 0.75])[group]
    charges = np.array([20, 78, 74])[group] + rng.randn(n) * np.array([1.5, 20, 16])[group]
    frame["MonthlyCharges"] = charges.clip(18, 120).round(2)
    frame["Churn"] = np.where(rng.rand(n) < np.array([0.07, 0.1, 0.45])[group], "Yes", "No")
    used = {"tenure", "MonthlyCharges", "InternetService", "Contract", "TechSupport"}
    return KnownTable(
        "telco-like",
        frame,
        group,
        frozenset(used),
        frozenset({"customerID", "gender", "Churn"}),
        (3, 3),
        {"target": "Churn"},
    )


def adult(seed: int) -> KnownTable:
    """People of a census: young and single, married workers, academics; most gain no capital."""
    rng = np.random.RandomState(seed)
    n = 4000
    group = rng.choice(3, n, p=[0.35, 0.4, 0.25])
    frame = Frame({"age": (np.array([24, 43, 45])[group] + rng.randn(n) * 8).clip(17, 90).round()})
    kinds = ["Private", "Self-emp", "State-gov", "Federal-gov"]
    chances = [[0.9, 0.04, 0.04, 0.02], [0.74, 0.14, 0.08, 0.04], [0.5, 0.2, 0.2, 0.1]]
    frame["workclass"] = _draws(rng, np.array(chances)[group], kinds)
    frame.loc[rng.rand(n) < 0.05, "workclass"] = None
    frame["fnlwgt"] = np.exp(12 + 0.5 * rng.randn(n)).round()
    degrees = ["HS-grad", "Some-college", "Bachelors", "Masters"]
    chances = [[0.55, 0.38, 0.05, 0.02], [0.62, 0.3, 0.07, 0.01], [0.0, 0.05, 0.6, 0.35]]
    frame["education"] = _draws(rng, np.array(chances)[group], degrees)
    chances = [[0.9, 0.06, 0.04], [0.06, 0.82, 0.12], [0.15, 0.75, 0.1]]
    states = ["Never-married", "Married", "Divorced"]
    frame["marital"] = _draws(rng, np.array(chances)[group], states)
    chances = [[0.5, 0.38, 0.07, 0.05], [0.25, 0.62, 0.08, 0.05], [0.04, 0.02, 0.6, 0.34]]
    work = ["Service", "Craft", "Professional", "Executive"]
    frame["occupation"] = _draws(rng, np.array(chances)[group], work)
    gain = rng.rand(n) < np.array([0.02, 0.08, 0.2])[group]
    frame["capital-gain"] = np.where(gain, np.exp(8.5 + rng.randn(n)).round(), 0)
    hours = np.where(rng.rand(n) < 0.4, 40, np.array([30, 43, 46])[group] + rng.randn(n) * 9)
    frame["hours-per-week"] = hours.clip(1, 99).round()
    frame["income"] = np.where(rng.rand(n) < np.array([0.02, 0.3, 0.6])[group], ">50K", "<=50K")
    return KnownTable(
        "adult-like",
        frame,
        group,
        frozenset({"age", "education", "marital", "occupation", "capital-gain"}),
        frozenset({"income"}),
        (3, 4),
        {"target": "income"},
        ari=0.7,
    )


def bikes(seed: int) -> KnownTable:
    """Rentals by day, with an index, a date and parts of it: working days and others."""
    rng = np.random.RandomState(seed)
    n = 731
    days = pd.date_range("2011-01-01", periods=n)
    off = (days.day_of_week >= 5).astype(int)
    warm = 15 - 11 * np.cos(2 * np.pi * days.day_of_year / 365) + 3 * rng.randn(n)
    size = np.exp(0.35 * rng.randn(n))
    casual = (np.where(off, 1400, 500) + 25 * warm) * np.exp(0.2 * rng.randn(n)) * size**0.5
    registered = (np.where(off, 2000, 3800) + 40 * warm) * np.exp(0.1 * rng.randn(n)) * size**0.5
    frame = Frame(
        {
            "instant": np.arange(1, n + 1),
            "dteday": days.strftime("%Y-%m-%d"),
            "mnth": days.month,
            "temp": (warm / 41).to_numpy().round(4),
            "hum": (0.63 + 0.14 * rng.randn(n)).clip(0, 1).round(4),
            "casual": casual.to_numpy().round(),
            "registered": registered.to_numpy().round(),
        }
    )
    return KnownTable(
        "bike-like",
        frame,
        np.asarray(off),
        frozenset({"temp", "hum", "casual", "registered"}),
        frozenset({"instant", "dteday", "mnth"}),
        (2, 2),
        ari=0.85,
    )


def survival(seed: int) -> KnownTable:
    """Patients of a trial: ``time`` is how long they were followed, no point in time."""
    rng = np.random.RandomState(seed)
    n = 600
    ill = rng.rand(n) < 0.4
    frame = Frame(
        {
            "patient_id": rng.permutation(10**5)[:n],
            "time": np.exp(np.where(ill, 4.2, 6.4) + 0.5 * rng.randn(n)).round(),
            "status": np.where(rng.rand(n) < np.where(ill, 0.8, 0.25), "dead", "censored"),
            "age": (61 + 6 * ill + 8 * rng.randn(n)).round(),
            "albumin": (4.1 - 1.2 * ill + 0.35 * rng.randn(n)).round(2),
            "bilirubin": np.exp(0.1 + 1.9 * ill + 0.5 * rng.randn(n)).round(2),
        }
    )
    return KnownTable(
        "survival",
        frame,
        ill,
        frozenset({"time", "age", "albumin", "bilirubin"}),
        frozenset({"patient_id", "status"}),
        (2, 2),
        {"target": "status"},
    )


def loans(seed: int) -> KnownTable:
    """Loans: a score is missing mostly for those who never had one."""
    rng = np.random.RandomState(seed)
    n = 1500
    new = rng.rand(n) < 0.3
    income = np.exp(np.where(new, 10.2, 11.1) + 0.35 * rng.randn(n)).round()
    frame = Frame(
        {
            "member_id": np.arange(10**6, 10**6 + 7 * n, 7),
            "amount": (income * np.exp(np.where(new, -1.9, -0.9) + 0.3 * rng.randn(n))).round(-2),
            "income": income,
            "score": np.where(new, 640, 715) + 30 * rng.randn(n),
            "open_accounts": rng.poisson(np.where(new, 2, 12)),
            "rate": (np.where(new, 17, 9) + 1.8 * rng.randn(n)).round(2),
        }
    )
    frame["score"] = frame["score"].round().where(rng.rand(n) > np.where(new, 0.85, 0.04))
    return KnownTable(
        "loans-like",
        frame,
        new,
        frozenset({"amount", "income", "score", "open_accounts", "rate"}),
        frozenset({"member_id"}),
        (2, 2),
    )


def without_groups(seed: int) -> KnownTable:
    """One heap of correlated measurements, text that is unrelated to them, and an index."""
    rng = np.random.RandomState(seed)
    n = 800
    size = rng.randn(n)
    numbers = {
        "height": 170 + 8 * size + 4 * rng.randn(n),
        "weight": 70 + 9 * size + 6 * rng.randn(n),
        "pulse": 65 + 9 * rng.randn(n),
        "pressure": 125 + 4 * size + 11 * rng.randn(n),
    }
    frame = Frame({"no": np.arange(n), **numbers}).round(1)
    frame["desk"] = rng.choice(list("abcd"), n)
    return KnownTable(
        "no groups", frame, np.zeros(n, int), frozenset(numbers), frozenset({"no", "desk"}), (1, 1)
    )


def small_group(seed: int) -> KnownTable:
    """A group of 3 %, far off in two of five columns."""
    rng = np.random.RandomState(seed)
    n = 1000
    few = np.arange(n) < 30
    X = rng.randn(n, 5) @ (np.eye(5) + 0.3 * rng.randn(5, 5))
    X[few, 1] += 7
    X[few, 3] -= 7
    order = rng.permutation(n)
    frame = Frame(X[order], columns=["flow", "heat", "load", "torque", "speed"])
    return KnownTable("a group of 3 %", frame, few[order], frozenset(frame), frozenset(), (2, 2))


def _draws(rng: np.random.RandomState, chances: Array, levels: list[str]) -> Array:
    """A level for each row of probabilities (n, q)."""
    places = (rng.rand(len(chances), 1) > chances.cumsum(1)).sum(1)
    return np.array(levels)[places.clip(max=len(levels) - 1)]


TABLES: tuple[Callable[[int], KnownTable], ...] = (
    penguins, breast_cancer, spending, telco, adult, bikes, survival, loans, without_groups,
    small_group,
)  # fmt: skip
