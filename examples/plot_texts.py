# ruff: noqa: D205, D400
"""
Embeddings of texts: what the functions of SciPy are about
==========================================================

Vectors of texts, from word counts or from a language model, are wide, and each topic fills a few
directions of its own. Here the texts are the docstrings of SciPy, and the vectors are word counts.
"""

import importlib
import inspect
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from tensorae import LinearTAE

MODULES = ("fft", "linalg", "ndimage", "signal", "sparse.linalg", "spatial", "stats")

texts, modules, names = [], [], []
for number, module in enumerate(MODULES):
    home = importlib.import_module(f"scipy.{module}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that SciPy will drop
        public = [(name, getattr(home, name)) for name in home.__all__]
    for name, thing in public:
        text = inspect.getdoc(thing) or ""
        if callable(thing) and len(text) > 500:
            texts.append(text)
            modules.append(number)
            names.append(f"{module}.{name}")
modules = np.array(modules)

vectors = make_pipeline(
    TfidfVectorizer(
        token_pattern=r"[a-zA-Z]{3,}", stop_words="english", min_df=5, sublinear_tf=True
    ),
    TruncatedSVD(100, random_state=0),
    Normalizer(),
).fit_transform(texts)
print(f"{len(texts)} texts as vectors of {vectors.shape[1]} numbers")

# %%
# The module of a function serves to score only:

model = LinearTAE(n_clusters=len(MODULES), random_state=0).fit(vectors)
kmeans = KMeans(len(MODULES), n_init=10, random_state=0).fit(vectors)
print(f"LinearTAE  ARI {adjusted_rand_score(modules, model.labels_):.2f}")
print(f"k-means    ARI {adjusted_rand_score(modules, kmeans.labels_):.2f}")

table = np.zeros((len(MODULES), model.n_clusters))
np.add.at(table, (modules, model.labels_), 1)
order = table.argmax(0).argsort(kind="stable")
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.imshow(table[:, order] / table.sum(1, keepdims=True), cmap="Blues", vmin=0, vmax=1)
for (i, j), count in np.ndenumerate(table[:, order]):
    if count:
        ax.text(j, i, f"{count:.0f}", ha="center", va="center")
ax.set(yticks=range(len(MODULES)), yticklabels=MODULES, xlabel="cluster", xticks=[])
ax.set_title("Functions of each module, by cluster")
plt.show()

# %%
# Each cluster by the three texts that it costs least:

for label in order:
    members = np.flatnonzero(model.labels_ == label)
    near = members[np.argsort(model.costs(vectors[members])[:, label])[:3]]
    print(f"{len(members):4} texts: {', '.join(names[row] for row in near)}")

# %%
# A text that fits no cluster has a low log-density:

strange = np.argsort(model.score_samples(vectors))[:5]
print("unusual texts:", ", ".join(names[row] for row in strange))
