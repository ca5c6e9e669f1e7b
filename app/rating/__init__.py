"""The mathematics: votes as arrays in, a leaderboard out.

It imports numpy, scipy and numba, and nothing of the service; the estimators import polars and narwhals too.

Rooms, each of which imports only from the ones before it:

- `settings`: of a round, of verdicts, of sampling
- `votes`: votes, cells (votes by annotator and pair), the comparison graph
- `fit`: the likelihood; am-ELO by sequential quadratic programming, m-ELO by Newton, Elo; bias correction; abilities at
  fixed scores
- `uncertainty`: which models have a finite score, covariance, intervals, ranks, notices, influence of annotators
- `detection`: evidence against annotators
- `verdict`: one round of the Stable Arena loop and who it flags; whether the order is decided, and how few votes decide
  it; slices of the votes; Elo over orders
- `sampling`: which pair the next battle shows
- `estimators`: for notebooks, over the same code; the package `stable_arena` is their face

Beside them: `errors`, `arrays`, `threads`, and `compiled` with `compile` for compiled kernels. Verbs: `fit_…` finds the
parameters of one method for given votes, and return a `FitResult`; `minimise` is the numerical search behind it;
`solve` is for linear systems; `estimate` fits the identified models, with their covariance, as a `Rating`; `run_round`
does it for a round, and flags.
"""
