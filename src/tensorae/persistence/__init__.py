"""Models that keep: one safetensors file with a JSON header, no pickle inside.

container.py    a file <-> header and tensors: versions, checksum, atomic writing
fields.py       which fitted numbers a file holds, with their shapes
parameters.py   constructor parameters <-> JSON
modules.py      the autoencoders of TAE: state <-> module
state.py        fitted attributes <-> tensors
models.py       save and load
"""

from tensorae.persistence.models import FORMAT_VERSION, load, read_header, save

__all__ = ["FORMAT_VERSION", "load", "read_header", "save"]
