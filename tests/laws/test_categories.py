"""Laws of mixed tables: what categories must and must not change."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorae import Batches, LinearTAE
from tensorae.core.families import LEVEL_STRENGTH

K = 3


def planted(seed=0, n=300, d=3, c=4):
    """Return a frame of d numbers and c categories in K groups, and the groups."""
    rng = np.random.RandomState(seed)
    groups = rng.randint(K, size=n)
    numbers = rng.randn(n, d) + 2 * rng.randn(K, d)[groups]
    frame = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(d)])
    for j in range(c):
        levels = list("abcd"[: 2 + j % 3])
        chances = rng.dirichlet(np.full(len(levels), 0.5), size=K)
        frame[f"c{j}"] = [rng.choice(levels, p=chances[g]) for g in groups]
    return frame, groups


def only_categories(seed=0, n=400):
    frame, groups = planted(seed, n, d=1, c=6)
    return frame.drop(columns="x0"), groups


def fitted(frame, **settings):
    return LinearTAE(**{"n_clusters": K, "random_state": 0, **settings}).fit(frame)


def same_clusters(first, second):
    return adjusted_rand_score(first, second) == pytest.approx(1)


# Categories only: latent classes ------------------------------------------------------------------


def latent_class_em(frame, log_weights, logs, passes):
    """EM of a latent class model, with the prior's members, by loops over rows and columns."""
    shares = {c: frame[c].value_counts(normalize=True) for c in frame}
    for _ in range(passes):
        joint = np.array(
            [
                [log_weights[j] + sum(logs[j][c][row[c]] for c in frame) for j in range(K)]
                for _, row in frame.iterrows()
            ]
        )
        evidence = np.logaddexp.reduce(joint, axis=1)
        posterior = np.exp(joint - evidence[:, None])
        log_weights = np.log(posterior.mean(0))
        logs = [
            {
                c: {
                    level: np.log(
                        (posterior[frame[c] == level, j].sum() + LEVEL_STRENGTH * share)
                        / (posterior[:, j].sum() + LEVEL_STRENGTH)
                    )
                    for level, share in shares[c].items()
                }
                for c in frame
            }
            for j in range(K)
        ]
    return posterior, logs, evidence.sum()


def test_categories_alone_are_latent_classes():
    frame, _ = only_categories(n=150)
    model = fitted(frame, tol=0, max_iter=2000)
    assert model.cluster_centers_.shape == (K, 0)
    logs = [
        {
            c: dict(zip(levels, np.log(chances[j]), strict=True))
            for c, levels, chances in zip(
                frame, model.categories_, model.level_probabilities_, strict=True
            )
        }
        for j in range(K)
    ]
    posterior, after, likelihood = latent_class_em(frame, np.log(model.weights_), logs, passes=1)
    # The fit is a fixed point of the oracle, and says the same of every row.
    np.testing.assert_allclose(model.predict_proba(frame), posterior, atol=1e-9)
    np.testing.assert_allclose(model.score_samples(frame).sum(), likelihood)
    for j in range(K):
        for c in frame:
            for level, value in after[j][c].items():
                assert value == pytest.approx(logs[j][c][level], abs=1e-3)


def test_groups_of_categories_alone_are_found():
    found = [
        adjusted_rand_score(groups, fitted(frame).labels_)
        for frame, groups in map(only_categories, range(4))
    ]
    assert np.mean(found) > 0.6, found


def test_the_objective_never_rises():
    for frame, _ in (planted(1), only_categories(1)):
        for settings in ({}, {"assignment": "lloyd"}, {"spread": "shared"}):
            path = fitted(frame, **settings).objective_path_
            rise = np.diff(path).max(initial=0)
            assert rise <= 1e-9 * abs(path[-1]), settings


# What changes nothing -----------------------------------------------------------------------------


def test_names_and_order_of_levels_do_not_matter():
    frame, _ = planted()
    renamed = frame.copy()
    names = {"a": "zebra", "b": "ant", "c": "moth", "d": "bee"}
    for c in ("c0", "c1", "c2", "c3"):
        renamed[c] = frame[c].map(names)
    one, two = fitted(frame), fitted(renamed)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_allclose(one.cluster_centers_, two.cluster_centers_, atol=1e-8)


