"""What does attention do by position, and what do variances do to it? (chapters 07 and 09)

Kamoda et al. 2025, §5: the terms T^p and T^pp depend on positions only, but for their divisor
σ(e_v + p_j). Does T^p rise with the key's position (§5.1), does T^pp undulate (§5.2), and do both
keep attention near (§5.3), as attention on text does (§5.4)? And §6.2–6.4: which tokens and
positions have large variances, and does σ at position 0 make it a sink?

`inverse_sigma_bands` summarises the divisor; `position_bias` gives both terms with their bands;
`measured_attention` is attention on text; `frequency_study` and `first_token_switch` ask of
variances. `without_tokens` is what a checkpoint without token embeddings still tells.
"""

from lnattn.position.bias import position_bias
from lnattn.position.first_token import first_token_switch
from lnattn.position.measured import measured_attention
from lnattn.position.sigma import inverse_sigma_bands
from lnattn.position.variance import frequency_study

__all__ = [
    "first_token_switch",
    "frequency_study",
    "inverse_sigma_bands",
    "measured_attention",
    "position_bias",
]
