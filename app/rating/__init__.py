"""The mathematics: votes as arrays in, a leaderboard out. It imports numpy, scipy and numba, nothing of the service.

Rooms, each of which imports only from the ones before it:

- `data`: votes, cells (votes by annotator and pair), the comparison graph, threads, compiled kernels
- `solver`: the likelihood, its Newton solvers, m-ELO, am-ELO, Elo; bias correction; abilities at fixed scores
- `inference`: which models have a finite score, covariance, intervals, ranks, influence of votes and annotators
- `detection` and `robustness`: evidence against annotators, flag rules; how few votes decide the order of two models
- `loop`: one round of the Stable Arena loop, its results and notices; slices of the votes

`settings` holds the settings of a round, `errors` the errors. Verbs: `fit_…` finds the parameters of one method for
given votes; `minimise` is the numerical search behind it; `solve` is for linear systems; `estimate` is a fit of the
identified models with its covariance; `run_round` does all of it, and flags.
"""
