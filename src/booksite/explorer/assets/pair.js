/* The explorer's pair: what every head thinks of a query and a key, near and far where positions turn. */
"use strict";

(() => {
  const { colour, go, make, mount, number, options, region, state, tokenElement } = lnattnExplorer;
  const { DISTANCE_TERMS, termsOf } = lnattnFirstLayer;
  const { asked, tokenBox, factsOf } = lnattnTokens;
  const DISTANCES = [1, 2, 3, 4, 6, 8, 16, 32, 64];
  const [SUM, RANK] = ["sum", "rank"];

  /** A row for each head. isRank: 1 is the best of a column, else large numbers have strong colours. */
  function table(caption, titles, rows, styles) {
    return make("table", {},
      make("caption", {}, ...caption),
      make("thead", {}, make("tr", {}, ...["Head", ...titles].map((title) => make("th", { scope: "col" }, title)))),
      make("tbody", {}, ...rows.map((row, head) => make("tr", {},
        make("th", { scope: "row" }, String(head)), ...row.map((text, i) => make("td", styles[head][i], text))))));
  }

  const best = (ranks) => (rank) => ({ class: rank === Math.min(...ranks) ? "best" : null });

  /** Score and rank in every head of a model with learned positions. */
  async function ofHeads({ vocab, vocabulary }, query, key, caption) {
    const found = await (await vocabulary()).judged(query, key);
    const style = best(found.map(({ rank }) => rank));
    return table([...caption, `: 1 is the best of ${vocab.toLocaleString("en")} keys`], ["Rank", "Score"],
      found.map(({ score, rank }) => [rank.toLocaleString("en"), number(score, 1)]),
      found.map(({ rank }) => [style(rank), {}]));
  }

  /** A term, the sum, or the rank by T^ee, in every head at every distance. */
  async function ofDistances({ layer, vocabulary, embeddings }, query, key, show, caption) {
    const { rows } = await embeddings();
    const far = DISTANCES.filter((distance) => distance < layer.places);
    const all = await vocabulary(); // which sets q₀ and k₀, too
    const values = [];
    for (const distance of far) {
      if (show === RANK) values.push((await all.judged(query, key, distance)).map(({ rank }) => rank));
      else {
        const some = Array.from({ length: distance + 1 }, (_, i) => rows(i < distance ? key : query, 1));
        const terms = termsOf(layer, some);
        const names = show === SUM ? DISTANCE_TERMS : [show];
        values.push(Array.from({ length: layer.heads }, (_, head) =>
          names.reduce((sum, name) => sum + terms.term(name, head, distance, 0), 0)));
      }
    }
    const byHead = Array.from({ length: layer.heads }, (_, head) => values.map((column) => column[head]));
    const largest = Math.max(...byHead.flat().map(Math.abs), 1e-9);
    const style = show === RANK ? best(byHead.flat()) : (value) => ({ style: `background-color: ${colour(value / largest)}` });
    return table(caption, far.map((distance) => `Δ ${distance}`),
      byHead.map((row) => row.map((value) => show === RANK ? value.toLocaleString("en") : number(value, 1))),
      byHead.map((row) => row.map(style)));
  }

  mount("pair", ["model", "token", "key", "show"], (place) => {
    let shown = null;
    const queries = tokenBox("explorer-query", "Query", (id) => go({ token: id, key: shown.key }, true));
    const keys = tokenBox("explorer-key", "Key", (id) => go({ token: shown.query, key: id }, true));
    const shows = make("select", { id: "explorer-of-pair", change: () => go({ show: shows.value }) });
    const kind = make("div", {}, make("label", { for: shows.id }, "Show"), shows);
    const words = make("p", { "aria-live": "polite" });
    const numbers = region("The pair in every head");
    place.replaceChildren(make("div", { class: "controls" }, queries.element, keys.element, kind), words, numbers);

    return async (isLatest) => {
      const model = await lnattnModels.current();
      const [{ tokens }, facts] = await Promise.all([model.words(), model.facts()]);
      const query = asked("token", tokens, Math.max(0, tokens.indexOf(facts?.start ?? "iens")));
      const own = factsOf(facts, query);
      const key = asked("key", tokens, own?.before[0]?.[0] ?? Math.max(0, tokens.indexOf(" sap")));
      const isRotary = model.layer.positionsAre === "rotary";
      const show = [...DISTANCE_TERMS, SUM, RANK].includes(state().show) ? state().show : RANK;
      const caption = [tokenElement(tokens[key]), " as the key of ", tokenElement(tokens[query])];
      const found = isRotary ? await ofDistances(model, query, key, show, [...caption, ", Δ tokens before it"])
        : await ofHeads(model, query, key, caption);
      if (!isLatest()) return;
      shown = { ...model, query, key };
      queries.set(tokens[query]);
      keys.set(tokens[key]);
      kind.hidden = !isRotary;
      options(shows, [...DISTANCE_TERMS.map((name) => [name, model.all.terms[name].name]),
        [SUM, "the sum of the terms"], [RANK, "the rank among all keys"]], show);
      const count = new Map(own?.before).get(key);
      words.replaceChildren(...(!own ? [] : ["In the text, ", tokenElement(tokens[key]), " stands directly before ",
        tokenElement(tokens[query]), count ? ` ${count.toLocaleString("en")} times.` : ` fewer than ${facts.least} times.`]));
      numbers.replaceChildren(found);
    };
  });
})();
