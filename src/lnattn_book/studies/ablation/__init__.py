"""Does the model use what its first layer's weights foretell? (chapter 4)

A part of the first layer's scores is taken out, in all heads or in one, and the loss is measured
where it should matter: after second pieces of split words and after second words of names, beside
other tokens that are as frequent and as hard to continue. The papers read weights only; this asks
whether what Kamoda et al. 2025 read (§4, §5) is used. `ablations` is the study, and `Ablations` its
result, with intervals by `interval`; what a vocabulary's tokens are it is told by
`lnattn.affinity.subwords.TokenClasses`.
"""
