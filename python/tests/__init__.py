"""Tests of the package; `scripts/python-tests` runs them."""
