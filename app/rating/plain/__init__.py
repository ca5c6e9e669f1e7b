"""The paper's estimators: Elo, m-ELO (Bradley-Terry), and scores and abilities that are maximised together.

`likelihood` has the derivatives of ℓ(R, θ), `m_elo` the scores at known abilities, `joint` Algorithm 2's maximum,
`information` what the votes say of the scores once abilities are eliminated, `elo` Algorithm 1.
"""
