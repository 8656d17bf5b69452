"""GPT-2's own answer to §5.3 and §6.4 of Kamoda et al. 2025, by place alone."""
