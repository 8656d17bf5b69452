"""All of it in 400 lines: LayerNorm and attention read from the weights, in plain NumPy.

Vectors are rows, a linear map is x W. Above each function stands its formula, with its equation in
Kamoda et al. 2025 (K) or Brody et al. 2023 (B). Shapes stand at the ends of lines: n tokens of d
features, H heads of d' features, V tokens in the vocabulary, P positions. Every function computes
its formula and nothing else; the package is fast, and its tests hold it equal to these lines.

>>> sigma(np.array([1.0, 3.0]), eps=0.0)
np.float64(1.0)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

Array = np.ndarray

# ==== 1. LayerNorm ===============================================================================


# σ(x)² = mean((x − μ(x))²) + ε                                                          K Eq. 3
def sigma(x: Array, eps: float) -> Array:  # [... d] -> [...]
    """The divisor of LayerNorm."""
    return np.sqrt(((x - x.mean(axis=-1, keepdims=True)) ** 2).mean(axis=-1) + eps)


# LN(x) = (x − μ(x) 1)/σ(x) ⊙ γ + β                                                      K Eq. 2
def layer_norm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:  # [... d] -> [... d]
    """LayerNorm as a model computes it."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / sigma(x, eps)[..., None] * gamma + beta


# C = I − (1/d) 1ᵀ1, so that x C = x − μ(x) 1                                            K Eq. 9
def centring(d: int) -> Array:  # [d d]
    """The matrix that subtracts from a vector the mean of its features."""
    return np.eye(d) - np.ones((d, d)) / d


# P = B A B⁻¹: to the basis (u_1, …, u_{d−1}, 1), drop the last, and back    B App. C, Eq. 22–24
def projection(d: int) -> Array:  # [d d]
    """The projection onto the hyperplane orthogonal to 1, by a change of basis: it is C."""
    basis = np.eye(d) - np.eye(d, k=-1)  # columns u_k = e_k − e_{k+1}, orthogonal to 1
    basis[:, -1] = 1.0
    drop = np.diag([1.0] * (d - 1) + [0.0])
    return basis @ drop @ np.linalg.inv(basis)


# (x − μ)/σ = √d · x P/‖x P‖                                                             B Eq. 5
def project_and_scale(x: Array) -> Array:  # [... d] -> [... d]
    """LayerNorm without ε, gain and bias, as two steps: project, then scale to the norm √d."""
    projected = x @ projection(x.shape[-1])
    return np.sqrt(x.shape[-1]) * projected / np.linalg.norm(projected, axis=-1, keepdims=True)


