"""What decides a training run: its sizes, its schedule, its architecture."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch.nn import Parameter
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from experiments.book_model.forward import ATTENTION, PRECISIONS
from lnattn.errors import CheckpointError

#: What may be chosen by name.
CHOICES = {
    "schedule": ("cosine", "trapezoid"),
    "precision": tuple(PRECISIONS),
    "architecture": ("gpt2", "llama"),
    "attention": tuple(ATTENTION),
    "positions": ("trained", "frozen"),
    "unembedding": ("tied", "own"),
}

#: The share of a trapezoid's steps over which the learning rate falls.
_DECAY = 0.2
#: Query heads that share a key head in a Llama.
_GROUP = 4


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that decides the outcome of a training run, besides the corpus.

    Sizes in tokens; `batch` counts windows of `context` tokens; learning rate: linear warm-up
    over `warmup` steps, then by `schedule` either "cosine", down to a tenth of `learning_rate` at
    `steps`, or "trapezoid": constant, then in the last fifth of the steps linearly to 0. A
    trapezoid's length may be decided late: up to its corner it does not depend on `steps`.
    precision: of the products, "float32" or "bfloat16"; parameters are float32 in both.
    architecture: "gpt2", or "llama" with as many parameters: RMSNorm, rotary positions, one key
    head for four query heads, SwiGLU. attention: "causal", or, of a GPT-2, "rotary": its queries
    and keys are turned as a Llama's and it has no learned positions; nothing else differs.
    positions: of a GPT-2, "trained", or "frozen" as they were drawn. unembedding: of a GPT-2,
    "tied" to the token embedding, or its "own" matrix, which starts as a copy of it.
    """

    layers: int = 2
    d_model: int = 256
    heads: int = 8
    context: int = 256
    vocab_size: int = 8192
    steps: int = 3600
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 200
    weight_decay: float = 0.1
    dropout: float = 0.2
    evaluate_every: int = 300
    patience: int = 4
    seed: int = 0
    schedule: str = "cosine"
    precision: str = "float32"
    architecture: str = "gpt2"
    attention: str = "causal"
    positions: str = "trained"
    unembedding: str = "tied"

    def __post_init__(self) -> None:
        sizes = ("layers", "d_model", "heads", "context", "steps", "batch", "evaluate_every")
        for name in (*sizes, "patience"):
            if getattr(self, name) < 1:
                raise CheckpointError(f"{name} = {getattr(self, name)} must be at least 1.")
        for name, known in CHOICES.items():
            if (value := getattr(self, name)) not in known:
                raise CheckpointError(f"{name} = {value!r} is not one of {', '.join(known)}.")
        if self.d_model % self.heads:
            raise CheckpointError(
                f"d_model = {self.d_model} does not divide into {self.heads} heads of equal width."
            )
        if self.architecture == "llama" and self.heads % _GROUP:
            raise CheckpointError(
                f"heads = {self.heads} is no multiple of {_GROUP}, the query heads of a key head."
            )
        if self.attention == "rotary" and self.architecture != "gpt2":
            raise CheckpointError("a llama's positions are rotary; leave out --attention.")
        learned = self.architecture == "gpt2" and self.attention == "causal"
        if not learned and (self.positions, self.unembedding) != ("trained", "tied"):
            raise CheckpointError(
                "frozen positions and an unembedding of its own are for a GPT-2 with learned "
                "positions; leave out --positions and --unembedding."
            )

    def new_model(self, end_of_text: int) -> PreTrainedModel:
        """A model with random weights (torch's generator), in the classes of `transformers`."""
        if self.architecture == "llama":
            return LlamaForCausalLM(self._llama(end_of_text))
        model = GPT2LMHeadModel(self._gpt2(end_of_text))
        if self.attention == "rotary":
            model.transformer.wpe.weight.requires_grad_(False).zero_()
        if self.positions == "frozen":
            model.transformer.wpe.weight.requires_grad_(False)
        if self.unembedding == "own":
            model.config.tie_word_embeddings = False
            model.lm_head.weight = Parameter(model.transformer.wte.weight.detach().clone())
        return model

    def _gpt2(self, end_of_text: int) -> GPT2Config:
        return GPT2Config(
            vocab_size=self.vocab_size,
            n_positions=self.context,
            n_embd=self.d_model,
            n_layer=self.layers,
            n_head=self.heads,
            resid_pdrop=self.dropout,
            embd_pdrop=self.dropout,
            attn_pdrop=self.dropout,
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
            attn_implementation=ATTENTION[self.attention],
            # Stored in config.json, so that no reader takes it for a GPT-2 without positions.
            **({"positions": "rotary"} if self.attention == "rotary" else {}),
        )

    def _llama(self, end_of_text: int) -> LlamaConfig:
        """Its feed-forward width, a multiple of 32, makes up for what the GPT-2 has more of."""
        d = self.d_model
        key_heads = self.heads // _GROUP
        gpt2 = self.layers * (12 * d * d + 13 * d) + self.context * d + 2 * d
        attention = 2 * d * d + 2 * d * (d // self.heads) * key_heads
        width = ((gpt2 - d) / self.layers - attention - 2 * d) / (3 * d)
        return LlamaConfig(
            vocab_size=self.vocab_size,
            max_position_embeddings=self.context,
            hidden_size=d,
            intermediate_size=max(32, 32 * round(width / 32)),
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=key_heads,
            attention_dropout=self.dropout,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
            attn_implementation="eager",
        )

    def rate(self, step: int) -> float:
        """Learning rate at a step (counted from 0)."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        if self.schedule == "trapezoid":
            return self.learning_rate * min(1.0, (self.steps - step) / (_DECAY * self.steps))
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))
