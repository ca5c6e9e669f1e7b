"""One model of votes: abilities integrated out, one mixture of types, everything else read off it.

Annotator k votes on models a and b with P(a wins) = σ(θ_k (R_a − R_b)), a tie half a win for each. θ_k is random:

- honest: N(1, τ²), whose mean is the unit; τ is estimated from the crowd
- coin: θ = 0; contrary: N(−1, τ²); follower: votes as the ranking of balanced votes has it but for slips

each type with a share that is estimated under a weak prior. The scores solve the marginal equations of `scores`,
in which every θ_k is integrated out. `law` is the crowd's law, `crowd` the annotators of one part of the votes with
their posteriors, `kernels` and `score_kernels` their compiled loops, `covariance` the errors.
"""
