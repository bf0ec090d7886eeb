"""Which columns a first look goes by, and the reasons why others are left out."""

import numpy as np
import pandas as pd
import pytest

from tensorae import explore
from tensorae.data import as_table
from tensorae.data.selection import select_columns
from tensorae.exceptions import InvalidInputError

N = 60


@pytest.fixture
def frame(rng):
    """Two columns that tell something."""
    return pd.DataFrame({"size": rng.randn(N), "mass": rng.rand(N)})


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("color", ["red", "blue", "green"] * 20, "text"),
        ("when", pd.date_range("2020-01-01", periods=N), "dates"),
        ("nothing", [None] * N, "empty"),
        ("n", range(1, N + 1), "row numbers"),
        ("constant", [7.5] * N, "always the same value"),
        ("flag", [True, False] * 30, "only 2 values: 0, 1"),
        ("grade", [1, 2, 3] * 20, "only 3 values: 1, 2, 3"),
        ("birth_year", [1900 + i * i % 97 for i in range(N)], "points in time, by its name"),
        (
            "customer_id",
            [9000 + 7 * (i * i % 59) for i in range(1, 30)] * 2 + [1, 2],
            "identifiers",
        ),
        ("userId", [9000 + 7 * (i - i % 4 // 3) for i in range(N)], "identifiers, by its name"),
        ("index", [*range(1, 31)] * 2, "an index: it goes by steps of 1 "),
        ("target", [i * i % 11 for i in range(N)], "numbers of classes, by its name"),
        ("rare", [1.5, 2.5, 8.0] + [None] * (N - 3), "95 % missing"),
    ],
)
def test_what_tells_nothing_is_left_out_with_a_reason(frame, name, values, reason):
    frame[name] = values
    found = select_columns(as_table(frame))
    assert found.columns == ("size", "mass")
    (left_out,) = found.left_out
    assert left_out.name == name
    assert reason in left_out.reason


def test_near_copies_are_left_out_and_others_are_not(frame, rng):
    frame["grams"] = -1000 * frame["mass"] + 3
    frame.loc[:5, "grams"] = np.nan
    frame["like"] = frame["mass"] + 0.1 * rng.randn(N)
    found = select_columns(as_table(frame))
    assert found.columns == ("size", "mass", "like")
    assert [str(one) for one in found.left_out] == ["grams (nearly a copy of mass)"]


def test_few_values_are_taken_where_there_is_nothing_else(rng):
    answers = pd.DataFrame(rng.randint(1, 6, (N, 4)), columns=list("abcd"))
    assert select_columns(as_table(answers)).columns == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("{},{}5", lambda a, b: a + b / 10 + 0.05),
        ("{},{}00", lambda a, b: 1000 * a + 100 * b),
        ("{}.{}5", lambda a, b: a + b / 10 + 0.05),
    ],
)
def test_numbers_as_text_are_converted(frame, cell, number):
    places = [(1 + i % 7, i % 5) for i in range(N)]
    cells, numbers = [cell.format(*p) for p in places], [number(*p) for p in places]
    if "." in cell:
        cells[3], numbers[3] = "n.a.", np.nan
    frame["told"] = cells
    found = select_columns(as_table(frame))
    assert "told" in found.columns
    assert tuple(found.formats) == ("told",)
    np.testing.assert_allclose(found.table.frame["told"].to_pandas(), numbers)
    assert len(found.notes) == 1


def test_mostly_text_stays_text(frame):
    frame["mixed"] = ["1", "2", "3", "many", "few"] * 12
    found = select_columns(as_table(frame))
    assert found.columns == ("size", "mass")
    assert found.left_out[0].categories == 5


def test_what_is_infinite_counts_as_missing(frame):
    frame.loc[3, "size"] = np.inf
    found = select_columns(as_table(frame))
    assert found.table.frame["size"].null_count == 1
    assert "1 infinite value" in found.notes[0]


def test_columns_can_be_named_or_ignored(frame):
    frame["flag"] = [0, 1] * 30
    assert select_columns(as_table(frame), columns=["flag", "mass"]).columns == ("flag", "mass")
    assert select_columns(as_table(frame), columns=["flag,mass"]).columns == ("flag", "mass")
    found = select_columns(as_table(frame), ignore=["size"])
    assert found.columns == ("mass", "flag")
    assert str(found.left_out[0]) == "size (ignored, as requested)"


@pytest.mark.parametrize(
    ("source", "columns", "words"),
    [
        ({"name": ["a", "b", "c"]}, [], r"numbers that vary, or categories, got name \(text\)"),
        ({"mass": [1.5, 2.5]}, ["mas"], "did you mean 'mass'"),
        (np.eye(4), ["a"], "no named columns"),
    ],
)
def test_no_columns_are_an_error(source, columns, words):
    with pytest.raises(InvalidInputError, match=words):
        select_columns(as_table(source), columns=columns)


# Tables as people have them ---------------------------------------------------------------------


