"""What is right: scores, attention and terms of a first layer, from its config.json and tensors.

The formulas are those of `lnattn.plain`, one by one, and of the papers that made the rotary
schemes. Nothing here is taken from lnattn's fast paths or from transformers. All arithmetic runs on
Python's decimals of 50 digits and is rounded once, to float64, at the end: so every machine writes
the same bytes, and what a library differs by is its own error. On float64 arrays the same functions
run as they are, which the tests use.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

decimal.setcontext(decimal.Context(prec=50, Emin=-(10**8), Emax=10**8))
Array = np.ndarray
#: Names of the terms where positions are learned, and where they are not.
SIX = ("ee", "ep", "pe", "pp", "e", "p")
FOUR = ("ee", "ed", "e", "d")
PI = Decimal("3.14159265358979323846264338327950288419716939937510582")


# ==== Numbers ====================================================================================


def exact(values: Any) -> Array:
    """An array of decimals, each exactly the binary number that was given."""
    array = np.asarray(values)
    return np.array([Decimal(float(x)) for x in array.ravel()], dtype=object).reshape(array.shape)


def _elementwise(of_decimals: Callable[[Decimal], Decimal], of_floats: Any) -> Callable[[Any], Any]:
    on_objects = np.frompyfunc(of_decimals, 1, 1)
    return lambda x: on_objects(x) if np.asarray(x).dtype == object else of_floats(x)


def _series(x: Decimal, term: Decimal, k: int) -> Decimal:
    """Σ ± x^k/k! from a first term on, in steps of two: the cosine from k = 0, the sine from 1."""
    total = term
    while abs(term) > Decimal("1e-55"):
        term *= -x * x / ((k + 1) * (k + 2))
        total += term
        k += 2
    return total


cos = _elementwise(lambda x: _series(x, Decimal(1), 0), np.cos)
sin = _elementwise(lambda x: _series(x, x, 1), np.sin)
tanh = _elementwise(lambda x: 1 - 2 / ((2 * x).exp() + 1), np.tanh)
sqrt = np.sqrt  # of decimals by their own method, as exp is
exp = np.exp


# ==== Norms (plain.py §1) ========================================================================


def layer_norm(x: Array, gamma: Array, beta: Array, eps: Any) -> Array:  # [... d]
    """x less its mean, over its standard deviation with ε."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * gamma + beta


def rms_norm(x: Array, gamma: Array, beta: Array, eps: Any) -> Array:  # [... d]
    """x over its root mean square with ε; nothing is centred."""
    return x / sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * gamma + beta


# ==== A first layer ==============================================================================


@dataclass(frozen=True)
class Norm:
    """centred: LayerNorm; joint: over all heads of a token at once. gamma, beta: [d] or [H d']."""

    gamma: Array
    beta: Array
    eps: Any
    centred: bool = False
    joint: bool = False

    def __call__(self, x: Array) -> Array:
        """[n d], or [H n d'] of heads."""
        norm = layer_norm if self.centred else rms_norm
        if x.ndim == 2:
            return norm(x, self.gamma, self.beta, self.eps)
        if self.joint:
            heads, n, d_head = x.shape
            rows = x.transpose(1, 0, 2).reshape(n, -1)
            rows = norm(rows, self.gamma.ravel(), self.beta.ravel(), self.eps)
            return rows.reshape(n, heads, d_head).transpose(1, 0, 2)
        return norm(x, self.gamma[:, None], self.beta[:, None], self.eps)


@dataclass(frozen=True)
class Rotation:
    """speeds: of each pair of coordinates, for a text of n tokens; factor: of cosine and sine.

    interleaved: coordinates 2k and 2k + 1 are a pair, not k and k + rotated/2; unscaled: the speeds
    that a scheme changes, None where there is none.
    """

    speeds: Callable[[int], Array]
    factor: Any = 1
    interleaved: bool = False
    unscaled: Array | None = None

    def __call__(self, x: Array) -> Array:  # [H n d']
        """Row m of every head turned by m times the speed of each pair (Su et al. 2021)."""
        n = x.shape[1]
        speeds = self.speeds(n)
        angles = np.arange(n)[:, None] * speeds
        c, s = cos(angles) * self.factor, sin(angles) * self.factor
        pairs = len(speeds)
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
        if self.interleaved:
            first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        turned = x.copy()
        turned[..., first] = x[..., first] * c - x[..., second] * s
        turned[..., second] = x[..., second] * c + x[..., first] * s
        return turned


