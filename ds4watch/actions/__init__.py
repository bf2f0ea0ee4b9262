"""Claim, run, verify, record, undo: one handler for each kind of action."""
