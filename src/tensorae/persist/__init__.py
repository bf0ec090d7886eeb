"""What outlives a process, in files without code: fitted models and the states of long fits.

container.py    a file <-> header and tensors: versions, checksum, atomic writing
checkpoints.py  the state of a fit, written while it runs
models.py       save and load: which class, which checks
header.py       what a model file says about itself, and constructor parameters <-> JSON
fitted.py       fitted attributes <-> tensors
networks.py     the autoencoders of TAE <-> tensors
"""

from tensorae.persist.models import FORMAT_VERSION, load, read_header, register, save

__all__ = ["FORMAT_VERSION", "load", "read_header", "register", "save"]
