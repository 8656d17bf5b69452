"""What does attention do by position, and what do variances do to it? (chapters 5 and 7)

Kamoda et al. 2025, §5: the terms T^p and T^pp depend on positions only, but for their divisor
σ(e_v + p_j), which `inverse_sigma_bands` summarises; `position_bias` gives both terms with their
bands; `measured_attention` is attention on text. §6.2–6.4: `frequency_study` and
`first_token_switch` ask what large variances do.
"""
