/* The first attention layer in the browser: the six terms of any sentence, σ, attention, KL.
 *
 * Numbers come as base64 digits, big end first: three (18 bits) for a weight, with a scale for each
 * row; those of tokens as coordinates (`coding.py`). `first_layer.py` says how far the results are
 * from those of double precision.
 */
"use strict";

globalThis.lnattnFirstLayer = (() => {
  const PAIR_TERMS = ["ee", "ep", "pe", "pp"];
  const TERMS = [...PAIR_TERMS, "e", "p"];
  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const DIGIT = new Uint8Array(128);
  for (let i = 0; i < 64; i++) DIGIT[ALPHABET.charCodeAt(i)] = i;

  /** Whole numbers of `width` digits each. */
  function numbers(text, width) {
    return Array.from({ length: text.length / width }, (_, i) => {
      let value = 0;
      for (let j = 0; j < width; j++) value = value * 64 + DIGIT[text.charCodeAt(i * width + j)];
      return value;
    });
  }

  /** Rows of real numbers: [row][column], each row with its scale, zero in the middle. */
  function matrix({ scales, width, digits }) {
    const columns = digits.length / width / scales.length;
    const middle = 64 ** width / 2;
    return scales.map((scale, row) => {
      const text = digits.slice(row * columns * width, (row + 1) * columns * width);
      return Float64Array.from(numbers(text, width), (value) => (value - middle) * scale);
    });
  }

  const PLACES = 3; // digits of a coordinate

  /** The coordinates of some tokens: [token][coordinate], whole multiples of one step. */
  function coordinates({ digits, rows, step }) {
    const size = digits.length / PLACES;
    return Array.from({ length: rows }, (_, row) =>
      Float64Array.from({ length: size / rows }, (_, column) => {
        let value = 0; // 0, 1, 2, 3 … for 0, −1, 1, −2 …
        for (let place = 0; place < PLACES; place++) {
          value = value * 64 + DIGIT[digits.charCodeAt(place * size + column * rows + row)];
        }
        return (value % 2 ? -(value + 1) / 2 : value / 2) * step;
      }));
  }

  /** The embeddings of the tokens of a script, each divided by its mean σ. */
  function embeddings(layer, shard) {
    return coordinates(shard).map((row) => {
      const made = Float64Array.from(layer.mean);
      row.forEach((value, i) => {
        if (value) for (let k = 0; k < made.length; k++) made[k] += value * layer.back[i][k];
      });
      return made;
    });
  }

  function dot(a, b, from = 0, to = a.length, shift = 0) {
    let sum = 0;
    for (let i = from; i < to; i++) sum += a[i] * b[i + shift];
    return sum;
  }

  /** A row times a matrix that is stored by columns. */
  const times = (row, columns) => Float64Array.from(columns, (column) => dot(row, column));

  /** σ of a vector: the root of its variance + ε. */
  function deviation(vector, eps) {
    const mean = vector.reduce((a, b) => a + b, 0) / vector.length;
    const variance = vector.reduce((sum, x) => sum + (x - mean) ** 2, 0) / vector.length;
    return Math.sqrt(variance + eps);
  }

  /** Make a layer of what its script hands over: the numbers unpacked, the folded weights ready. */
  function layer(data) {
    const W_Q = matrix(data.W_Q);
    const W_K = matrix(data.W_K);
    const [positions, back] = [matrix(data.positions), matrix(data.back)];
    const { heads } = data;
    const width = W_Q.length / heads;
    // b_QK = b_Q W_Kᵀ, a row of each head: what a key asserts by itself.
    const b_QK = Array.from({ length: heads }, (_, head) =>
      Float64Array.from({ length: W_K[0].length }, (_, i) => {
        let sum = 0;
        for (let k = head * width; k < (head + 1) * width; k++) sum += data.b_Q[k] * W_K[k][i];
        return sum;
      }));
    return { ...data, W_Q, W_K, b_QK, back, positions, places: positions.length, width };
  }

  /** The keys that a query may see. */
  function keysOf(layer, n, query) {
    const last = layer.causal ? query : n - 1;
    const first = layer.window ? Math.max(0, query - layer.window + 1) : 0;
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  }

  /**
   * The six terms of a sentence, before any division.
   *
   * rows: the embedding of each token; shift: the position of the first. `term(name, head, query,
   * key)` is divided by σ of query and key, unless `useSigma` is false.
   */
  function sixTerms(layer, rows, shift = 0) {
    const n = rows.length;
    const { heads, width } = layer;
    const places = layer.positions.slice(shift, shift + n);
    const sigma = rows.map((row, i) => deviation(row.map((x, k) => x + places[i][k]), layer.eps));
    const sides = { e: rows, p: places };
    const queries = {};
    const keys = {};
    const alone = {};
    for (const [name, vectors] of Object.entries(sides)) {
      queries[name] = vectors.map((vector) => times(vector, layer.W_Q));
      keys[name] = vectors.map((vector) => times(vector, layer.W_K));
      alone[name] = vectors.map((vector) => times(vector, layer.b_QK));
    }
    function term(name, head, query, key, useSigma = true) {
      if (name.length === 1) return alone[name][key][head] / (useSigma ? sigma[key] : 1);
      const product = dot(queries[name[0]][query], keys[name[1]][key],
        head * width, (head + 1) * width);
      return product / (useSigma ? sigma[query] * sigma[key] : 1);
    }
    return { n, heads, names: TERMS, sigma, term, keysOf: (query) => keysOf(layer, n, query) };
  }

  function softmax(scores) {
    const most = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - most));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  }

  /** KL(p ‖ q) in nats: how far attention moves from p to q. */
  function divergence(p, q) {
    return p.reduce((sum, value, i) => sum + (value > 0 ? value * Math.log(value / q[i]) : 0), 0);
  }

  /**
   * One query of one head: its keys, their terms, the sum of the terms kept, and attention.
   *
   * without: names of terms left out; useSigma, useScale: whether σ (or ρ) and √d' divide. `whole`
   * is the attention of all terms under the same settings, `moved` the KL of removing each term
   * alone, `shift` that of all that are left out together.
   */
  function look(layer, terms, head, query, { without = [], useSigma = true, useScale = true } = {}) {
    const { names } = terms;
    const keys = terms.keysOf(query);
    const divisor = useScale ? layer.scale : 1;
    const values = Object.fromEntries(names.map((name) =>
      [name, keys.map((key) => terms.term(name, head, query, key, useSigma))]));
    const sum = (kept) => keys.map((_, i) => kept.reduce((s, name) => s + values[name][i], 0));
    const spread = (scores) => softmax(scores.map((score) => score / divisor));
    const left = (out) => names.filter((name) => !out.includes(name));
    const scores = sum(left(without));
    const weights = spread(scores);
    const whole = spread(sum(names));
    const moved = Object.fromEntries(names.map((name) =>
      [name, divergence(whole, spread(sum(left([name]))))]));
    return { keys, values, scores, weights, whole, moved, shift: divergence(whole, weights) };
  }

  return {
    PAIR_TERMS, TERMS, coordinates, dot, embeddings, keysOf, layer, look, matrix, numbers, sixTerms,
    softmax, times,
  };
})();
