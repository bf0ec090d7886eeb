# ruff: noqa: D205, D400
"""
Odd birds, and why
==================

``OutlierTAE`` finds rows that fit nowhere, and says which measurements make them odd and what was
to be expected of them, given all the others. Here the Palmer penguins: 333 birds, no species told,
and one of them with a slip of the pen.
"""

import matplotlib.pyplot as plt
import numpy as np

from tensorae import OutlierTAE
from tensorae.datasets import load_penguins
from tensorae.explain import outliers

penguins = load_penguins()
names = ["bill length, mm", "bill depth, mm", "flipper length, mm", "body mass, g"]
X = penguins.data.copy()
light = np.flatnonzero(penguins.target == 2)[7]
X[light, 3] = 3250  # a Gentoo that weighs as much as a usual Adelie

model = OutlierTAE(random_state=0).fit(X)
print(f"{(model.predict(X) < 0).sum()} of {len(X)} birds are odder than 99 % of ordinary ones")
found = outliers(model, X, n_rows=6, feature_names=names)
print(found)

# %%
# The slip is no outlier in its own column: many birds weigh 3,250 g. But not with such a bill and
# such flippers.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
axes[0].hist(X[:, 3], 30, color="0.75")
axes[0].axvline(X[light, 3], color="C3", label="the slip of the pen")
axes[0].set(xlabel=names[3], ylabel="birds")
axes[0].legend()
points = axes[1].scatter(X[:, 2], X[:, 3], c=-model.score_samples(X), s=12, cmap="viridis")
axes[1].plot(*X[light, 2:], "o", ms=12, mfc="none", mec="C3")
axes[1].set(xlabel=names[2], ylabel=names[3])
figure.colorbar(points, label="oddness")
plt.show()

# %%
# What the section on outliers of ``model.report(X, "odd.html")`` shows: for each odd bird the
# measurements that do not go with the others, in standard deviations of what these leave open, and
# the value that was expected beside the real one.

figure, ax = plt.subplots(figsize=(9, 4.4), layout="constrained")
lines = [(bird, feature) for bird in found for feature in bird.features]
places = np.arange(len(lines))[::-1]
sizes = [feature.deviations for _, feature in lines]
colors = [f"C{[bird.row for bird in found].index(bird.row)}" for bird, _ in lines]
ax.barh(places, sizes, color=colors)
ax.axvline(0, color="0.3", lw=0.8)
ax.set_yticks(places, [f"bird {bird.row}: {feature.name}" for bird, feature in lines])
for place, (_, feature) in zip(places, lines, strict=True):
    text = f" {feature.value:,.4g}, expected {feature.expected:,.4g} "
    side = "left" if feature.deviations > 0 else "right"
    ax.text(feature.deviations, place, text, va="center", ha=side, fontsize=8)
ax.set_xlim(1.9 * min(*sizes, -1), 1.9 * max(*sizes, 1))
ax.set_xlabel("standard deviations from what the other measurements let expect")
plt.show()

assert found[0].row == light
