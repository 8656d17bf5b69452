"""Which tokens does a head pair, by what it is: which heads detokenize? (chapter 06)

Kamoda et al. 2025, §4: the term T^ee of the scores says how much a query token likes a key token,
wherever the two stand. From the weights alone: every token's vectors and best partners (§4.1,
Fig. 2A, Table 1), the same-token heat map (§4.2, Fig. 2B), and how well a head's scores tell true
bigrams from other pairs (AUROC, §4.2, Fig. 2C and 2D), beside baselines without that head.

`token_vectors` are the factors of T^ee; `partners` looks up a few tokens; `head_auroc` compares
with counts of bigrams; `detokenization` is the whole study, and `Detokenization` its result.
"""

from lnattn.affinity.auroc import head_auroc
from lnattn.affinity.study import Detokenization, detokenization
from lnattn.affinity.topk import partners
from lnattn.affinity.vectors import token_vectors

__all__ = ["Detokenization", "detokenization", "head_auroc", "partners", "token_vectors"]
