"""transformers with its eager attention: what a model reports when it is asked for attentions."""

from functools import cache

import torch
from transformers import AutoModel
from transformers.utils import logging

IMPLEMENTATION = "eager"
# Else each case reports the tensors of its head, which are not asked for here.
logging.set_verbosity_error()
logging.disable_progress_bar()


@cache
def model(folder):
    """The model in float64, or its part that attends: T5's encoder, Whisper's decoder."""
    # Experts one by one: the fused ones know no double precision.
    kinds = {"attn_implementation": IMPLEMENTATION, "experts_implementation": "eager"}
    try:
        whole = AutoModel.from_pretrained(folder, dtype=torch.float64, **kinds).eval()
    except ValueError as error:
        if "does not support" in str(error):
            raise NotImplementedError(str(error).split("\n")[0][:80]) from error
        raise
    if whole.config.model_type == "whisper":
        return whole.get_decoder()
    return whole.get_encoder() if whole.config.is_encoder_decoder else whole


def attention(folder, token_ids):
    """[head query key] of layer 0."""
    with torch.no_grad():
        out = model(folder)(input_ids=torch.tensor([token_ids]), output_attentions=True)
    if not out.attentions or out.attentions[0] is None:
        raise NotImplementedError("it reports no attention with this kernel")
    return out.attentions[0][0]