# ρ(x)² = mean(x²) + ε;  RMS(x) = x/ρ(x) ⊙ γ: nothing is centred
def rms_norm(x: Array, gamma: Array, eps: float) -> Array:  # [... d] -> [... d]
    """The norm of most models with rotary positions."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * gamma


# ==== 2. Attention as a model computes it ========================================================


class Layer(NamedTuple):
    """An attention block and the LayerNorm that feeds it, as a checkpoint stores them."""

    gamma: Array  # [d]
    beta: Array  # [d]
    eps: float
    W_Q: Array  # [H d d']
    W_K: Array  # [H d d']
    W_V: Array  # [H d d']
    W_O: Array  # [H d' d]
    b_Q: Array  # [H d']
    b_K: Array  # [H d']
    b_V: Array  # [H d']
    b_O: Array  # [d]
    scale: float  # √d', unless a model says otherwise
    causal: bool = True


# α_ij = exp(s_ij/scale) / Σ_j' exp(s_ij'/scale), over the keys j that query i sees      K Eq. 5
# With a learned sink the sum has one term more, exp(sink), and the row of α is less than 1
@np.errstate(under="ignore")  # what is next to nothing becomes 0, whatever NumPy is told
def attend(scores: Array, scale: float, causal: bool = True, sinks: Array | None = None) -> Array:
    """The softmax over keys; a causal query i sees the keys j ≤ i."""  # [H n n], [H] -> [H n n]
    n = scores.shape[-1]
    seen = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
    scaled = np.where(seen, scores / scale, -np.inf)
    if sinks is not None:
        column = np.tile(sinks[:, None, None], (1, n, 1))
        scaled = np.concatenate([scaled, column], axis=-1)
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))  # the largest becomes exp(0)
    return (weights / weights.sum(axis=-1, keepdims=True))[..., :n]


# s_ij = q(y_i) k(y_j)ᵀ, q(y) = y W_Q + b_Q, k(y) = y W_K + b_K, y = LN(x)             K Eq. 6–8
def scores(x: Array, layer: Layer) -> Array:  # [n d] -> [H n n]
    """The scores of a block, before the division by the scale."""
    y = layer_norm(x, layer.gamma, layer.beta, layer.eps)  # [n d]
    q = y @ layer.W_Q + layer.b_Q[:, None]  # [H n d']
    k = y @ layer.W_K + layer.b_K[:, None]  # [H n d']
    return q @ k.transpose(0, 2, 1)


# ATTN(i) = Σ_h Σ_j α_ijh (y_j W_V + b_V) W_O + b_O                                      K Eq. 4
def attention(x: Array, layer: Layer) -> tuple[Array, Array]:  # [n d] -> [H n n], [n d]
    """The attention weights of a block, and what it adds to the residual stream."""
    alpha = attend(scores(x, layer), layer.scale, layer.causal)
    y = layer_norm(x, layer.gamma, layer.beta, layer.eps)
    v = y @ layer.W_V + layer.b_V[:, None]  # [H n d']
    return alpha, (alpha @ v @ layer.W_O).sum(axis=0) + layer.b_O


# ==== 3. LayerNorm folded into the weights =======================================================


class Folded(NamedTuple):
    """All that is left of a block: LN'(x) = x/σ(x) goes in."""

    W_QK: Array  # [H d d]
    b_QK: Array  # [H d]
    W_VO: Array  # [H d d]
    b_VO: Array  # [d]
    eps: float
    scale: float
    causal: bool


# W' = C diag(γ) W,  b' = β W + b                                                    K Eq. 10–11
# W_QK = W'_Q W'_Kᵀ,  b_QK = b'_Q W'_Kᵀ; b_K is the same for all keys of a query     K Eq. 14–15
# W_VO = W'_V W_O,  b_VO = Σ_h (β W_V + b_V) W_O + b_O, since Σ_j α_ij = 1              K App. B
def fold(layer: Layer) -> Folded:
    """The block with centring, gain and bias of its LayerNorm in the weights."""
    gain = centring(len(layer.gamma)) @ np.diag(layer.gamma)  # [d d]
    b_Q = layer.beta @ layer.W_Q + layer.b_Q  # [H d']
    b_V = layer.beta @ layer.W_V + layer.b_V  # [H d']
    W_K = gain @ layer.W_K  # [H d d']
    return Folded(
        W_QK=gain @ layer.W_Q @ W_K.transpose(0, 2, 1),
        b_QK=(W_K @ b_Q[:, :, None])[:, :, 0],
        W_VO=gain @ layer.W_V @ layer.W_O,
        b_VO=(b_V[:, None] @ layer.W_O).sum(axis=(0, 1)) + layer.b_O,
        eps=layer.eps,
        scale=layer.scale,
        causal=layer.causal,
    )


# s_ij = LN'(x_i) W_QK LN'(x_j)ᵀ + b_QK LN'(x_j)ᵀ                                       K Eq. 13
def folded_scores(x: Array, folded: Folded) -> Array:  # [n d] -> [H n n]
    """The scores of the block, but for one number per query, which the softmax ignores."""
    u = x / sigma(x, folded.eps)[:, None]  # [n d]
    return u @ folded.W_QK @ u.T + (folded.b_QK @ u.T)[:, None]


# ATTN'(i) = Σ_h Σ_j α_ijh LN'(x_j) W_VO + b_VO                                          K App. B
def folded_attention(x: Array, folded: Folded) -> tuple[Array, Array]:  # [n d] -> [H n n], [n d]
    """What `attention` gives, from the folded weights."""
    u = x / sigma(x, folded.eps)[:, None]
    alpha = attend(folded_scores(x, folded), folded.scale, folded.causal)
    return alpha, (alpha @ u @ folded.W_VO).sum(axis=0) + folded.b_VO


# ==== 4. The first layer: six terms ==============================================================


