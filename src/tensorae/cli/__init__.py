"""The command ``tensorae``. Heavy libraries load inside the commands, so that --help is instant.

app.py         the commands, put together; errors become one sentence and an exit code
options.py     options that several commands share
voice.py       what is said where: results, notes, progress, JSON
fit.py         tensorae fit
training.py    options -> model, and its fit
summary.py     what fit and info say about a model
results.py     model and table -> results -> file, for the commands below
apply.py       tensorae predict | transform | denoise | score
info.py        tensorae info
report.py      tensorae report
reproduce.py   tensorae reproduce
"""

from tensorae.cli.app import app, main

__all__ = ["app", "main"]