@dataclass(frozen=True)
class FirstLayer:
    """All that the scores of a first layer are made of; what a family has none of is None.

    tokens: [vocab d]; factor, norm_E: what they are multiplied by and normalised with; positions:
    [position d], learned; W_Q, b_Q: [H d d'], [H d']; W_K, b_K: [G d d'], [G d'], heads of a group
    side by side; norm: what feeds them; norm_Q, norm_K: of queries and keys; penalty: of a distance
    i − j, [n n] -> [H n n], added to scaled scores; cap: c in c·tanh(s/c); sinks: [H].
    """

    tokens: Array
    W_Q: Array
    b_Q: Array
    W_K: Array
    b_K: Array
    scale: Any
    factor: Any = 1
    norm_E: Norm | None = None
    norm: Norm | None = None
    positions: Array | None = None
    norm_Q: Norm | None = None
    norm_K: Norm | None = None
    clip: Any = None
    rotation: Rotation | None = None
    penalty: Callable[[Array], Array] | None = None
    cap: Any = None
    sinks: Array | None = None
    window: int | None = None
    causal: bool = True

    def rows(self) -> Array:
        """What the first layer reads of every token, [vocab d]."""
        rows = self.tokens * self.factor
        return rows if self.norm_E is None else self.norm_E(rows)


def expected(layer: FirstLayer, ids: Sequence[int]) -> dict[str, Array]:
    """scores: what the softmax is given; attention; and the terms by name, all [H n n].

    With learned positions the six terms add up to scores · scale but for a number per query, the
    part of the keys' bias (K Eq. 13); the other four, with q₀ and k₀ the means over the vocabulary,
    add up to it exactly, before the cap.
    """
    terms = _six(layer, ids) if layer.positions is not None else _four(layer, ids)
    n = len(ids)
    if layer.positions is None:
        scores = sum(terms.values()) / layer.scale
    else:
        x = layer.rows()[list(ids)] + layer.positions[:n]
        q, k = _project(layer, x)
        scores = q @ k.transpose(0, 2, 1) / layer.scale
    if layer.cap is not None:
        scores = layer.cap * tanh(scores / layer.cap)
    return {"scores": scores, "attention": _attend(layer, scores), **terms}


def _attend(layer: FirstLayer, scores: Array) -> Array:
    """The softmax over the keys that a query sees, beside its sink (plain.py §2)."""
    n = scores.shape[-1]
    distance = np.arange(n)[:, None] - np.arange(n)
    seen = distance >= 0 if layer.causal else np.ones((n, n), dtype=bool)
    if layer.window is not None:
        seen = seen & (distance < layer.window)
    zero = scores.ravel()[0] * 0
    low = np.where(seen, scores, zero - 10**6)
    largest = low.max(axis=-1, keepdims=True)
    weights = np.where(seen, exp(scores - largest), zero)
    total = weights.sum(axis=-1, keepdims=True)
    if layer.sinks is not None:
        total = total + exp(layer.sinks[:, None, None] - largest)
    return weights / total


