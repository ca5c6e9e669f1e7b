"""The mathematics: votes as arrays in, a leaderboard out.

It imports numpy, scipy and numba, and nothing of the service; the estimators import polars and narwhals too.

Rooms, each of which imports only from the ones before it:

- `settings`: of a round, of verdicts, of sampling
- `votes`: votes, cells (votes by annotator and pair), the comparison graph
- `fit`: the likelihood and its arrow; am-ELO by sequential quadratic programming, m-ELO by Newton, Elo; the strategy of
  a fit, with what is tried where votes have no maximum; bias correction; abilities at fixed scores
- `model`: one model of votes, with abilities integrated out, which is to replace `fit` and `uncertainty`
- `uncertainty`: covariance, intervals, ranks, bounds, notices, influence of annotators: an `Estimate` and what reads it
- `types`: which type of annotator each one is
- `verdict`: one round of the Stable Arena loop and who it flags; whether the order is decided, and how few votes decide
  it; categories of the votes; Elo over orders
- `sampling`: which pair the next battle shows
- `simulation`: made-up arenas, and how many votes they need
- `estimators`: for notebooks, over the same code; the package `stable_arena` is their face

Beside them: `errors`, `arrays`, `threads`, and `compiled` with `compile` for compiled kernels. A fit goes through
`run_round`, `fit_without_errors`, `fit_votes` (the strategy), `fit_models` (one set of models), `find_maximum` and
`minimise` (the search). Verbs: `fit_…` finds the parameters of one method for given votes; `solve` is for linear
systems; `estimate` makes a `Rating` outside the loop.
"""
