"""The rows of X on their way from validation to the solvers: in memory or streamed, shared or not.

arrays.py       arrays, tensors, frames and images -> rows
rows.py         Rows: in memory, one process
streamed.py     StreamedRows: the same, read anew in every pass, by one process or by many
processes.py    one process or many
"""

from __future__ import annotations

from tensorae.rows.rows import Rows
from tensorae.rows.streamed import StreamedRows

__all__ = ["Rows", "StreamedRows"]
