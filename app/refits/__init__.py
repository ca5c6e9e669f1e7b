"""Refits, in the order of their way: schedule → load → fit → publish.

`runner` takes these steps one after the other under the refit lease. `load` reads a `FitInput`, `fit` turns it into a
`FitOutput` in a child process, `guard` checks it, and `publish` writes the snapshot.
"""