def test_a_column_of_one_level_changes_nothing():
    for frame, _ in (planted(2), only_categories(2)):
        one, two = fitted(frame), fitted(frame.assign(same="yes"))
        np.testing.assert_array_equal(one.labels_, two.labels_)
        np.testing.assert_allclose(one.score_samples(frame), two.score_samples(
            frame.assign(same="yes")), atol=1e-8)  # fmt: skip


def test_weights_are_repeated_rows():
    frame, _ = planted(3, n=200)
    weights = np.random.RandomState(0).randint(1, 3, size=len(frame))
    repeated = frame.loc[frame.index.repeat(weights)]
    one = LinearTAE(K, random_state=0).fit(frame, sample_weight=weights)
    two = fitted(repeated)
    np.testing.assert_array_equal(one.predict(repeated), two.labels_)
    for first, second in zip(one.level_probabilities_, two.level_probabilities_, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)


def test_the_order_of_rows_does_not_matter():
    for frame, _ in (planted(4), only_categories(4)):
        order = np.random.RandomState(0).permutation(len(frame))
        one, two = fitted(frame), fitted(frame.iloc[order])
        assert same_clusters(one.labels_[order], two.labels_)


def test_numbers_in_other_frames_are_fitted_as_ever():
    frame, _ = planted()
    numbers = frame.filter(like="x")
    one, two = fitted(numbers), LinearTAE(K, random_state=0).fit(numbers.to_numpy())
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.cluster_centers_, two.cluster_centers_)
    assert not one.is_categorical_.any()
    assert one.categories_ == one.level_probabilities_ == []


def test_a_permuted_column_is_next_to_noise():
    lost = []
    for seed in range(6):
        frame, groups = planted(seed, n=400)
        rng = np.random.RandomState(seed)
        noise = {f"n{j}": rng.permutation(frame[f"c{j}"]) for j in range(3)}
        without, with_noise = fitted(frame), fitted(frame.assign(**noise))
        scores = [adjusted_rand_score(groups, m.labels_) for m in (without, with_noise)]
        lost.append(scores[0] - scores[1])
    assert np.mean(lost) < 0.03, lost


def test_categories_help_where_they_know_more():
    gained = []
    for seed in range(6):
        frame, groups = planted(seed, n=400, d=2)
        both, alone = fitted(frame), fitted(frame.filter(like="x"))
        gained.append(
            adjusted_rand_score(groups, both.labels_) - adjusted_rand_score(groups, alone.labels_)
        )
    assert np.mean(gained) > 0.05, gained


def test_single_precision_is_close_to_double():
    frame, _ = planted(5)
    single = frame.astype({f"x{j}": np.float32 for j in range(3)})
    one, two = fitted(frame), fitted(single)
    assert two.cluster_centers_.dtype == np.float32
    assert adjusted_rand_score(one.labels_, two.labels_) > 0.99


def test_fit_and_predict_agree():
    for frame, _ in (planted(6), only_categories(6)):
        for settings in ({}, {"assignment": "lloyd"}):
            model = fitted(frame, **settings)
            np.testing.assert_array_equal(model.predict(frame), model.labels_)
            np.testing.assert_array_equal(model.predict_proba(frame).argmax(1), model.labels_)


@pytest.mark.parametrize("settings", [{}, {"assignment": "lloyd"}, {"spread": "shared"}])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_streams_equal_memory(settings, missing):
    frame, _ = planted(13, n=1500)
    X = np.column_stack(
        [frame[c] if c.startswith("x") else frame[c].map(ord).astype(float) for c in frame]
    )
    X[np.random.RandomState(0).uniform(size=X.shape) < missing] = np.nan
    named = {"categorical_features": [3, 4, 5, 6], **settings}
    one = fitted(X, **named)
    two = LinearTAE(K, random_state=0, **named).fit(Batches(X, batch_rows=400))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(two.predict(Batches(X)), two.labels_)
    for first, second in zip(one.level_probabilities_, two.level_probabilities_, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-9)


