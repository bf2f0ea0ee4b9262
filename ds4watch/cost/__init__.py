"""Prices and what they come to: integers of 1e-9 of the currency, never a float sum."""
