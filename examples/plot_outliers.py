# ruff: noqa: D205, D400
"""
Unusual birds, and why
======================

``OutlierTAE`` finds unusual rows, and says which of their features are unexpected given all others,
and which value was expected. Here, the Palmer penguins: 333 birds, as they were measured, without
their species.
"""

import matplotlib.pyplot as plt
import numpy as np

from tensorae import OutlierTAE
from tensorae.datasets import load_penguins
from tensorae.inspect import outliers

penguins = load_penguins()
names = ["bill length, mm", "bill depth, mm", "flipper length, mm", "body mass, g"]
X = penguins.data

model = OutlierTAE(random_state=0).fit(X)
print(
    f"{(model.predict(X) < 0).sum()} of {len(X)} birds are more unusual than 99 % of ordinary ones"
)
found = outliers(model, X, n_rows=6, feature_names=names)
print(found)

# %%
# Two birds have the highest scores. One has the longest bill of all. The bill of the other is
# nearly as long, but its flippers are short: common for some birds, but not for those with such a
# bill.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
anomaly_score = -model.score_samples(X)
for ax, (across, up) in zip(axes, ((0, 1), (0, 2)), strict=True):
    points = ax.scatter(X[:, across], X[:, up], c=anomaly_score, s=12, cmap="viridis")
    for bird in found[:2]:
        place = X[bird.row, [across, up]]
        ax.plot(*place, "o", ms=12, mfc="none", mec="C3")
        ax.annotate(str(bird.row), place, xytext=(-8, -16), textcoords="offset points", ha="right")
    ax.set(xlabel=names[across], ylabel=names[up])
figure.colorbar(points, label="anomaly score")
plt.show()

# %%
# The section on outliers of ``model.report(X, "outliers.html")`` shows this: for each bird, the
# features that do not go with the others, in conditional standard deviations, with the expected
# value next to the observed one.

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
ax.set_xlabel("deviation from the expected value, in conditional standard deviations")
plt.show()

# %%
# The species, which no fit has used:

for bird in found[:2]:
    print(bird.row, penguins.target_names[penguins.target[bird.row]], bird.because, sep=": ")
