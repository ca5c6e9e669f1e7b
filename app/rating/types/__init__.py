"""Which type of annotator each one is, at given scores: the posterior of the types and of the ability.

A vote with the first model d better is won, tied, lost with weights e^{x/2} : ν : e^{−x/2}, x = θ_k d + λ_k z, z the
side (Davidson 1970). So a decided vote is won with σ(x), whatever ν: abilities, leans and most types are read off
decided votes. `law` is the crowd's law of types, abilities and ties, `habits` each annotator's θ, λ and ν,
`favouritism` those who push or bury a model, `kernels` the compiled loops, `evidence` what the rest of the program
reads. `drift` asks whether one annotator's ability changed.
"""
