"""What does attention do by position?

Kamoda et al. 2025, §5: the terms T^p and T^pp depend on positions only, but for their divisor
σ(e_v + p_j), which `inverse_sigma_bands` summarises; `position_bias` gives both terms with their
bands; `measured_attention` is attention on text.
"""
