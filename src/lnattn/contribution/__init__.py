"""How far does attention move without one of its six terms?

Kamoda et al. 2025, §6.1 and Fig. 4: the contribution of a term at a query is the KL divergence of
attention from attention without it. `contributions` is the study; a `Convention` is one way to
count (`TEXT` is the paper's); `kl_of_removal` is one divergence by its formula.
"""
