/* A rotary first layer in the browser: the four terms of any sentence by distance.
 *
 * `rotary_layer.py` writes its numbers: what coordinates of a token give in queries and keys, the
 * constants q₀ and k₀, and by how much each position turns each pair of coordinates.
 */
"use strict";

globalThis.lnattnRotary = (() => {
  const { coordinates, dot, keysOf, look, matrix, times } = lnattnFirstLayer;
  const TERMS = ["ee", "ed", "e", "d"];

  /** Make a layer of what its script hands over. */
  function layer(data) {
    const [A_Q, A_K, cos, sin] = ["A_Q", "A_K", "cos", "sin"].map((name) => matrix(data[name]));
    const width = A_Q.length / data.heads;
    return { ...data, A_Q, A_K, cos, sin, places: cos.length, width };
  }

  /** The tokens of a script: coordinates, and what ρ is. */
  const tokens = (shard) => coordinates(shard).map((row, i) => ({ row, rho: shard.rho[i] }));

  /** Vectors of all heads, one after the other, turned as at a position. */
  function turned({ cos, sin, interleaved, width }, vectors, place) {
    const made = Float64Array.from(vectors);
    const [c, s] = [cos[place], sin[place]];
    const half = c.length / 2;
    for (let head = 0; head < vectors.length; head += width) {
      for (let pair = 0; pair < half; pair++) {
        const [i, j] = interleaved ? [2 * pair, 2 * pair + 1] : [pair, pair + half];
        const [u, v] = [vectors[head + i], vectors[head + j]];
        made[head + i] = u * c[i] - v * s[i];
        made[head + j] = v * c[j] + u * s[j];
      }
    }
    return made;
  }

  /** A token's query or key less the constant; without division by ρ where `useRho` is false. */
  function apart({ row, rho }, A, b, constant, useRho) {
    return times(row, A).map((value, i) =>
      useRho ? value : rho * (value + constant[i] - b[i]) + b[i] - constant[i]);
  }

  /**
   * The four terms of a sentence, before any division by √d′.
   *
   * found: its tokens; places: the position of each. `term(name, head, query, key)`; `queries()` and
   * `keys()`: q̃ and k̃ of each token in all heads, turned.
   */
  function distanceTerms(layer, found, places) {
    const { A_Q, A_K, b_Q, b_K, heads, k0, keyHeads, q0, width } = layer;
    const n = found.length;
    /** Computed once for either setting; several heads share the keys of one. */
    function turnedBy(A, b, constant) {
      const kept = new Map();
      return (useRho = true) => kept.get(useRho) ?? kept.set(useRho, found.map((token, i) =>
        turned(layer, apart(token, A, b, constant, useRho), places[i]))).get(useRho);
    }
    const [queries, keys] = [turnedBy(A_Q, b_Q, q0), turnedBy(A_K, b_K, k0)];
    const alone = [q0, k0].map((constant) => places.map((place) => turned(layer, constant, place)));
    function term(name, head, query, key, useRho = true) {
      const q = (["ee", "ed"].includes(name) ? queries(useRho) : alone[0])[query];
      const k = (["ee", "e"].includes(name) ? keys(useRho) : alone[1])[key];
      const from = head * width;
      return dot(q, k, from, from + width, Math.floor((head * keyHeads) / heads) * width - from);
    }
    return { n, heads, names: TERMS, queries, keys, term, keysOf: (query) => keysOf(layer, n, query) };
  }

  /** Head and query in which taking out one term moves attention most. */
  function strongest(layer, terms) {
    let best = { head: 0, query: terms.n - 1, most: -1 };
    for (let head = 0; head < terms.heads; head++) {
      for (let query = 0; query < terms.n; query++) {
        const most = Math.max(...Object.values(look(layer, terms, head, query).moved));
        if (most > best.most) best = { head, query, most };
      }
    }
    return best;
  }

  return { TERMS, distanceTerms, layer, strongest, tokens };
})();