# x_i = e_i + p_i, σ_i = σ(x_i);  s_ij = T^ee + T^ep + T^pe + T^pp + T^e + T^p           K §3.5
# T^ab = a_i W_QK b_jᵀ/(σ_i σ_j);  T^a = b_QK a_jᵀ/σ_j
def six_terms(e: Array, p: Array, folded: Folded) -> dict[str, Array]:  # [n d], [n d]
    """The terms of every score by name, each [H n n], before the division by the scale."""
    s = sigma(e + p, folded.eps)[:, None]  # [n 1]
    parts = {"e": e / s, "p": p / s}
    terms = {a + b: parts[a] @ folded.W_QK @ parts[b].T for a in "ep" for b in "ep"}
    for a in "ep":  # the same for every query
        terms[a] = np.repeat((folded.b_QK @ parts[a].T)[:, None], len(e), axis=1)
    return terms


# σ(e + p)² = Var(e) + Var(p) + 2 Cov(e, p) + ε                                            K §6.3
def sigma_of_pairs(e: Array, p: Array, eps: float) -> Array:  # [V d], [P d] -> [V P]
    """The divisor of every token at every position, from variances and covariances."""
    e = e @ centring(e.shape[1])
    p = p @ centring(p.shape[1])
    variance = (e**2).mean(axis=1)[:, None] + (p**2).mean(axis=1)
    covariance = e @ p.T / e.shape[1]
    return np.sqrt(np.maximum(variance + 2 * covariance, 0) + eps)


# 1/σ_j: its mean over all tokens v at position j, and the band that holds 95% of them   K Fig. 3
def inverse_sigma_band(e: Array, p: Array, eps: float) -> tuple[Array, ...]:  # 3 [P]
    """Mean, lower and upper end of 1/σ(e_v + p_j) over the tokens: what T^p is multiplied by."""
    inverse = 1 / sigma(p[:, None] + e, eps)  # [P V]
    return inverse.mean(axis=1), *np.quantile(inverse, (0.025, 0.975), axis=1)


# ==== 5. Which tokens a head joins ===============================================================


# T^ee_{b,a} = e_b W_QK e_aᵀ/(σ̄_b σ̄_a), σ̄_v = mean_j σ(e_v + p_j)                          K §4.1
def affinities(query: int, e: Array, p: Array, folded: Folded) -> Array:  # [V d], [P d] -> [H V]
    """How much a query token likes every key token, wherever the two stand."""
    u = e / sigma(e[:, None] + p, folded.eps).mean(axis=1)[:, None]  # [V d]
    return u[query] @ folded.W_QK @ u.T


# rank(a) = 1 + #{a' : T_{b,a'} > T_{b,a}}                                              K Table 1
def rank(row: Array, key: int) -> int:  # [V]
    """The place of a key among all keys of its query, 1 for the best; ties share the better."""
    return 1 + int((row > row[key]).sum())


# AUROC = Σ_{a: c_a > 0} c_a · mean_{a': c_a' = 0} ([T_a > T_a'] + ½ [T_a = T_a']) / Σ c_a
def auroc(row: Array, counts: Array) -> float:  # [V], [V]                                 K §4.2
    """The chance that a predecessor, drawn by its count, scores higher than any other token.

    NaN where no token has a count, or every token has.
    """
    positive = row[counts > 0][:, None]
    negative = row[counts == 0]
    if not positive.size or not negative.size:
        return float("nan")
    wins = (positive > negative) + 0.5 * (positive == negative)  # [positive negative]
    return float(np.average(wins.mean(axis=1), weights=counts[counts > 0]))


# ‖W¹ W²‖/(‖W¹‖ ‖W²‖), W¹ = W_VO of the earlier head; W² = W_QK, W_QKᵀ or W_VO of the later one
def composition(earlier: Array, later: Array) -> float:  # [d d], [d d]
    """How much of what one head writes another reads, in Frobenius norms."""
    size = np.linalg.norm
    return float(size(earlier @ later) / (size(earlier) * size(later)))


# ==== 6. What a term contributes =================================================================


