/* The explorer's pair at a distance: what every head of a rotary model thinks of it, near and far. */
"use strict";

(() => {
  const { colour, go, load, make, mount, number, partOf, state, tokenElement } = lnattnExplorer;
  const { dot } = lnattnFirstLayer;
  const { TERMS, distanceTerms, tokens: unpacked } = lnattnRotary;
  const { swatch, termElement } = lnattnTerms;
  const { asked, combobox } = lnattnTokens;
  const { engine, rowsOf } = lnattnTyped;
  const DISTANCES = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64];
  const FIRST = [" York", " New"]; // the book's own example, where the address names no pair
  const [SUM, RANK] = ["sum", "rank"];

  /** The distances that the model's table of rotations has. */
  const distancesOf = (layer) => DISTANCES.filter((distance) => distance < layer.places);

  /** A pair at every distance: its key at the first place, its query at all that follow. */
  const apart = (layer, query, key) =>
    distanceTerms(layer, [key, ...distancesOf(layer).map(() => query)], [0, ...distancesOf(layer)]);

  /** A number for each head and distance. */
  const tableOf = (layer, value) => Array.from({ length: layer.heads }, (_, head) =>
    distancesOf(layer).map((_, i) => value(head, i + 1)));

  /** Where a key comes among all, by T^ee at each distance; 1 is the best. */
  function ranks(layer, all, terms, query) {
    const { heads, keyHeads, width } = layer;
    layer.allKeys ??= distanceTerms(layer, all, all.map(() => 0)).keys();
    const distances = distancesOf(layer);
    const turned = distanceTerms(layer, distances.map(() => query), distances).queries();
    return tableOf(layer, (head, i) => {
      const [from, score] = [head * width, terms.term("ee", head, i, 0)];
      const shift = Math.floor((head * keyHeads) / heads) * width - from;
      const isAbove = (key) => dot(turned[i - 1], key, from, from + width, shift) > score;
      return 1 + layer.allKeys.reduce((sum, key) => sum + isAbove(key), 0);
    });
  }

  function table(layer, rows, caption, isRank) {
    const largest = Math.max(...rows.flat().map(Math.abs), 1e-9);
    const best = Math.min(...rows.flat());
    const style = (value) => isRank ? null : `background-color: ${colour(value / largest)}`;
    const text = (value) => isRank ? value.toLocaleString("en") : number(value, 1);
    return make("table", {},
      make("caption", {}, ...caption),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Head"),
        ...distancesOf(layer).map((distance) => make("th", { scope: "col" }, `Δ ${distance}`)))),
      make("tbody", {}, ...rows.map((row, head) => make("tr", {},
        make("th", { scope: "row" }, String(head)),
        ...row.map((value) => make("td", {
          style: style(value), class: isRank && value === best ? "best" : null,
        }, text(value)))))));
  }

  mount("distance", ["from", "to", "apart"], (place) => {
    let shown = null;
    const vocabulary = () => shown.part("tokens");
    const queries = combobox("explorer-from", "Query", vocabulary,
      (id) => go({ from: id, to: shown.key }, true));
    const keys = combobox("explorer-to", "Key", vocabulary,
      (id) => go({ from: shown.query, to: id }, true));
    const shows = make("select", { id: "explorer-apart", change: () => go({ apart: shows.value }) });
    const start = make("button", { type: "button", click: () => go({ apart: "ee" }) }, "Show the pair");
    const said = make("p", { class: "hint", role: "status" });
    const controls = make("div", { class: "controls" }, queries.element, keys.element,
      make("div", {}, make("label", { for: "explorer-apart" }, "Show"), shows));
    const numbers = make("div", {
      class: "numbers", role: "region", tabindex: "0", "aria-label": "The pair at every distance",
    });
    place.replaceChildren(start, controls, said, numbers);
    controls.hidden = true;

    return async (isLatest) => {
      const all = await load("models");
      const one = all.rotary[0];
      const isAsked = ["from", "to", "apart"].some((name) => state()[name]);
      start.hidden = !one || isAsked;
      controls.hidden = !one || !isAsked;
      if (!one) said.textContent = "No model with rotary positions is in this build.";
      if (!one || !isAsked) {
        numbers.replaceChildren();
        return;
      }
      const part = partOf(one);
      const { layer, tokens } = await engine(part);
      const [query, key] = await Promise.all(["from", "to"].map((name, i) =>
        asked(name, { vocab: tokens.length }, part, Math.max(0, tokens.indexOf(FIRST[i])))));
      const [q, k] = await rowsOf(part, layer, [query, key], unpacked);
      const show = [...TERMS, SUM, RANK].includes(state().apart) ? state().apart : "ee";
      const terms = apart(layer, q, k);
      let rows = null;
      if (show === RANK) {
        if (isLatest()) said.textContent = `Reading all embeddings of ${one.name}, once.`;
        const everything = await rowsOf(part, layer, tokens.map((_, id) => id), unpacked);
        rows = ranks(layer, everything, terms, q);
      } else {
        const names = show === SUM ? TERMS : [show];
        rows = tableOf(layer, (head, i) =>
          names.reduce((sum, name) => sum + terms.term(name, head, i, 0), 0));
      }
      if (!isLatest()) return;
      const other = shown === null;
      shown = { part, query, key };
      queries.set(tokens[query], other);
      keys.set(tokens[key], other);
      const named = { ...Object.fromEntries(TERMS.map((name) => [name, all.terms[name].name])),
        [SUM]: "the sum of the four terms", [RANK]: "rank among all keys, by the first term" };
      shows.replaceChildren(...Object.entries(named).map(([value, text]) =>
        make("option", { value, selected: value === show && "" }, text)));
      said.textContent = `Head by head in ${one.name}, the key Δ tokens before the query; `
        + `${show === RANK ? "1 is the best" : `exact to ±${one.tolerance.terms}`}.`;
      const what = TERMS.includes(show)
        ? [termElement(show), swatch(all.terms, show), ` ${named[show]}`] : [named[show]];
      numbers.replaceChildren(table(layer, rows, [...what, ": ", tokenElement(tokens[key]),
        " before ", tokenElement(tokens[query])], show === RANK));
    };
  });
})();
