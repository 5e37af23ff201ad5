"""Decide, queue, repair: the loop and one module per step."""