# KL(α ‖ α^{−T}) = Σ_j α_j log(α_j/α_j^{−T}), α^{−T} = softmax((s − T)/scale)        K Eq. 18–21
def kl_of_removal(s: Array, term: Array, scale: float, causal: bool = True) -> Array:  # -> [H n]
    """How far the attention of each query moves when a term is taken out of its scores."""
    alpha = attend(s, scale, causal)
    without = attend(s - term, scale, causal)
    ratio = np.divide(alpha, without, out=np.ones_like(alpha), where=alpha > 0)
    return (alpha * np.log(ratio)).sum(axis=-1)


# Points t and weights of ∫₀¹ f(t) dt: 16 of Gauss and Legendre in 0 … 2⁻¹⁰, 2⁻¹⁰ … 2⁻⁹, …, ½ … 1
def path() -> tuple[Array, Array]:
    """A quadrature for what changes fast near 0: good to 1e-10 for scores 1,000 nats apart."""
    edges = np.append(0.0, 0.5 ** np.arange(10, -1, -1))[:, None]
    points, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges, axis=0) / 2
    return (edges[:-1] + half * (1 + points)).ravel(), (half * weights).ravel()


# KL(softmax(z) ‖ even) = Σ_k I_k, I_k = Σ_j z⁽ᵏ⁾_j (p_j(1) − ∫₀¹ p_j(t) dt), p(t) = softmax(t z)
@np.errstate(under="ignore")
def kl_shares(terms: dict[str, Array], scale: float, causal: bool = True) -> dict[str, Array]:
    """How much each term z⁽ᵏ⁾ adds to the divergence of attention from even attention: [H n]."""
    s = np.sum(list(terms.values()), axis=0)
    mean = sum(weight * attend(t * s, scale, causal) for t, weight in zip(*path(), strict=True))
    moved = attend(s, scale, causal) - mean  # [H n n]
    return {name: (moved * term / scale).sum(axis=-1) for name, term in terms.items()}


# ==== 7. Rotary and relative positions: four terms ===============================================


# x R_m turns the features k and k + r/2 (or 2k and 2k + 1) by the angle m · speed_k
def rotation(
    position: int, speeds: Array, d_head: int, interleaved: bool = False
) -> Array:  # [r/2] -> [d' d']
    """The matrix of rotary embeddings (Su et al. 2021); features after the first r stay."""
    R = np.eye(d_head)
    for k, speed in enumerate(speeds):
        a, b = (2 * k, 2 * k + 1) if interleaved else (k, k + len(speeds))
        R[a, a] = R[b, b] = np.cos(position * speed)
        R[a, b] = np.sin(position * speed)
        R[b, a] = -R[a, b]
    return R


# q_i R_i (k_j R_j)ᵀ = q_i R_Δ k_jᵀ with Δ = i − j; with q = q₀ + q̃ and k = k₀ + k̃ it is
# q̃ R_Δ k̃ᵀ (ee) + q̃ R_Δ k₀ᵀ (ed) + q₀ R_Δ k̃ᵀ (e) + q₀ R_Δ k₀ᵀ + bias_Δ (d)
def distance_terms(
    q: Array, k: Array, q0: Array, k0: Array, R: Array, bias: Array | float = 0.0
) -> dict[str, Array]:  # [H n d'], [H n d'], [H d'], [H d'], [n n d' d'], [H n n]
    """The four terms by name, each [H n n], for any q₀ and k₀; R[i, j] turns by i − j.

    Learned positions are the case R = I, q₀ = b'_Q, k₀ = b'_K: there `ed` and `d` are the same
    for all keys of a query.
    """
    q_rest = q - q0[:, None]  # q̃
    k_rest = k - k0[:, None]  # k̃
    q_mean = np.repeat(q0[:, None], q.shape[1], axis=1)
    k_mean = np.repeat(k0[:, None], k.shape[1], axis=1)

    def turned_product(queries: Array, keys: Array) -> Array:
        return np.einsum("hia,ijab,hjb->hij", queries, R, keys)

    return {
        "ee": turned_product(q_rest, k_rest),
        "ed": turned_product(q_rest, k_mean),
        "e": turned_product(q_mean, k_rest),
        "d": turned_product(q_mean, k_mean) + bias,
    }


# ==== 8. Unselectable keys =======================================================================


