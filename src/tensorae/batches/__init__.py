"""Data larger than memory: rows in batches, from any source, again and again."""

from __future__ import annotations

from tensorae.batches.batches import Batches

__all__ = ["Batches"]