# Missing and unknown ------------------------------------------------------------------------------


def test_missing_categories_are_left_out_of_the_product():
    frame, groups = planted(7, n=400)
    rng = np.random.RandomState(0)
    holes = rng.uniform(size=frame.shape) < 0.15
    partial = frame.mask(holes)
    model = fitted(partial)
    assert adjusted_rand_score(groups, model.labels_) > 0.6
    unknown = frame.iloc[:5].copy()
    unknown[["c0", "c1", "c2", "c3"]] = None
    numbers = model.predict_proba(unknown)
    assert np.isfinite(numbers).all()
    nothing = frame.iloc[:1].mask(np.ones((1, frame.shape[1]), dtype=bool))
    np.testing.assert_allclose(model.predict_proba(nothing)[0], model.weights_, atol=1e-6)


def test_unknown_levels_warn_once_and_are_improbable():
    frame, _ = planted(8)
    model = fitted(frame)
    strange = frame.iloc[:4].assign(c0="never seen")
    with pytest.warns(
        UserWarning, match="'c0' has levels that fit has not seen, 'never seen'"
    ) as w:
        scores = model.score_samples(strange)
    assert len(w) == 1
    assert (scores < model.score_samples(frame.iloc[:4])).all()
    with pytest.raises(ValueError, match="must have levels that fit has seen"):
        fitted(frame, handle_unknown="error").predict(strange)


def test_imputed_categories_are_better_than_the_mode():
    frame, _ = planted(9, n=500)
    rng = np.random.RandomState(0)
    holes = rng.uniform(size=frame.shape) < 0.2
    partial = frame.mask(holes)
    model = fitted(partial)
    filled = model.impute(partial)
    assert not filled.isna().to_numpy().any()
    kept = ~holes
    assert (filled.to_numpy()[kept] == frame.to_numpy()[kept]).all()
    right = wrong = 0.0
    for j, c in enumerate(frame.columns):
        if c.startswith("c"):
            gap = holes[:, j]
            right += (filled[c] == frame[c])[gap].mean()
            wrong += (frame[c][gap] == partial[c].mode()[0]).mean()
            chances = model.level_proba(partial)[int(c[1:])]
            best = model.categories_[int(c[1:])][chances.argmax(1)]
            np.testing.assert_array_equal(best[gap], filled[c][gap])
    assert right > wrong + 0.1
    assert filled.x0[holes[:, 0]].std() > 0


def test_draws_are_as_frequent_as_their_probabilities():
    frame, _ = planted(10, n=300)
    model = fitted(frame)
    unknown = frame.assign(c1=None)
    expected = model.level_proba(unknown)[1].mean(0)
    draws = model.impute(unknown, n_draws=40, random_state=0)
    found = np.mean(
        [[(draw.c1 == level).mean() for level in model.categories_[1]] for draw in draws], axis=0
    )
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_samples_have_the_probabilities_of_the_levels():
    frame, _ = planted(11)
    model = fitted(frame)
    drawn, labels = model.sample(6000, random_state=0)
    assert list(drawn) == list(frame)
    for j in range(K):
        found = [(drawn.c2[labels == j] == level).mean() for level in model.categories_[2]]
        np.testing.assert_allclose(found, model.level_probabilities_[2][j], atol=0.06)


def test_partial_fit_goes_on():
    frame, groups = planted(12, n=600)
    model = LinearTAE(K, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for start in range(0, 600, 200):
            model = model.partial_fit(frame.iloc[start : start + 200])
    assert adjusted_rand_score(groups, model.predict(frame)) > 0.6
    whole = fitted(frame)
    assert adjusted_rand_score(whole.labels_, model.predict(frame)) > 0.8


def test_the_number_of_clusters_is_found():
    found = [len(fitted(planted(seed, n=500)[0], n_clusters="auto").weights_) for seed in range(4)]
    assert found.count(K) >= 3, found
