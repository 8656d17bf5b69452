"""TransformerLens 4: the pattern that a TransformerBridge caches in its first block."""

from functools import cache

import torch
from tokenizers import Tokenizer, models
from transformer_lens.model_bridge import TransformerBridge
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()


@cache
def _bridge(folder):
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(50)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0")
    return TransformerBridge.boot_transformers(
        str(folder), device="cpu", dtype=torch.float32, tokenizer=tokenizer
    )


def attention(folder, token_ids):
    """[head query key] of layer 0."""
    try:
        bridge = _bridge(folder)
    except ValueError as error:  # an architecture that it has no bridge for
        raise NotImplementedError(str(error).split("\n")[0][:80]) from error
    with torch.no_grad():
        _, cache_of_run = bridge.run_with_cache(torch.tensor([token_ids]))
    # T5's encoder and Whisper's decoder have names of their own.
    names = ("blocks.0.attn", "encoder_blocks.0.attn", "decoder_blocks.0.self_attn")
    hooks = (f"{name}.hook_pattern" for name in names)
    return cache_of_run[next(hook for hook in hooks if hook in cache_of_run)][0]
