"""A first look at a table without any decision: what ``tensorae explore`` does.

workflow.py      explore: read, choose columns, prepare, fit
diagnostics.py   unusual rows, reversed trends, columns beside the groups, how clear groups are
sentences.py     the results in words
result.py        Exploration: the results with their page, table, model file and Python code
"""

from tensorae.data.selection import LeftOut
from tensorae.exploration.result import Exploration
from tensorae.exploration.workflow import explore

__all__ = ["Exploration", "LeftOut", "explore"]
