"""The command ``tensorae``. Heavy libraries load inside the commands, so that --help is instant.

app.py         the commands, put together; errors become one sentence and an exit code
options.py     options that belong together, and how a command takes them
messages.py    what is said where: results, notes, progress, JSON
fit.py         tensorae fit
apply.py       tensorae predict | transform | denoise | score | report
photo.py       tensorae photo denoise | inpaint | enlarge; photo_files.py: which file becomes which
info.py        tensorae info, and how clusters are described
"""

from tensorae.cli.app import app, main

__all__ = ["app", "main"]
