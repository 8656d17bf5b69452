"""transformers with SDPA, its default, asked for its attentions: most models then report none."""

import transformers_eager

transformers_eager.IMPLEMENTATION = "sdpa"
attention = transformers_eager.attention
