"""A subclass of ``Batches`` is batches."""

import numpy as np
from sklearn.datasets import load_iris

from tensorae import TAE, Batches


class Shifted(Batches):
    """What a user may write: the same batches, in other units."""

    def __iter__(self):
        for batch in super().__iter__():
            yield batch - 1000


def test_a_subclass_of_batches_is_fitted_and_predicted(estimator):
    X = load_iris().data
    options = {"max_epochs": 3} if estimator is TAE else {}
    model = estimator(3, 1, random_state=0, **options).fit(Shifted(X, batch_rows=40))
    direct = estimator(3, 1, random_state=0, **options).fit(Batches(X - 1000, batch_rows=40))
    np.testing.assert_array_equal(model.labels_, direct.labels_)
    np.testing.assert_array_equal(model.predict(Shifted(X, batch_rows=40)), model.labels_)
    np.testing.assert_allclose(model.cluster_centers_, direct.cluster_centers_, rtol=1e-6)
