"""Reading a whole GPT-2: what `load_first_layer` reads, and the FFNs, ln_f and the unembedding."""

from __future__ import annotations

from pathlib import Path

from lnattn.errors import CheckpointError
from lnattn.models.architectures import GPT2
from lnattn.models.checkpoints import open_checkpoint
from lnattn.models.choice import Choice
from lnattn.transformer import ACTIVATIONS, Block, FeedForward, Transformer


def load_transformer(name_or_path: str | Path | Choice) -> Transformer:
    """Load all weights of a GPT-2-shaped model.

    name_or_path: as for `load_first_layer`.
    Raises `CheckpointError` for another family, for a partial checkpoint, and for whatever is
    wrong with the files.

    >>> load_transformer("book-gpt2").n_layers
    2
    """
    checkpoint = open_checkpoint(name_or_path, whole=True)
    if not isinstance(checkpoint.family, GPT2):
        raise CheckpointError(
            f"{checkpoint.name} is no GPT-2; other families are read by their attention blocks."
        )
    return assemble(checkpoint.family)


def assemble(family: GPT2) -> Transformer:
    """A `Transformer` of what a reader of GPT-2's tensors finds.

    Raises `CheckpointError`, as `load_transformer` does.
    """
    config = family.config
    d_model = family.d_model
    label = family.weights.label
    activation = config.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        known = ", ".join(sorted(ACTIVATIONS))
        raise CheckpointError(f"{label}: activation {activation!r} is not supported, only {known}.")
    embeddings = family.embeddings()
    W_E = embeddings.tokens()  # one clear error for a checkpoint that has none
    d_mlp = config.get("n_inner") or 4 * d_model
    eps = family.number("layer_norm_epsilon", 1e-5)

    def block(layer: int) -> Block:
        at = f"h.{layer}.mlp."
        mlp = FeedForward(
            ln=family.layer_norm(f"h.{layer}.ln_2", eps),
            W_in=family.read(f"{at}c_fc.weight", d_model, d_mlp),
            b_in=family.read(f"{at}c_fc.bias", d_mlp),
            W_out=family.read(f"{at}c_proj.weight", d_mlp, d_model),
            b_out=family.read(f"{at}c_proj.bias", d_model),
            activation=activation,
        )
        return Block(attention=family.attention(layer), mlp=mlp)

    # Hugging Face keeps the unembedding outside 'transformer.', and saves it only if it is untied.
    separate = "lm_head.weight" in family.weights
    if not separate and not config.get("tie_word_embeddings", True):
        raise CheckpointError(
            f"{label} does not tie its unembedding to the embeddings, but holds no "
            "'lm_head.weight'; fetch the model with its language-model head."
        )
    W_U = family.weights.read("lm_head.weight") if separate else W_E
    return Transformer(
        embeddings=embeddings,
        blocks=tuple(block(layer) for layer in range(family.n_layers)),
        ln_f=family.layer_norm("ln_f", eps),
        W_U=W_U.T,
    )
