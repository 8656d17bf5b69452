"""Which tokens does a head pair, by what it is: which heads detokenize? (chapter 4)

Kamoda et al. 2025, §4: the term T^ee of the scores says how much a query token likes a key token,
wherever the two stand. `token_vectors` are its factors; `partners` looks up a few tokens;
`head_auroc` compares with counts of bigrams (Fig. 2D); `detokenization` is the whole study.
"""

from lnattn.affinity.auroc import head_auroc
from lnattn.affinity.study import AffinityResult, detokenization
from lnattn.affinity.topk import partners
from lnattn.affinity.vectors import token_vectors

__all__ = ["AffinityResult", "detokenization", "head_auroc", "partners", "token_vectors"]