def flights(rng, n=3000):
    """Flights: each number has a route, and so a distance and a time of day."""
    route = rng.randint(0, 200, n)
    distance = rng.lognormal(6.8, 0.6, 200).round()[route]
    minutes = 300 + rng.randint(0, 1000, 200)[route] + rng.randint(0, 40, n)
    return {
        "year": np.full(n, 2013),
        "month": rng.randint(1, 13, n),
        "day": rng.randint(1, 29, n),
        "dep_time": minutes // 60 * 100 + minutes % 60,
        "dep_delay": rng.exponential(20, n).round() - 10,
        "flight": np.sort(rng.choice(6000, 200, replace=False))[route],
        "air_time": (20 + distance / 7 + rng.randn(n) * 8).round(),
        "distance": distance,
        "hour": minutes // 60,
    }


def survey(rng, n=2000):
    """An ecological survey: some species live on some plots."""
    plot = rng.choice(24, n, p=rng.dirichlet(np.full(24, 8.0)))
    large = rng.rand(n) < rng.rand(24)[plot]
    return {
        "record_id": np.sort(rng.choice(3 * n, n, replace=False)),
        "month": rng.randint(1, 13, n),
        "year": rng.randint(1977, 2003, n),
        "plot": plot + 1,
        "hindfoot_length": np.where(large, 36, 20) + (2 * rng.randn(n)).round(),
        "weight": np.where(large, 120, 25) + (6 * rng.randn(n)).round(),
    }


def bikes(rng, n=730):
    """Bicycles that were rented on each day."""
    warm = np.sin(np.arange(n) / 58) + 0.2 * rng.randn(n)
    casual = rng.poisson(np.exp(6 + 0.7 * warm + 0.3 * rng.randn(n)))
    registered = rng.poisson(np.exp(7 + 0.4 * warm + 0.3 * rng.randn(n)))
    return {
        "instant": np.arange(1, n + 1),
        "dteday": pd.date_range("2011-01-01", periods=n),
        "season": np.arange(n) // 92 % 4 + 1,
        "mnth": pd.date_range("2011-01-01", periods=n).month,
        "weekday": np.arange(n) % 7,
        "temp": warm,
        "hum": rng.rand(n),
        "windspeed": rng.gamma(3, 0.06, n),
        "casual": casual,
        "registered": registered,
        "cnt": casual + registered,
    }


def horses(rng, n=300):
    """Horses with colic."""
    return {
        "surgery": rng.randint(1, 3, n),
        "hospitalNumber": rng.choice(np.r_[527000:536000, 5279000:5306000], n) // 3 * 3,
        "rectal_temperature": 38 + rng.randn(n).round(1),
        "pulse": rng.normal(72, 28, n).round(),
        "packed_cell_volume": rng.normal(46, 10, n).round(),
    }


def houses(rng, n=1460):
    """Houses in Ames: the class of a dwelling is a code, and tells its age and its size."""
    codes = np.array([20, 30, 40, 45, 50, 60, 70, 75, 80, 85, 90, 120, 150, 160, 180, 190])
    kind = rng.choice(16, n, p=rng.dirichlet(np.full(16, 2.0)))
    quality = np.clip(rng.normal(6, 1.4, n).round(), 1, 10)
    area = rng.uniform(6, 14, 16)[kind] * 900 + rng.lognormal(7, 0.5, n)
    built = rng.randint(1900, 2005, 16)[kind] + rng.randint(-12, 6, n)
    return {
        "Id": rng.permutation(n) + 1,
        "MSSubClass": codes[kind],
        "LotArea": area.round(),
        "OverallQual": quality,
        "YearBuilt": built,
        "SalePrice": (quality * 20000 + area * 5 + built * 10 + 9000 * rng.randn(n)) // 100 * 100,
    }


def dwellings(rng):
    """The same, with a name that does not tell."""
    return {"dwelling" if name == "MSSubClass" else name: v for name, v in houses(rng).items()}


def adults(rng, n=2000):
    """The census: people heap their hours, and most gain nothing."""
    schooling = np.clip(rng.choice([9, 10, 13, 7, 12, 14], n) + rng.randint(-1, 2, n), 1, 16)
    age = np.clip(rng.gamma(6, 6.5, n) + schooling / 2, 17, 90).round()
    hours = np.where(rng.rand(n) < 0.5, 40, rng.choice([20, 25, 30, 35, 45, 50, 60], n))
    return {
        "age": age,
        "fnlwgt": rng.lognormal(12, 0.5, n).round(),
        "education_num": schooling,
        "capital_gain": np.where(rng.rand(n) < 0.1, rng.choice([2174, 7298, 15024, 3103], n), 0)
        + (rng.rand(n) < 0.02) * rng.randint(114, 9999, n),
        "hours_per_week": np.clip(hours + (rng.rand(n) < 0.3) * rng.randint(-5, 6, n), 1, 53),
    }


def lungs(rng, n=228):
    """Survival with lung cancer, in days."""
    return {
        "inst": np.clip(rng.geometric(0.15, n), 1, 33),
        "time": np.sort(rng.exponential(300, n).round() + 5),
        "status": rng.randint(1, 3, n),
        "age": rng.normal(62, 9, n).round(),
        "meal.cal": rng.normal(930, 400, n).round(),
        "wt.loss": rng.normal(10, 13, n).round(),
    }


