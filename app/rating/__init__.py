"""The mathematics: votes as arrays in, a leaderboard out.

It imports numpy, scipy and numba, and nothing of the service; the estimators import polars and narwhals too.

Rooms, each of which imports only from the ones before it:

- `settings`: of a round, of verdicts, of sampling
- `votes`: votes, cells (votes by annotator and pair), the comparison graph, what answers differ in
- `model`: one model of votes, with abilities integrated out
- `plain`: the paper's estimators: Elo, m-ELO, scores and abilities that are maximised together
- `uncertainty`: covariance, intervals, ranks, bounds, notices, influence of annotators: an `Estimate` and what reads it
- `types`: which type of annotator each one is
- `verdict`: one round of the Stable Arena loop and who it flags; whether the order is decided, and how few votes decide
  it; categories of the votes; Elo over orders
- `judges`: judges beside people, and their own leaderboard
- `sampling`: which pair the next battle shows
- `simulation`: made-up arenas
- `estimators`: for notebooks and for `rate`, over the same code; the package `stable_arena` is their face

Beside them: `errors`, `arrays`, `threads`, and `compiled` with `compile` for compiled kernels. A fit goes through
`run_round`, `fit_without_errors`, and `fit_scores`, `fit_m_elo` or `fit_joint`. Verbs: `fit_…` finds the parameters of
one method for given votes; `estimate` makes a `Rating` outside the loop.
"""
