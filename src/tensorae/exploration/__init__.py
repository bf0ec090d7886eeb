"""A first look at a table without any decision: what ``tensorae explore`` does.

look.py        explore: read, choose columns, prepare, fit
columns.py     which columns can tell groups apart, and why others are left out
questions.py   what is odd, which trends turn, what goes with the groups
halves.py      whether two halves of the rows agree on the groups
sentences.py   what was found, in words
again.py       Python that does it again
outcome.py     Exploration: all of it, with its page, its table and its model file
"""

from tensorae.data.selection import LeftOut
from tensorae.exploration.look import explore
from tensorae.exploration.outcome import Exploration

__all__ = ["Exploration", "LeftOut", "explore"]
