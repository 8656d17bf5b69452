/* The sentence that the address asks for, in the model that it asks for: its tokens and its terms.
 *
 * Any text in a model whose layer the browser has, with six terms, or four where positions are
 * rotary; in the others the examples, which Python has computed.
 */
"use strict";

globalThis.lnattnTyped = (() => {
  const { partOf, state } = lnattnExplorer;
  const { embeddings, layer: readLayer, numbers, sixTerms } = lnattnFirstLayer;
  const { embedded, termsOf } = lnattnTerms;

  /** The layer, the tokenizer and the texts of the tokens; loaded when first needed. */
  async function engine(part) {
    const [data, tokens] = await Promise.all([part("layer"), part("tokens")]);
    data.ready ??= {
      layer: data.positionsAre === "rotary" ? lnattnRotary.layer(data) : readLayer(data),
      encode: lnattnBpe.tokenizer(tokens, numbers(data.merges, 3), data.added),
      tokens,
    };
    return data.ready;
  }

  /** What `unpacked` makes of each token's script; the scripts load when they are needed. */
  async function rowsOf(part, layer, ids, unpacked) {
    const shards = [...new Set(ids.map((id) => Math.floor(id / layer.perShard)))];
    const loaded = await Promise.all(shards.map((shard) => part(`rows-${shard}`)));
    const rows = new Map(shards.map((shard, i) => [shard, loaded[i].unpacked ??= unpacked(loaded[i])]));
    return ids.map((id) => rows.get(Math.floor(id / layer.perShard))[id % layer.perShard]);
  }

  /** The terms of some tokens from position `start` on, by a layer of either kind. */
  async function termsAt(part, layer, ids, start) {
    if (layer.positionsAre === "rotary") {
      const found = await rowsOf(part, layer, ids, lnattnRotary.tokens);
      return lnattnRotary.distanceTerms(layer, found, ids.map((_, i) => start + i));
    }
    const rows = await rowsOf(part, layer, ids, (shard) => embeddings(layer, shard)
      .map((unit, i) => unit.map((value) => value * shard.sigma[i])));
    return sixTerms(layer, rows, start);
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

  /** The models that can be asked for, by their folders. */
  const readers = (all) => [...all.models, ...all.rotary];

  /** `ids` as the address has them: with the model's first token, not too long, two swapped. */
  function arranged(all, layer, ids) {
    const whole = layer.begin === null || ids[0] === layer.begin ? ids : [layer.begin, ...ids];
    const kept = whole.slice(0, Math.min(all.longest, layer.places));
    const pair = swapped(kept.length);
    if (pair) [kept[pair[0]], kept[pair[1]]] = [kept[pair[1]], kept[pair[0]]];
    const shift = Number(state().shift ?? 0);
    const last = layer.places - kept.length;
    const start = Number.isInteger(shift) && shift > 0 ? Math.min(shift, last) : 0;
    return { ids: kept, cut: whole.length - kept.length, pair, start };
  }

  /**
   * The sentence of the address in the model with this folder; in the embedded one, where the model
   * knows only the examples and this is none (`lost` then names it) or is not in this build.
   *
   * first: head and query to show where the address names none; fixed: nothing but terms can change.
   */
  async function analysed(folder) {
    const { all, one, opening } = await embedded();
    const text = state().text ?? opening.text;
    const asked = readers(all).find((model) => model.folder === folder && model !== one);
    const number = all.examples.indexOf(text);
    if (asked && !asked.computed && number >= 0) {
      return { all, ...kept(asked, await partOf(asked)(`sentence-${number}`)) };
    }
    const reader = asked?.computed ? asked : one;
    const lost = asked && reader !== asked ? asked.name : null;
    const asWritten = text === opening.text && !Number(state().shift ?? 0) && !state().swap;
    if (reader === one && asWritten) return { all, lost, ...kept(one, opening) };
    const part = partOf(reader);
    const { layer, encode, tokens } = await engine(part);
    const { ids, cut, pair, start } = arranged(all, layer, encode(text));
    const terms = await termsAt(part, layer, ids, start);
    const first = reader !== one ? lnattnRotary.strongest(layer, terms)
      : { head: opening.head, query: text === opening.text ? opening.query : terms.n - 1 };
    return {
      all, lost, one: reader, text, shift: start, layer, tokens: ids.map((id) => tokens[id]), terms,
      cut, pair, first, fixed: false,
    };
  }

  return { analysed, engine, readers, rowsOf };
})();
