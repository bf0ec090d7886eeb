"""Fitted models and the states of long fits in files that hold no code.

container.py    a file <-> header and tensors: versions, checksum, atomic writing
models.py       save and load: constructor parameters and the description of a model <-> JSON
fitted.py       fitted attributes <-> tensors
networks.py     the autoencoders of TAE <-> tensors
checkpoints.py  the state of a fit, written while it runs
"""

from tensorae.persist.models import FORMAT_VERSION, load, read_header, save

__all__ = ["FORMAT_VERSION", "load", "read_header", "save"]
