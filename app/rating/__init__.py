"""The mathematics: votes as arrays in, a leaderboard out.

It imports numpy, scipy and numba, and nothing of the service; the estimators import polars and narwhals too.

Rooms, each of which imports only from the ones before it:

- `data`: votes, cells (votes by annotator and pair), the comparison graph, threads, compiled kernels
- `solver`: the likelihood; am-ELO by sequential quadratic programming, m-ELO by Newton, Elo; bias correction; abilities
  at fixed scores
- `inference`: which models have a finite score, covariance, intervals, ranks, notices, influence of annotators
- `detection` and `robustness`: evidence against annotators, flag rules; how few votes decide the order of two models
- `loop`: one round of the Stable Arena loop; slices of the votes; Elo over orders
- `estimators`: for notebooks, over the same code; the package `stable_arena` is their face

`settings` holds the settings of a round, `errors` the errors. Verbs: `fit_…` finds the parameters of one method for
given votes, and return a `FitResult`; `minimise` is the numerical search behind it; `solve` is for linear systems;
`estimate` fits the identified models, with their covariance, as a `Rating`; `run_round` does it for a round, and flags.
"""
