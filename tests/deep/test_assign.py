"""A refresh over near candidates scores like one over all clusters; a fit shows labels only."""

import torch
from torch import nn

from tensorae import tensorize
from tensorae.deep.assign import Copies


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.decode = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4))


def random_module(k):
    module = tensorize(Small, k, input_shape=(4,))
    module.set_centers(torch.randn(k, 4))
    return module


def test_a_refresh_over_candidates_scores_like_one_over_all_clusters():
    torch.manual_seed(0)
    modules = (random_module(k=6), random_module(k=6))
    copies = Copies(modules, torch.arange(50) % 2)
    x = torch.randn(50, 4)
    everyone = torch.arange(6).expand(50, -1)
    candidates = torch.rand(50, 6).argsort(1)[:, :3]
    full, near = copies.parts(x, everyone), copies.parts(x, candidates)
    for name in ("errors", "codes", "outputs"):
        torch.testing.assert_close(getattr(near, name), getattr(full, name).gather(1, candidates))
    torch.testing.assert_close(
        copies.costs(near, candidates), copies.costs(full, everyone).gather(1, candidates)
    )
    # Each row by the copy that does not train on it.
    for row, fold in ((0, 1), (1, 0)):
        wanted = modules[fold].costs(x[row : row + 1])[0]
        torch.testing.assert_close(copies.costs(full, everyone)[row], wanted)
