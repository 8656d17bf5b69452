/* The sentence that the address asks for, in the model that it asks for: its tokens and its terms.
 *
 * Any text in a model whose layer the browser has; in the others the examples, which Python has
 * computed.
 */
"use strict";

globalThis.lnattnTyped = (() => {
  const { partOf, state } = lnattnExplorer;
  const { layer: readLayer, matrix, numbers, sixTerms } = lnattnFirstLayer;
  const { embedded, termsOf } = lnattnTerms;

  /** The layer, the tokenizer and the texts of the tokens; loaded when first needed. */
  async function engine(part) {
    const [data, tokens] = await Promise.all([part("layer"), part("tokens")]);
    data.ready ??= {
      layer: readLayer(data),
      encode: lnattnBpe.tokenizer(tokens, numbers(data.merges, 3), data.added),
      tokens,
    };
    return data.ready;
  }

  /** The rows of the embedding matrix for some tokens; their shards load when they are needed. */
  async function embeddings(part, layer, ids) {
    const shards = [...new Set(ids.map((id) => Math.floor(id / layer.perShard)))];
    const loaded = await Promise.all(shards.map((shard) => part(`rows-${shard}`)));
    const rows = new Map(shards.map((shard, i) => [shard, loaded[i].unpacked ??= matrix(loaded[i])]));
    return ids.map((id) => rows.get(Math.floor(id / layer.perShard))[id % layer.perShard]);
  }

  /** Two places of the address, "2.5": their tokens change places; null for none. */
  function swapped(n) {
    const places = (state().swap ?? "").split(".").map(Number);
    const valid = places.length === 2 && places.every((i) => Number.isInteger(i) && i >= 0 && i < n);
    return valid && places[0] !== places[1] ? places : null;
  }

  /** A sentence that Python has computed. */
  const kept = (one, opening) => ({
    one, text: opening.text, shift: 0, layer: opening, tokens: opening.tokens,
    terms: termsOf(opening), cut: 0, first: opening, fixed: !one.computed,
  });

  /**
   * The sentence of the address in the model with this folder; in the embedded one, where the model
   * knows only the examples and this is none (`lost` then names it) or is not in this build.
   *
   * first: head and query to show where the address names none; fixed: nothing but terms can change.
   */
  async function analysed(folder) {
    const { all, one, part, opening } = await embedded();
    const text = state().text ?? opening.text;
    const asked = all.models.find((model) => model.folder === folder && model !== one);
    const number = all.examples.indexOf(text);
    if (asked && number >= 0) {
      return { all, ...kept(asked, await partOf(asked)(`sentence-${number}`)) };
    }
    const lost = asked ? asked.name : null;
    const shift = Number(state().shift ?? 0);
    if (text === opening.text && !shift && !state().swap) {
      return { all, lost, ...kept(one, opening) };
    }
    const { layer, encode, tokens } = await engine(part);
    let ids = encode(text);
    if (layer.begin !== null && ids[0] !== layer.begin) ids = [layer.begin, ...ids];
    const most = Math.min(all.longest, layer.positions.length);
    const cut = Math.max(0, ids.length - most);
    ids = ids.slice(0, most);
    const pair = swapped(ids.length);
    if (pair) [ids[pair[0]], ids[pair[1]]] = [ids[pair[1]], ids[pair[0]]];
    const last = layer.positions.length - ids.length;
    const start = Number.isInteger(shift) && shift > 0 ? Math.min(shift, last) : 0;
    const terms = sixTerms(layer, await embeddings(part, layer, ids), start);
    const first = { head: opening.head, query: text === opening.text ? opening.query : terms.n - 1 };
    return {
      all, lost, one, text, shift: start, layer, tokens: ids.map((id) => tokens[id]), terms, cut,
      pair, first, fixed: false,
    };
  }

  return { analysed };
})();
