"""Which tokens does a head pair, by what it is: which heads detokenize?

Kamoda et al. 2025, §4: the term T^ee of the scores says how much a query token likes a key token,
wherever the two stand. `token_vectors` are its factors; `partners` looks up a few tokens;
`head_auroc` compares with counts of bigrams (Fig. 2D).
"""

from lnattn.affinity.auroc import head_auroc
from lnattn.affinity.topk import partners
from lnattn.attention.vectors import token_vectors

__all__ = ["head_auroc", "partners", "token_vectors"]