# Keys in coordinates of their affine hull, with spread 1 along each: corners stay corners
def whitened(keys: Array) -> tuple[Array, Array]:  # [n d] -> [n rank], [d rank]
    """The keys there, and the map that takes a direction there back to one for the keys."""
    left, spread, right = np.linalg.svd(keys - keys.mean(axis=0), full_matrices=False)
    rank = int((spread > 1e-6 * spread[0]).sum())  # what is below is rounding
    root = np.sqrt(len(keys))
    return left[:, :rank] * root, right[:rank].T * (root / spread[:rank])


#: HiGHS takes for 0 what is smaller, 1e-7 unless told; there are keys that win by less.
PRECISE = {f"{kind}_feasibility_tolerance": 1e-10 for kind in ("primal", "dual")}


# maximise r:  v·h_j + ‖h_j − h‖ r ≤ v·h for all other keys h_j,  −1 ≤ v_k ≤ 1,  0 ≤ r ≤ 1
def winning_query(key: Array, others: Array) -> tuple[Array, float]:  # [d], [n d] -> [d]
    """A query v for which the key beats all others, and r by how much; r = 0: there is none."""
    away = others - key
    solution = linprog(
        np.append(np.zeros(len(key)), -1.0),  # of the unknowns v and r, −r is to be least
        A_ub=np.column_stack([away, np.linalg.norm(away, axis=1)]),
        b_ub=np.zeros(len(away)),
        bounds=[(-1, 1)] * len(key) + [(0, 1)],
        options=PRECISE,
    )
    return solution.x[:-1], float(solution.x[-1])


# minimise Σ_k |Σ_j λ_j h_jk − h_k|,  λ_j ≥ 0,  Σ_j λ_j = 1                              B Thm. 1
def combination(key: Array, others: Array) -> Array:  # [d], [n d] -> [n]
    """The weights λ of the mean of other keys that comes nearest to the key: 0 away in their hull.

    Such a key never has the highest score: v·h is the mean of the others' scores.
    """
    n, d = others.shape
    above = np.eye(d)  # the difference is what is above less what is below
    below = -np.eye(d)
    solution = linprog(
        np.append(np.zeros(n), np.ones(2 * d)),
        A_eq=np.block([[(others - key).T, above, below], [np.ones((1, n)), np.zeros((1, 2 * d))]]),
        b_eq=np.append(np.zeros(d), 1.0),
        bounds=[(0, None)] * (n + 2 * d),
        options=PRECISE,
    )
    return solution.x[:n]


# Key h_i is selectable if v·h_i > v·h_j for some query v and all j ≠ i                  B §3.2
def selectability(keys: Array, strict: bool = True) -> tuple[Array, list[Array]]:  # [n d] -> [n]
    """Whether each key is selectable, and the proofs: a query [d] that selects it, or weights [n].

    A key always ties with its copies: none of them is selectable, unless `strict` is false and
    they count as one key.
    """
    points, back = whitened(keys)
    verdicts = np.zeros(len(keys), dtype=bool)
    proofs = []
    for i in range(len(keys)):
        same = (keys == keys[i]).all(axis=1)
        if strict and same.sum() > 1:
            other = np.flatnonzero(same & (np.arange(len(keys)) != i))[0]
            proofs.append(np.eye(len(keys))[other])
            continue
        v, radius = winning_query(points[i], points[~same])
        verdicts[i] = radius > 1e-9  # what the solver leaves of 0 is below
        weights = np.zeros(len(keys))
        if not verdicts[i]:
            weights[~same] = combination(points[i], points[~same])
        proofs.append(back @ v if verdicts[i] else weights)
    return verdicts, proofs


# ==== 9. For every text ==========================================================================


# least α = 1/(1 + Σ_k exp(max_w s_kw − s_jv)) over the places k ≠ j; the greatest has min_w
@np.errstate(over="ignore", under="ignore")
def guarantee(s: Array, query: int, i: int, key: int, j: int) -> Array:  # [n V] -> [2]
    """The least and greatest attention of a query at i to a key at j, over all texts of n tokens.

    s[k, w] is what the query scores token w at place k, over the scale; it sees all n places.
    """
    ends = np.stack([s.max(axis=1), s.min(axis=1)])  # [2 n]
    ends[:, i] = s[i, query]
    others = np.delete(ends, j, axis=1)
    return 1 / (1 + np.exp(others - s[j, key]).sum(axis=1))