def universities(rng, n=200):
    """A ranking, with some ranks that are shared."""
    score = np.sort(rng.gamma(4, 9, n))[::-1]
    rank = np.arange(1, n + 1)
    rank[5:195:19] = rank[4:194:19]
    return {
        "rank": rank,
        "score": score,
        "students": rng.lognormal(9.5, 0.5, n).round(),
        "citations": score + 8 * rng.randn(n),
    }


def reactions(rng, n=600):
    """Reaction times of subjects over days, as in a sleep study."""
    subject = np.repeat(np.arange(300, 360), n // 60)
    return {
        "Subject": subject,
        "Days": np.tile(np.arange(n // 60), 60),
        "reaction_time": (250 + 30 * rng.randn(400)[subject] + 20 * rng.randn(n)).round(),
        "errors": rng.poisson(6, n),
    }


def birds(rng, n=342):
    """Penguins, in whole grams and millimetres."""
    kind = rng.randint(0, 3, n)
    return {
        "flipper_length_mm": np.array([190, 196, 217])[kind] + (6 * rng.randn(n)).round(),
        "body_mass_g": (np.array([3700, 3733, 5076])[kind] + 400 * rng.randn(n)) // 25 * 25,
        "eggs": rng.poisson(4, n),
    }


TIME, INDEX, FEW = "points in time", "an index", "only "


@pytest.mark.parametrize(
    ("make", "used", "left_out"),
    [
        (
            flights,
            "dep_delay air_time distance",
            {"year": "always", "flight": "codes"} | dict.fromkeys(("month", "day", "hour"), TIME)
            | {"dep_time": TIME},
        ),
        (
            survey,
            "hindfoot_length weight",
            {"record_id": INDEX, "month": TIME, "year": TIME, "plot": "codes"},
        ),
        (
            bikes,
            "temp hum windspeed casual registered cnt",
            {"instant": "row numbers", "dteday": "dates", "season": FEW, "mnth": TIME}
            | {"weekday": TIME},
        ),
        (
            horses,
            "rectal_temperature pulse packed_cell_volume",
            {"surgery": FEW, "hospitalNumber": "identifiers"},
        ),
        (
            houses,
            "LotArea OverallQual YearBuilt SalePrice",
            {"Id": INDEX, "MSSubClass": "numbers of classes"},
        ),
        (
            dwellings,
            "LotArea OverallQual YearBuilt SalePrice",
            {"Id": INDEX, "dwelling": "codes"},
        ),
        (adults, "age fnlwgt education_num capital_gain hours_per_week", {}),
        (lungs, "inst time age meal.cal wt.loss", {"status": FEW}),
        (universities, "score students citations", {"rank": INDEX}),
        (reactions, "reaction_time errors", {"Subject": INDEX, "Days": INDEX}),
        (birds, "flipper_length_mm body_mass_g eggs", {}),
    ],
)  # fmt: skip
def test_measurements_are_used_and_indices_codes_and_points_in_time_are_not(
    rng, make, used, left_out
):
    found = select_columns(as_table(pd.DataFrame(make(rng))))
    assert found.columns == tuple(used.split())
    assert [one.name for one in found.left_out] == [
        name for name in make(rng) if name not in found.columns
    ]
    for one in found.left_out:
        assert left_out[one.name] in one.reason
        assert one.numeric == (one.name not in ("dteday", "instant"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("time", np.r_[0:N] * 0.25 + 1949.5),
        ("seconds", np.r_[0:N] * 0.1),
        ("timestamp", 1_600_000_000 + np.r_[0:N] ** 2),
        ("log_time", np.cumsum(10 + np.r_[0:N] % 3)),
        ("date", 20200101 + np.r_[0:N] // 3),
        ("place", np.r_[0:N][::-1] * 7 + 2),
        ("ticket", np.random.RandomState(0).permutation(2 * N)[:N]),
    ],
)
def test_what_goes_by_steps_or_is_a_date_is_left_out(frame, name, values):
    frame[name] = values
    assert select_columns(as_table(frame)).columns == ("size", "mass")


def test_no_column_of_numbers_is_left_out_without_its_reason(rng):
    """The line on the console may count columns of text, but names those of numbers."""
    n = 90
    table = {f"text {j}": list("abc") * 30 for j in range(12)}
    table |= {f"constant {j}": np.full(n, j) for j in range(9)}
    table |= {"customer_id": rng.permutation(n), "year": 1990 + np.arange(n) // 9}
    table |= {"grade": np.arange(n) % 3, "size": rng.randn(n), "mass": rng.randn(n)}
    found = explore(pd.DataFrame(table), n_clusters=2, categorical_features=None)
    line = found.summary.splitlines()[1]
    for name, reason in (("customer_id", INDEX), ("year", TIME), ("grade", FEW)):
        assert f"{name} ({reason}" in line
    assert "constant 5 and 3 more (always the same value)" in line
    assert line.endswith("text 5 (text) and 6 more.")
    page = " ".join(detail for step in found.steps for detail in step.details)
    assert all(name in page for name in table if name not in ("size", "mass"))
