/* A model's first attention layer in the browser, shipped or opened: folding, terms, attention, and
 * one token against the whole vocabulary.
 *
 * A layer is what checkpoint.js reads: { positionsAre: "learned" | "rotary", norm: "layer" | "rms",
 * d, heads, keyHeads, eps, scale, causal, window, gamma, beta, W_Q, W_K [d, column], b_Q, b_K,
 * positions [[d] …] or frequencies }. The terms are those of Kamoda et al. 2025 (chapter 3), or the
 * four by distance (chapter 12), stated before the division by the scale.
 */
"use strict";

globalThis.lnattnFirstLayer = (() => {
  const { breath } = lnattnExplorer;
  const TERMS = ["ee", "ep", "pe", "pp", "e", "p"];
  const DISTANCE_TERMS = ["ee", "ed", "e", "d"];

  /** The product of a part of `a` with what stands `shift` further in `b`, in sums that need not wait. */
  function dot(a, b, from = 0, to = a.length, shift = 0) {
    let p = 0, q = 0, r = 0, s = 0, i = from;
    for (; i + 3 < to; i += 4) {
      p += a[i] * b[i + shift];
      q += a[i + 1] * b[i + 1 + shift];
      r += a[i + 2] * b[i + 2 + shift];
      s += a[i + 3] * b[i + 3 + shift];
    }
    for (; i < to; i++) p += a[i] * b[i + shift];
    return p + q + r + s;
  }

  /** A row times a matrix, [d, column]; plus a bias, if there is one. */
  function times(row, W, bias = null) {
    const made = new Float64Array(W.length / row.length);
    for (let i = 0, at = 0; i < row.length; i++) {
      for (let column = 0; column < made.length; column++) made[column] += row[i] * W[at++];
    }
    return bias ? made.map((value, column) => value + bias[column]) : made;
  }

  const mean = (row) => row.reduce((a, b) => a + b, 0) / row.length;

  /** σ of a row, or ρ where the norm is an RMSNorm. */
  function divisor(layer, row) {
    const middle = layer.norm === "rms" ? 0 : mean(row);
    return Math.sqrt(row.reduce((sum, x) => sum + (x - middle) ** 2, 0) / row.length + layer.eps);
  }

  // ---- Folding ---------------------------------------------------------------------------------

  /** Weights with the norm absorbed: C diag(γ) W (C = I for an RMSNorm), and β W + b. */
  function absorbed({ d, norm, gamma, beta }, W, b) {
    const columns = W.length / d;
    const folded = new Float64Array(W.length);
    const bias = b ? Float64Array.from(b) : new Float64Array(columns);
    const middle = new Float64Array(columns);
    for (let i = 0, at = 0; i < d; i++) {
      for (let column = 0; column < columns; column++, at++) {
        folded[at] = gamma[i] * W[at];
        middle[column] += folded[at] / d;
        if (beta) bias[column] += beta[i] * W[at];
      }
    }
    if (norm === "layer") {
      for (let at = 0; at < folded.length; at++) folded[at] -= middle[at % columns];
    }
    return [folded, bias];
  }

  /** The layer with its norm in its weights. */
  function fold(layer) {
    const [W_Q, b_Q] = absorbed(layer, layer.W_Q, layer.b_Q);
    const [W_K, b_K] = absorbed(layer, layer.W_K, layer.b_K);
    const places = layer.places ?? layer.positions.length;
    return { ...layer, W_Q, W_K, b_Q, b_K, places, width: b_Q.length / layer.heads };
  }

  /** Where the key of a head begins, less where its query does: heads of a group share a key. */
  const shiftOf = ({ heads, keyHeads, width }, head) =>
    (Math.floor((head * keyHeads) / heads) - head) * width;

  /** Vectors of all heads, one after the other, turned as at a position. */
  function turned({ frequencies, width }, vectors, place) {
    const made = Float64Array.from(vectors);
    const half = frequencies.length;
    for (let head = 0; head < vectors.length; head += width) {
      for (let i = head; i < head + half; i++) {
        const [c, s] = [Math.cos, Math.sin].map((f) => f(place * frequencies[i - head]));
        made[i] = vectors[i] * c - vectors[i + half] * s;
        made[i + half] = vectors[i + half] * c + vectors[i] * s;
      }
    }
    return made;
  }

  /** Of a rotary layer, the query and key of a token less the constants q₀ and k₀ of all tokens. */
  function apart(layer, row) {
    const unit = Float64Array.from(row, (x) => x / divisor(layer, row));
    return [["W_Q", "b_Q", "q0"], ["W_K", "b_K", "k0"]].map(([W, b, constant]) =>
      times(unit, layer[W], layer[b]).map((value, i) => value - layer[constant][i]));
  }

  // ---- The terms of a text -----------------------------------------------------------------------

  /** The parts of all queries and keys, each divided: a term is a query part times a key part. */
  function partsOf(layer, rows, start) {
    if (layer.positionsAre === "rotary") {
      const both = rows.map((row) => apart(layer, row));
      const all = (vectorOf) => rows.map((_, i) => turned(layer, vectorOf(i), start + i));
      return [{ e: all((i) => both[i][0]), "": all(() => layer.q0) },
        { e: all((i) => both[i][1]), d: all(() => layer.k0) }];
    }
    const places = rows.map((_, i) => layer.positions[start + i]);
    const sigma = rows.map((row, i) =>
      divisor(layer, Float64Array.from(row, (x, k) => x + places[i][k])));
    const all = (vectors, W) => vectors.map((vector, i) =>
      times(vector, W).map((value) => value / sigma[i]));
    return [{ e: all(rows, layer.W_Q), p: all(places, layer.W_Q), "": rows.map(() => layer.b_Q) },
      { e: all(rows, layer.W_K), p: all(places, layer.W_K) }];
  }

  /** The keys that a query may see. */
  function keysOf(layer, n, query) {
    const last = layer.causal ? query : n - 1;
    const first = layer.window ? Math.max(0, query - layer.window + 1) : 0;
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  }

  /** All terms of a text. rows: the embedding of each token; start: the position of the first. */
  const termsOf = (layer, rows, start = 0) => termsOfParts(layer, partsOf(layer, rows, start));

  function termsOfParts(layer, [queries, keys]) {
    const { heads, width } = layer;
    const n = keys.e.length;
    function term(name, head, query, key) {
      const [from, to] = name.length === 2 ? name : ["", name];
      const first = head * width;
      return dot(queries[from][query], keys[to][key], first, first + width, shiftOf(layer, head));
    }
    const names = layer.positionsAre === "rotary" ? DISTANCE_TERMS : TERMS;
    return { n, heads, names, term, keysOf: (query) => keysOf(layer, n, query) };
  }

  function softmax(scores) {
    const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
    const powers = scores.map((score) => Math.exp(score - most));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  }

  /** KL(p ‖ q) in nats: how far attention moves from p to q. */
  const divergence = (p, q) =>
    p.reduce((sum, value, i) => sum + (value > 0 ? value * Math.log(value / q[i]) : 0), 0);

  /**
   * One query of one head: its keys, their terms, the sum of the terms kept, and attention.
   *
   * without: names of terms left out. `whole` is the attention of all terms, `moved` the KL of
   * removing each term alone, `shift` that of all that are left out together.
   */
  function look(layer, terms, head, query, { without = [] } = {}) {
    const { names } = terms;
    const keys = terms.keysOf(query);
    const values = Object.fromEntries(names.map((name) =>
      [name, keys.map((key) => terms.term(name, head, query, key))]));
    const sum = (out) => keys.map((_, i) =>
      names.reduce((all, name) => all + (out.includes(name) ? 0 : values[name][i]), 0));
    const spread = (out) => softmax(sum(out).map((score) => score / layer.scale));
    const [whole, weights] = [spread([]), spread(without)];
    const moved = Object.fromEntries(names.map((name) => [name, divergence(whole, spread([name]))]));
    return {
      keys, values, scores: sum(without), weights, whole, moved, shift: divergence(whole, weights),
    };
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

  // ---- The whole vocabulary --------------------------------------------------------------------

  const BLOCK = 1024; // tokens looked at together
  const SAMPLE = 64; // tokens that show how far the quick σ may be off

  /** The `most`-th largest of many numbers. */
  function cutOff(values, most) {
    const largest = []; // ascending
    for (const value of values) {
      if (largest.length === most && value <= largest[0]) continue;
      if (largest.length === most) largest.shift();
      let at = largest.length;
      while (at > 0 && largest[at - 1] > value) at--;
      largest.splice(at, 0, value);
    }
    return largest[0];
  }

  /**
   * The tokens of a model, which may come in parts: one of them against all others that are here, by T^ee.
   *
   * rows(first, count): the embeddings of some of its `size` tokens, one after the other. add(first, count): these
   * are here now. As in the paper a token has one σ, its mean over all positions. That takes long for a large
   * vocabulary, so all tokens get a quick one, in which the covariance of token and position is its mean over
   * positions, and those that may be among the best the exact one.
   */
  function vocabulary(layer, rows, size) {
    const { d, heads, width } = layer;
    const learned = layer.positionsAre === "learned";
    const rest = breath();
    const places = (layer.positions ?? []).map((row) => {
      const middle = mean(row);
      return Float64Array.from(row, (x) => x - middle);
    });
    const spread = places.map((row) => dot(row, row) / d);
    const usual = Float64Array.from({ length: d }, (_, i) =>
      places.reduce((sum, row) => sum + row[i], 0) / (places.length || 1));
    const variance = new Float64Array(size); // of a token, with twice the mean covariance and ε
    const inverse = new Float64Array(size); // 1/σ or 1/ρ
    const unit = new Float64Array(d); // the mean of x/ρ
    const parts = new Map(); // promises of the parts that were added, by where they begin
    const spans = []; // [first, count] of the tokens that are here, as they came
    let read = 0;

    function measure(first, count) {
      const all = rows(first, count);
      for (let at = 0, id = first; at < all.length; at += d, id++) {
        let sum = 0, squares = 0, shared = 0;
        for (let i = 0; i < d; i++) {
          const x = all[at + i];
          sum += x;
          squares += x * x;
          shared += x * usual[i];
        }
        const middle = layer.norm === "rms" ? 0 : sum / d;
        variance[id] = squares / d - middle ** 2 + layer.eps + (2 * shared) / d;
        let sigma = 0;
        for (const more of spread) sigma += Math.sqrt(variance[id] + more);
        inverse[id] = learned ? spread.length / sigma : 1 / Math.sqrt(variance[id]);
        if (!(inverse[id] > 0 && inverse[id] < Infinity)) {
          throw new Error("The token embeddings hold values that are no finite numbers: fetch the file again.");
        }
        for (let i = 0; !learned && i < d; i++) unit[i] += (all[at + i] * inverse[id]) / size;
      }
    }

    const row = (id) => Float64Array.from(rows(id, 1));
    const exact = new Map();
    function sigmaOf(id) {
      if (!learned) return 1 / inverse[id];
      if (!exact.has(id)) {
        const token = row(id);
        const own = variance[id] - (2 * dot(token, usual)) / d;
        exact.set(id, mean(places.map((place, j) =>
          Math.sqrt(own + spread[j] + (2 * dot(token, place)) / d))));
      }
      return exact.get(id);
    }

    const step = Math.ceil(size / SAMPLE);
    let slack = 0; // how far a quick score may be off, as a share of it
    async function added(first, count) {
      for (let from = first; from < first + count; from += BLOCK) {
        const many = Math.min(BLOCK, first + count - from);
        measure(from, many);
        for (let id = Math.ceil(from / step) * step; learned && id < from + many; id += step) {
          slack = Math.max(slack, 3 * Math.abs(sigmaOf(id) * inverse[id] - 1) + 1e-6);
          await rest();
        }
        spans.push([from, many]);
        read += many;
        await rest();
      }
      if (!learned && read === size) {
        layer.q0 ??= times(unit, layer.W_Q, layer.b_Q);
        layer.k0 ??= times(unit, layer.W_K, layer.b_K);
      }
    }
    /** These tokens are here; a part that was added before is not looked at again. */
    function add(first, count) {
      if (!parts.has(first)) parts.set(first, added(first, count));
      return parts.get(first);
    }

    /** A vector u and a number c in each head: T^ee is u · x/σ + c for the embedding x of a partner. */
    function asked(id, asQuery, distance = 0) {
      const own = learned ? [layer.W_Q, layer.W_K].map((W) =>
        times(row(id), W).map((x) => x / sigmaOf(id))) : apart(layer, row(id));
      const mine = learned ? own[asQuery ? 0 : 1]
        : turned(layer, own[asQuery ? 0 : 1], asQuery ? distance : -distance);
      const [W, b, constant] = asQuery ? [layer.W_K, layer.b_K, layer.k0] : [layer.W_Q, layer.b_Q, layer.q0];
      const columns = W.length / d;
      return Array.from({ length: heads }, (_, head) => {
        const shift = shiftOf(layer, head);
        const [from, to] = [head * width + (asQuery ? 0 : shift), head * width + (asQuery ? shift : 0)];
        const vector = Float64Array.from({ length: d }, (_, i) =>
          dot(mine, W, from, from + width, i * columns + to - from));
        const more = learned ? 0 : dot(mine, b.map((x, i) => x - constant[i]), from, from + width, to - from);
        return { vector, more };
      });
    }

    /** The quick scores of a token, in each head as a query and as a key, with the tokens that are here. */
    const known = { about: "" }; // those of the token that was asked for last
    async function quickScores(id, distance) {
      const about = `${id} ${distance}`;
      if (known.about !== about) {
        const sides = [...asked(id, true, distance), ...asked(id, false, distance)];
        const scores = sides.map(() => new Float64Array(size).fill(-Infinity));
        Object.assign(known, { about, held: { sides, scores, seen: 0, read: 0, turn: Promise.resolve() } });
      }
      const { held } = known;
      async function scan() {
        for (; held.seen < spans.length; held.seen++) {
          const [first, count] = spans[held.seen];
          const all = rows(first, count);
          for (let at = 0, token = first; at < all.length; at += d, token++) {
            held.sides.forEach(({ vector }, i) => {
              held.scores[i][token] = dot(vector, all, 0, d, at) * inverse[token];
            });
          }
          held.read += count;
          await rest();
        }
      }
      held.turn = held.turn.then(scan); // who asks meanwhile waits for the tokens that come meanwhile
      await held.turn;
      return held;
    }

    const scoreOf = ({ vector, more }, id) => dot(vector, row(id)) / sigmaOf(id) + more;

    /** The `most` tokens with the highest scores, best first: [{ id, score }]. */
    function picked(side, scores, most) {
      let last = cutOff(scores, most);
      last -= 3 * slack * Math.abs(last);
      const able = [];
      scores.forEach((score, id) => {
        if (score >= last) able.push({ id, score: scoreOf(side, id) });
      });
      return able.sort((a, b) => b.score - a.score || a.id - b.id).slice(0, most);
    }

    /** Score and rank of one key for a query in a head; 1 is the best. */
    function judged(side, scores, key) {
      const score = scoreOf(side, key);
      const edge = score - side.more;
      const near = 3 * slack * Math.abs(edge) + 1e-12;
      let rank = 1;
      scores.forEach((other, id) => {
        if (other > edge + near) rank++;
        else if (id !== key && other > edge - near && scoreOf(side, id) > score) rank++;
      });
      return { score, rank };
    }

    /** Of a token, in each head: its best keys, the queries that it is best for, and how one key fares; and among
     * how many tokens. */
    async function partners(id, { keys = 5, queries = 3, distance = 0, key = -1 } = {}) {
      const { sides, scores, read: among } = await quickScores(id, distance);
      const [best, fares] = [[], []];
      for (const [i, side] of sides.entries()) {
        best.push(picked(side, scores[i], Math.min(among, i < heads ? keys : queries)));
        if (i < heads) fares.push(key < 0 ? null : judged(side, scores[i], key));
        await rest();
      }
      return { keys: best.slice(0, heads), queries: best.slice(heads), judged: fares, among };
    }
    return { add, partners, read: () => read };
  }

  /** Tokens of the longest text that a page shows: no more than the layer has places or sees. */
  const longestText = ({ places, window }, most) => Math.min(most, places, window || Infinity);

  // ---- Every text ------------------------------------------------------------------------------

  /** What scores a token at each place of a text, over the scale: (rows, from) → [place], used at once. */
  function scorer(layer, query, head, length, place) {
    const { d, eps, frequencies, scale, width } = layer;
    const first = head * width + shiftOf(layer, head);
    const columns = layer.W_K.length / d;
    const scores = new Float64Array(length);
    if (layer.positionsAre === "learned") {
      const places = layer.positions.slice(0, length).map((row) => Float64Array.from(row, (x) => x - mean(row)));
      const spread = places.map((row) => dot(row, row) / d + eps);
      const whole = query.map((x, i) => x + layer.positions[place][i]);
      const sigma = divisor(layer, whole);
      const own = times(whole, layer.W_Q).map((x, i) => x / sigma + layer.b_Q[i]);
      const wanted = Float64Array.from({ length: d }, (_, i) =>
        dot(own, layer.W_K, head * width, (head + 1) * width, i * columns + first - head * width) / scale);
      const ofPlace = layer.positions.slice(0, length).map((row) => dot(wanted, row));
      return (rows, from) => {
        let sum = 0, squares = 0;
        for (let i = from; i < from + d; i++) {
          sum += rows[i];
          squares += rows[i] ** 2;
        }
        const ofToken = dot(wanted, rows, 0, d, from);
        const variance = squares / d - (sum / d) ** 2;
        for (let k = 0; k < length; k++) {
          const shared = (2 * dot(places[k], rows, 0, d, from)) / d;
          scores[k] = (ofToken + ofPlace[k]) / Math.sqrt(variance + shared + spread[k]);
        }
        return scores;
      };
    }
    const rho = divisor(layer, query);
    const own = times(query, layer.W_Q).map((x, i) => x / rho + layer.b_Q[i])
      .slice(head * width, (head + 1) * width);
    const turns = Array.from({ length }, (_, k) => turned({ frequencies, width }, own, place - k));
    const W = Float64Array.from({ length: d * width }, (_, at) =>
      layer.W_K[Math.floor(at / width) * columns + first + (at % width)]);
    const b = layer.b_K.slice(first, first + width);
    const key = new Float64Array(width);
    return (rows, from) => {
      let squares = 0;
      key.fill(0);
      for (let i = 0, at = 0; i < d; i++) {
        const x = rows[from + i];
        squares += x * x;
        for (let column = 0; column < width; column++) key[column] += x * W[at++];
      }
      const inverse = 1 / Math.sqrt(squares / d + eps);
      for (let column = 0; column < width; column++) key[column] = key[column] * inverse + b[column];
      for (let k = 0; k < length; k++) scores[k] = dot(turns[k], key) / scale;
      return scores;
    };
  }

  /**
   * What one head pays, from a query token at a place to each token just before it, in all texts of
   * some length (chapter 13).
   *
   * rows, size: as of `vocabulary`; fixed: ids by place that stand in every text. least, greatest:
   * by the token before; texts(key): one that gets each, ids. The query sees every place.
   */
  async function everyText(layer, rows, size, { head, query, length, place, fixed = {} }) {
    const { d } = layer;
    const score = scorer(layer, Float64Array.from(rows(query, 1)), head, length, place);
    const rest = breath();
    const at = place - 1;
    if (at < 0) throw new Error("a text of this model has no token before another.");
    const before = new Float64Array(size); // scores of the tokens that may stand there
    const ends = [-1, 1].map((sign) => ({ sign, score: new Float64Array(length).fill(-Infinity), token: [] }));
    for (let begin = 0; begin < size; begin += BLOCK) {
      const all = rows(begin, Math.min(BLOCK, size - begin));
      for (let from = 0, id = begin; from < all.length; from += d, id++) {
        const found = score(all, from);
        before[id] = found[at];
        for (const end of ends) {
          for (let k = 0; k < length; k++) {
            if (end.sign * found[k] <= end.score[k]) continue;
            end.score[k] = end.sign * found[k];
            end.token[k] = id;
          }
        }
      }
      await rest();
    }
    for (const [k, id] of Object.entries({ ...fixed, [place]: query })) {
      const given = score(rows(id, 1), 0)[k];
      for (const end of ends) {
        end.score[k] = end.sign * given;
        end.token[k] = id;
      }
    }
    const [low, high] = ends;
    /** Of each token before the query, its share against these scores of all other places. */
    function shares(end) {
      const others = end.score.map((value) => end.sign * value).filter((_, k) => k !== at);
      const most = others.reduce((a, b) => Math.max(a, b));
      const against = most + Math.log(others.reduce((sum, value) => sum + Math.exp(value - most), 0));
      return before.map((value) => 1 / (1 + Math.exp(against - value)));
    }
    const texts = (key) => [high, low].map(({ token }) => token.map((id, k) => (k === at ? key : id)));
    return { least: shares(high), greatest: shares(low), texts };
  }

  return {
    DISTANCE_TERMS, TERMS, everyText, fold, longestText, look, softmax, strongest, termsOf, termsOfParts, vocabulary,
  };
})();