def _project(layer: FirstLayer, x: Array) -> tuple[Array, Array]:
    """Queries and keys [H n d'], not rotated."""
    y = x if layer.norm is None else layer.norm(x)
    both = []
    for W, b, norm in ((layer.W_Q, layer.b_Q, layer.norm_Q), (layer.W_K, layer.b_K, layer.norm_K)):
        out = y @ W + b[:, None]
        if layer.clip is not None:
            out = np.minimum(np.maximum(out, -layer.clip), layer.clip)
        both.append(out if norm is None else norm(out))
    return both[0], np.repeat(both[1], len(layer.W_Q) // len(layer.W_K), axis=0)


def _six(layer: FirstLayer, ids: Sequence[int]) -> dict[str, Array]:
    """T^ab = a W_QK b/(σ σ), T^a = b_QK a/σ (plain.py §4), with C and γ put into the vectors."""
    norm = layer.norm
    assert norm is not None
    assert layer.positions is not None
    e, p = layer.rows()[list(ids)], layer.positions[: len(ids)]
    x = e + p
    sigma = sqrt(((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True) + norm.eps)
    parts = {
        name: (part - part.mean(-1, keepdims=True)) / sigma * norm.gamma
        for name, part in (("e", e), ("p", p))
    }
    keys = {name: (part @ layer.W_K).transpose(0, 2, 1) for name, part in parts.items()}
    constant = norm.beta @ layer.W_Q + layer.b_Q  # [H d']
    terms = {a + b: parts[a] @ layer.W_Q @ keys[b] for a in "ep" for b in "ep"}
    for b in "ep":
        terms[b] = np.repeat(constant[:, None] @ keys[b], len(ids), axis=1)
    return terms


def _four(layer: FirstLayer, ids: Sequence[int]) -> dict[str, Array]:
    """q̃ R k̃ (ee), q̃ R k₀ (ed), q₀ R k̃ (e), q₀ R k₀ + penalty · scale (d) (plain.py §7)."""
    q_all, k_all = _project(layer, layer.rows())
    n = len(ids)
    chosen = list(ids)
    q0 = np.repeat(q_all.mean(axis=1, keepdims=True), n, axis=1)
    k0 = np.repeat(k_all.mean(axis=1, keepdims=True), n, axis=1)
    turn = layer.rotation or (lambda x: x)
    q, k = turn(q_all[:, chosen] - q0), turn(k_all[:, chosen] - k0).transpose(0, 2, 1)
    q0, k0 = turn(q0), turn(k0).transpose(0, 2, 1)
    terms = {"ee": q @ k, "ed": q @ k0, "e": q0 @ k, "d": q0 @ k0}
    if layer.penalty is not None:
        distance = np.arange(n)[:, None] - np.arange(n)
        terms["d"] = terms["d"] + layer.penalty(distance) * layer.scale
    return terms


# ==== Rotary schemes =============================================================================


@dataclass(frozen=True)
class Rope:
    """What a rotary scheme is told, as numbers of one kind.

    plain: base^(−2k/rotated), the speeds that it changes; rotated: coordinates of the d_head that
    turn; context: of the model; before: of its pretraining, where that was shorter.
    """

    settings: Mapping[str, Any]
    number: Any
    base: Any
    d_head: int
    rotated: int
    context: int
    before: int
    plain: Array

    def __getitem__(self, name: str) -> Any:
        return self.number(self.settings[name])


def rotation(config: Mapping[str, Any], d_head: int, number: Any) -> Rotation:
    """The rotation that `rope_parameters` ask for. number: makes a number of a setting."""
    settings = config["rope_parameters"]
    share = settings.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    rotated = int(d_head * share)
    base = number(settings["rope_theta"])
    context = config["max_position_embeddings"]
    rope = Rope(
        settings=settings,
        number=number,
        base=base,
        d_head=d_head,
        rotated=rotated,
        context=context,
        before=settings.get("original_max_position_embeddings", context),
        plain=1 / base ** np.array([number(2 * m) / rotated for m in range(rotated // 2)]),
    )
    return SCHEMES[settings.get("rope_type", "default")](rope)


def _default(rope: Rope) -> Rotation:
    return Rotation(lambda n: rope.plain)


def _linear(rope: Rope) -> Rotation:
    """Every position is divided by a factor."""
    return Rotation(lambda n: rope.plain / rope["factor"], unscaled=rope.plain)


def _dynamic(rope: Rope) -> Rotation:
    """The base grows with the text, once that is longer than the context."""
    rotated = rope.rotated

    def speeds(n: int) -> Array:
        grown = rope["factor"] * max(n, rope.context) / rope.context - (rope["factor"] - 1)
        base = rope.base * grown ** (rope.number(rotated) / (rotated - 2))
        return 1 / base ** np.array([rope.number(2 * m) / rotated for m in range(rotated // 2)])

    return Rotation(speeds, unscaled=rope.plain)


def _yarn(rope: Rope) -> Rotation:
    """Fast pairs turn as they did, slow ones are stretched, those between in part (Peng 2024)."""
    number = rope.number

    def pair_of(turns: int) -> Any:
        """Which pair turns so many times within the old context."""
        reach = _log(number(rope.before) / (2 * _pi(rope.base) * turns))
        return rope.rotated * reach / (2 * _log(rope.base))

    low = pair_of(rope.settings.get("beta_fast", 32))
    high = pair_of(rope.settings.get("beta_slow", 1))
    if rope.settings.get("truncate", True):
        low, high = number(math.floor(low)), number(math.ceil(high))
    low, high = max(low, number(0)), min(high, number(rope.rotated - 1))
    if low == high:
        high = high + number(0.001)
    slow = np.array([_in_unit((m - low) / (high - low), number) for m in range(len(rope.plain))])
    factor = rope["factor"]
    stretched = rope.plain / factor * slow + rope.plain * (1 - slow)
    attention = number(1) if factor <= 1 else _log(factor) / 10 + 1
    return Rotation(lambda n: stretched, attention, unscaled=rope.plain)


def _longrope(rope: Rope) -> Rotation:
    """One list of factors for short texts, one for long ones (Ding et al. 2024)."""
    number = rope.number
    short = np.array([number(x) for x in rope.settings["short_factor"]])
    long = np.array([number(x) for x in rope.settings["long_factor"]])
    told = rope.settings.get("factor")
    longer = number(told) if told else number(rope.context) / rope.before
    attention = number(1)
    if longer > 1:
        attention = sqrt_of(1 + _log(longer) / _log(number(rope.before)))

    def speeds(n: int) -> Array:
        return rope.plain / (long if n > rope.before else short)

    return Rotation(speeds, attention, unscaled=rope.plain)


def _llama3(rope: Rope) -> Rotation:
    """Pairs that turn seldom within the old context are stretched, those between in part."""
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]

    def stretched(speed: Any) -> Any:
        turns = rope.before * speed / (2 * _pi(rope.base))
        share = _in_unit((turns - low) / (high - low), rope.number)
        return (1 - share) * speed / rope["factor"] + share * speed

    speeds = np.array([stretched(speed) for speed in rope.plain])
    return Rotation(lambda n: speeds, unscaled=rope.plain)


def _proportional(rope: Rope) -> Rotation:
    """Of all pairs of a head the slow ones do not turn, the others as if all did (Gemma 4)."""
    number, pairs = rope.number, rope.rotated // 2
    turning = [1 / rope.base ** (number(2 * m) / rope.d_head) for m in range(pairs)]
    still = [number(0)] * (rope.d_head // 2 - pairs)
    speeds = np.array(turning + still)
    return Rotation(lambda n: speeds, unscaled=rope.plain)


#: Rotary schemes by `rope_type`.
SCHEMES: dict[str, Callable[[Rope], Rotation]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


def _log(x: Any) -> Any:
    return x.ln() if isinstance(x, Decimal) else math.log(x)


def _pi(like: Any) -> Any:
    return PI if isinstance(like, Decimal) else math.pi


def _in_unit(x: Any, number: Any) -> Any:
    """x, but no less than 0 and no more than 1."""
    return min(max(x, number(0)), number(1))


def sqrt_of(x: Any) -> Any:
    """The root of one number of either kind."""
    return x.sqrt() if isinstance(x, Decimal) else math.sqrt(x)


# ==== Penalties by distance ======================================================================


def alibi(heads: int, number: Any) -> Callable[[Array], Array]:
    """−slope · distance with slopes 2^(−8/m), 2^(−16/m), … for m heads (Press et al. 2022).

    m is a power of two; heads beyond it take every second slope of twice as many.
    """
    m = 2 ** int(math.log2(heads))
    powers = [number(8) * (h + 1) / m for h in range(m)]
    powers += [number(8) * (2 * h + 1) / (2 * m) for h in range(heads - m)]
    slopes = np.array([1 / number(2) ** power for power in powers])
    return lambda distance: -slopes[:, None, None] * distance


def buckets(table: Array, farthest: int) -> Callable[[Array], Array]:
    """T5's learned number for the bucket of a distance (Raffel et al. 2020). table: [bucket H].

    Half of the buckets are for keys after the query. Of each side half are for one distance each,
    the rest for ranges that grow to `farthest`.
    """
    side = len(table) // 2
    alone = side // 2

    def bucket(distance: int) -> int:
        far = abs(distance)
        if far >= alone:
            reach = (Decimal(far) / alone).ln() / (Decimal(farthest) / alone).ln()
            far = min(alone + int(reach * (side - alone)), side - 1)
        return far + side * (distance < 0)

    def penalty(distance: Array) -> Array:
        rows = np.vectorize(bucket)(distance)
        return table[rows].transpose(2, 0, 1)

    return penalty


# ==== Reading a case =============================================================================


class Reader:
    """config.json and tensors of a case, as numbers of one kind."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Array], exactly: bool):
        self.config = config
        self.tensors = tensors
        self.number: Any = (lambda x: Decimal(float(x))) if exactly else float
        self.array = exact if exactly else (lambda x: np.asarray(x, dtype=np.float64))

    def __getitem__(self, name: str) -> Array:
        """The one tensor whose name ends so."""
        found = [key for key in self.tensors if key == name or key.endswith("." + name)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} tensors end in {name}: {found}")
        return self.array(self.tensors[found[0]])

    def has(self, name: str) -> bool:
        return any(key == name or key.endswith("." + name) for key in self.tensors)

    def bias(self, name: str, like: Array) -> Array:
        """A bias, or zeros where the checkpoint holds none."""
        return self[name] if self.has(name) else like * 0

    def norm(self, name: str, eps: str | float, plus: int = 0, **more: Any) -> Norm:
        """A norm by the name of its module. eps: a setting or a number; plus: on every gain."""
        gamma = self[f"{name}.weight"] + plus
        value = self.config[eps] if isinstance(eps, str) else eps
        return Norm(gamma, self.bias(f"{name}.bias", gamma), self.number(value), **more)

    def heads(self, weight: Array, bias: Array, heads: int) -> tuple[Array, Array]:
        """A torch Linear's weight [out in] and bias as [H d d'] and [H d']."""
        rows = weight.reshape(heads, -1, weight.shape[1])
        return rows.transpose(0, 2, 1), bias.reshape(heads, -1)

    def linear(self, name: str, heads: int) -> tuple[Array, Array]:
        weight = self[f"{name}.weight"]
        return self.heads(weight, self.bias(f"{name}.bias", weight[:, 0]), heads)


def read(
    config: Mapping[str, Any], tensors: Mapping[str, Array], exactly: bool = True
) -> FirstLayer:
    """The first layer of a case, by the reader of its family."""
    reader = Reader(config, tensors, exactly)
    kind = config["model_type"]
    return FAMILIES.get(kind, _llama)(reader)


def _learned(
    r: Reader, e: Array, p: Array, q: tuple, k: tuple, norm: Norm, scale: Any, **more: Any
) -> FirstLayer:
    (W_Q, b_Q), (W_K, b_K) = q, k
    return FirstLayer(e, W_Q, b_Q, W_K, b_K, scale, norm=norm, positions=p, **more)


def _gpt2(r: Reader) -> FirstLayer:
    heads = r.config["n_head"]
    d = r.config["n_embd"]
    joint, bias = r["h.0.attn.c_attn.weight"].T, r["h.0.attn.c_attn.bias"]  # Conv1D: [in out]
    scale = (
        sqrt_of(r.number(d // heads)) if r.config.get("scale_attn_weights", True) else r.number(1)
    )
    return _learned(
        r, r["wte.weight"], r["wpe.weight"], r.heads(joint[:d], bias[:d], heads),
        r.heads(joint[d : 2 * d], bias[d : 2 * d], heads),
        r.norm("h.0.ln_1", "layer_norm_epsilon", centred=True), scale,
    )  # fmt: skip


def _gpt_neo(r: Reader) -> FirstLayer:
    at, heads = "h.0.attn.attention.", r.config["num_heads"]
    local = r.config["attention_types"][0][0][0] == "local"
    return _learned(
        r, r["wte.weight"], r["wpe.weight"], r.linear(f"{at}q_proj", heads),
        r.linear(f"{at}k_proj", heads), r.norm("h.0.ln_1", "layer_norm_epsilon", centred=True),
        r.number(1), window=r.config["window_size"] if local else None,
    )  # fmt: skip


def _opt(r: Reader) -> FirstLayer:
    """OPT, and Whisper's decoder, which has no rows before the first position."""
    whisper = r.config["model_type"] == "whisper"
    at = "decoder.layers.0.self_attn"
    heads = r.config["decoder_attention_heads" if whisper else "num_attention_heads"]
    e = r["decoder.embed_tokens.weight"]
    return _learned(
        r, e, r["decoder.embed_positions.weight"][0 if whisper else 2 :],
        r.linear(f"{at}.q_proj", heads), r.linear(f"{at}.k_proj", heads),
        r.norm(f"{at}_layer_norm", 1e-5, centred=True), sqrt_of(r.number(e.shape[1] // heads)),
    )  # fmt: skip


def _bert(r: Reader) -> FirstLayer:
    """BERT, ELECTRA, and RoBERTa with its offset; token type 0 stands at every position."""
    heads, d = r.config["num_attention_heads"], r.config["hidden_size"]
    first = 0 if r.config["model_type"] in ("bert", "electra") else r.config["pad_token_id"] + 1
    at = "encoder.layer.0.attention.self."
    positions = r["embeddings.position_embeddings.weight"][first:]
    return _learned(
        r, r["embeddings.word_embeddings.weight"],
        positions + r["embeddings.token_type_embeddings.weight"][0],
        r.linear(f"{at}query", heads), r.linear(f"{at}key", heads),
        r.norm("embeddings.LayerNorm", "layer_norm_eps", centred=True),
        sqrt_of(r.number(d // heads)), causal=bool(r.config.get("is_decoder", False)),
    )  # fmt: skip


#: Families whose windows are those of their local layers, and the first layer is one of them.
_LOCAL_FIRST = ("gemma2", "gemma3_text", "vaultgemma", "gpt_oss", "olmo3")
_ALWAYS_LOCAL = ("mistral", "mixtral", "phi3", "starcoder2")
_GEMMAS = ("gemma", "gemma2", "gemma3_text", "vaultgemma")
_CENTRED = {"phi": "layer_norm_eps", "stablelm": "layer_norm_eps", "starcoder2": "norm_epsilon"}


def _llama(r: Reader) -> FirstLayer:
    """All families that name their tensors as Llama does."""
    c, kind = r.config, r.config["model_type"]
    heads, key_heads = c["num_attention_heads"], c.get("num_key_value_heads")
    key_heads = key_heads or heads
    at, plus = "layers.0.self_attn.", int(kind in _GEMMAS)
    if kind == "phi3":
        joint = r[f"{at}qkv_proj.weight"]
        d_head = len(joint) // (heads + 2 * key_heads)
        cut, stop = heads * d_head, (heads + key_heads) * d_head
        W_Q, b_Q = r.heads(joint[:cut], joint[:cut, 0] * 0, heads)
        W_K, b_K = r.heads(joint[cut:stop], joint[cut:stop, 0] * 0, key_heads)
    else:
        (W_Q, b_Q), (W_K, b_K) = r.linear(f"{at}q_proj", heads), r.linear(f"{at}k_proj", key_heads)
    d_head = W_Q.shape[2]
    tokens = r["embed_tokens.weight"]
    factor = r.number(c.get("embedding_multiplier", 1))
    if kind in _GEMMAS:
        factor = sqrt_of(r.number(tokens.shape[1]))
    scale = sqrt_of(r.number(d_head))
    if "attention_multiplier" in c:
        scale = 1 / r.number(c["attention_multiplier"])
    if "query_pre_attn_scalar" in c:
        scale = sqrt_of(r.number(c["query_pre_attn_scalar"]))
    window = c.get("sliding_window") if kind in _ALWAYS_LOCAL + _LOCAL_FIRST else None
    if kind == "qwen2" and c["use_sliding_window"] and c["max_window_layers"] == 0:
        window = c["sliding_window"]
    cap, clip = c.get("attn_logit_softcapping"), c.get("clip_qkv")
    turns = kind != "smollm3" or c["no_rope_layers"][0]
    return FirstLayer(
        tokens, W_Q, b_Q, W_K, b_K, scale, factor=factor,
        norm=_norm(r, kind, plus),
        norm_Q=_head_norm(r, f"{at}q_", heads, plus),
        norm_K=_head_norm(r, f"{at}k_", key_heads, plus),
        clip=None if clip is None else r.number(clip),
        rotation=rotation(_of_first_layer(c), d_head, r.number) if turns else None,
        cap=None if cap is None else r.number(cap),
        sinks=r[f"{at}sinks"] if kind == "gpt_oss" else None, window=window,
    )  # fmt: skip


def _of_first_layer(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the rotary scheme of the first layer, where layers differ in it."""
    ropes = config["rope_parameters"]
    kinds = config.get("layer_types") or [""]
    return {**config, "rope_parameters": ropes.get(kinds[0], ropes)}


def _norm(r: Reader, kind: str, plus: int) -> Norm | None:
    if kind in ("olmo2", "olmo3"):
        return None
    if kind == "olmo":  # neither gain nor bias
        ones = r.array(np.ones(r.config["hidden_size"]))
        return Norm(ones, ones * 0, r.number(1e-5), centred=True)
    eps = _CENTRED.get(kind, "rms_norm_eps")
    return r.norm("layers.0.input_layernorm", eps, plus, centred=kind in _CENTRED)


def _head_norm(r: Reader, name: str, heads: int, plus: int) -> Norm | None:
    if r.has(f"{name}norm.weight"):  # RMS, by head with one gain, or over all heads
        joint = r.config["model_type"] in ("olmo2", "olmo3")
        gamma = r[f"{name}norm.weight"] + plus
        gamma = gamma.reshape(heads, -1) if joint else np.tile(gamma, (heads, 1))
        return Norm(gamma, gamma * 0, r.number(r.config["rms_norm_eps"]), joint=joint)
    eps = r.number(r.config.get("layer_norm_eps", 0))
    if r.has(f"{name}layernorm.weight"):  # Phi: one LayerNorm for all heads
        gamma, beta = (
            np.tile(r[f"{name}layernorm.{part}"], (heads, 1)) for part in ("weight", "bias")
        )
        return Norm(gamma, beta, eps, centred=True)
    if r.has(f"{name}layernorm.norms.0.weight"):  # StableLM: one a head, without biases
        gamma = np.stack([r[f"{name}layernorm.norms.{head}.weight"] for head in range(heads)])
        return Norm(gamma, gamma * 0, eps, centred=True)
    return None


def _neox(r: Reader) -> FirstLayer:
    """Heads side by side: the query, key and value of one, then of the next."""
    heads = r.config["num_attention_heads"]
    rows, bias = _side_by_side(r, "layers.0.attention.query_key_value", heads, 3)
    W_Q, W_K = (rows[:, part].transpose(0, 2, 1) for part in (0, 1))
    c = {**r.config}
    settings = dict(c["rope_parameters"])
    settings.setdefault("partial_rotary_factor", c.get("rotary_pct", 1.0))
    return FirstLayer(
        r["embed_in.weight"], W_Q, bias[:, 0], W_K, bias[:, 1], sqrt_of(r.number(W_Q.shape[2])),
        norm=r.norm("layers.0.input_layernorm", "layer_norm_eps", centred=True),
        rotation=rotation({**c, "rope_parameters": settings}, W_Q.shape[2], r.number),
    )  # fmt: skip


def _side_by_side(r: Reader, name: str, groups: int, parts: int) -> tuple[Array, Array]:
    """[group part d' d] and [group part d'] of a joint projection."""
    weight = r[f"{name}.weight"]
    bias = r.bias(f"{name}.bias", weight[:, 0])
    return weight.reshape(groups, parts, -1, weight.shape[1]), bias.reshape(groups, parts, -1)


def _gptj(r: Reader) -> FirstLayer:
    heads, rotated = r.config["n_head"], r.config["rotary_dim"]
    (W_Q, b_Q), (W_K, b_K) = (r.linear(f"h.0.attn.{name}_proj", heads) for name in "qk")
    speeds = np.array(
        [1 / r.number(10_000) ** (r.number(2 * m) / rotated) for m in range(rotated // 2)]
    )
    return FirstLayer(
        r["wte.weight"], W_Q, b_Q, W_K, b_K, sqrt_of(r.number(W_Q.shape[2])),
        norm=r.norm("h.0.ln_1", "layer_norm_epsilon", centred=True),
        rotation=Rotation(lambda n: speeds, interleaved=True),
    )  # fmt: skip


def _falcon(r: Reader) -> FirstLayer:
    """Groups side by side, each its queries, its key, its value; one group where keys are one."""
    c, heads = r.config, r.config["num_attention_heads"]
    new = c["new_decoder_architecture"]
    groups = c["num_kv_heads"] if new else 1 if c["multi_query"] else heads
    rows, bias = _side_by_side(r, "h.0.self_attention.query_key_value", groups, heads // groups + 2)
    W_Q = rows[:, :-2].reshape(heads, *rows.shape[2:]).transpose(0, 2, 1)
    W_K = rows[:, -2].transpose(0, 2, 1)
    return FirstLayer(
        r["word_embeddings.weight"], W_Q, bias[:, :-2].reshape(heads, -1), W_K, bias[:, -2],
        sqrt_of(r.number(W_Q.shape[2])),
        norm=r.norm(
            "h.0.ln_attn" if new else "h.0.input_layernorm", "layer_norm_epsilon", centred=True
        ),
        rotation=rotation(c, W_Q.shape[2], r.number),
    )  # fmt: skip


def _bloom(r: Reader) -> FirstLayer:
    heads = r.config["n_head"]
    rows, bias = _side_by_side(r, "h.0.self_attention.query_key_value", heads, 3)
    W_Q, W_K = (rows[:, part].transpose(0, 2, 1) for part in (0, 1))
    return FirstLayer(
        r["word_embeddings.weight"], W_Q, bias[:, 0], W_K, bias[:, 1],
        sqrt_of(r.number(W_Q.shape[2])),
        norm_E=r.norm("word_embeddings_layernorm", "layer_norm_epsilon", centred=True),
        norm=r.norm("h.0.input_layernorm", "layer_norm_epsilon", centred=True),
        penalty=alibi(heads, r.number),
    )  # fmt: skip


def _mpt(r: Reader) -> FirstLayer:
    c, heads = r.config, r.config["n_heads"]
    joint = r["blocks.0.attn.Wqkv.weight"]
    d = len(joint) // 3
    (W_Q, b_Q), (W_K, b_K) = (
        r.heads(joint[part], joint[part, 0] * 0, heads) for part in (slice(0, d), slice(d, 2 * d))
    )
    clip = c["attn_config"].get("clip_qkv")
    return FirstLayer(
        r["wte.weight"], W_Q, b_Q, W_K, b_K, sqrt_of(r.number(W_Q.shape[2])),
        norm=r.norm("blocks.0.norm_1", "layer_norm_epsilon", centred=True),
        clip=None if clip is None else r.number(clip), penalty=alibi(heads, r.number),
    )  # fmt: skip


def _t5(r: Reader) -> FirstLayer:
    at, heads = "encoder.block.0.layer.0.", r.config["num_heads"]
    (W_Q, b_Q), (W_K, b_K) = (r.linear(f"{at}SelfAttention.{name}", heads) for name in "qk")
    table = r[f"{at}SelfAttention.relative_attention_bias.weight"]
    return FirstLayer(
        r["shared.weight"], W_Q, b_Q, W_K, b_K, r.number(1),
        norm=r.norm(f"{at}layer_norm", "layer_norm_epsilon"),
        penalty=buckets(table, r.config["relative_attention_max_distance"]), causal=False,
    )  # fmt: skip


#: Readers by `model_type`; all others name their tensors as Llama does.
FAMILIES: dict[str, Callable[[Reader], FirstLayer]] = {
    "gpt2": _gpt2, "gpt_neo": _gpt_neo, "opt": _opt, "whisper": _opt, "gpt_neox": _neox,
    **dict.fromkeys(("bert", "electra", "roberta", "xlm-roberta", "camembert"), _bert),
    "gptj": _gptj, "falcon": _falcon, "bloom": _bloom, "mpt": _mpt, "t5": _t5, "mt5": _t5,
}  # fmt: skip
