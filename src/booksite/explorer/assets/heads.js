/* The explorer's tokens: the strongest partners of one in every head, and of several in one head. */
"use strict";

(() => {
  const { chosen, go, make, mount, number, options, plain, state, tokenElement } = lnattnExplorer;
  const { asked, tokenBox, factsOf, link } = lnattnTokens;
  const [KEYS, QUERIES, PAIRS] = [5, 3, 10];
  const distanceOf = (layer) => layer.positionsAre === "rotary" ? chosen("apart", layer.places, 1) : 0;

  /** The partners of one head on one side, best first, with the bigrams among them. */
  function partnerList(view, list, neighbours) {
    const times = new Map(neighbours);
    return make("ol", {}, ...list.map(({ id, score }) => make("li", {},
      make("span", { class: "bar", style: `width: ${((100 * Math.max(0, score)) / view.largest).toFixed(1)}%`, "aria-hidden": "true" }),
      link(view.tokens[id], id),
      times.has(id) ? make("span", { class: "times", title: `next to each other ${times.get(id)} times` }, `${times.get(id)}×`) : "",
      make("span", { class: "score" }, number(score, 1)))));
  }

  function headCard(view, head) {
    const known = view.facts?.auroc?.[head];
    return make("section", { class: "head", "aria-label": `Head ${head}` },
      make("h3", {}, `Head ${head}`),
      known ? make("p", { class: "auroc" }, "AUROC ", make("span", {}, known[0].toFixed(3)),
        `, less a wrong query's ${number(known[0] - known[1], 3)}`) : "",
      make("h4", {}, "As a query, it looks for"),
      partnerList(view, view.keys[head], view.own?.before),
      make("h4", {}, "As a key, it is looked for by"),
      partnerList(view, view.queries[head], view.own?.after));
  }

  function tokenView({ id, ...view }) {
    const { facts, own, tokens } = view;
    return [
      make("h3", { class: "chosen" }, tokenElement(tokens[id])),
      make("p", {}, `Token ${id}.${own ? ` It occurs ${own.count.toLocaleString("en")} times in `
        + `${facts.counted.toLocaleString("en")} tokens (${facts.source}).` : ""}`),
      make("div", { class: "heads" }, ...view.keys.map((_, head) => headCard(view, head))),
    ];
  }

  mount("heads", ["model", "token", "apart"], (place) => {
    const box = tokenBox("explorer-token", "Token", (id) => go({ token: id, key: "" }, true));
    const told = make("p", { class: "hint", role: "status" });
    const content = make("div", { class: "view" });
    place.replaceChildren(
      make("div", { class: "controls" }, box.element),
      make("p", { class: "hint" }, "Type a part of a token (␣ is a space), or # and its number; choose with the arrow keys."),
      told, content);

    return async (isLatest) => {
      const model = await lnattnModels.current();
      if (isLatest()) told.textContent = `Asking all tokens of ${model.one.name} …`;
      const [{ tokens }, facts, all] = await Promise.all([model.words(), model.facts(), model.vocabulary()]);
      const id = asked("token", tokens, Math.max(0, tokens.indexOf(facts?.start ?? "iens")));
      const distance = distanceOf(model.layer);
      const keys = await all.best(id, KEYS, { distance });
      const queries = await all.best(id, QUERIES, { asQuery: false, distance });
      if (!isLatest()) return;
      const largest = Math.max(...[...keys, ...queries].flat().map(({ score }) => score), 1e-9);
      box.set(tokens[id]);
      content.replaceChildren(...tokenView({ id, facts, own: factsOf(facts, id), tokens, keys, queries, largest }));
      told.textContent = `Shown: ${plain(tokens[id])} in ${model.one.name}`
        + (distance ? `, with the key ${distance} before the query` : "");
    };
  });

  mount("strongest", ["model", "text", "among"], (place) => {
    const select = make("select", { id: "explorer-among", change: () => go({ among: select.value }) });
    const told = make("p", { class: "hint", role: "status" });
    const list = make("ol", { class: "heads pairs" });
    place.replaceChildren(make("div", { class: "controls" },
      make("div", {}, make("label", { for: select.id }, "Head"), select)), told, list);

    return async (isLatest) => {
      const model = await lnattnModels.current();
      const { encode, ends, tokens } = await model.words();
      if (!encode) throw new Error("this tokenizer cannot be read");
      const ids = encode(state().text ?? model.all.text).slice(0, model.all.longest);
      const queries = [...new Set(ids.slice(ends[0], ids.length - ends[1]))];
      const head = chosen("among", model.layer.heads, 0);
      if (isLatest()) told.textContent = `Asking all tokens of ${model.one.name} …`;
      const all = await model.vocabulary();
      const pairs = await all.strongestPairs(queries, head, PAIRS, distanceOf(model.layer));
      if (!isLatest()) return;
      options(select, Array.from({ length: model.layer.heads }, (_, one) => [one, `Head ${one}`]), head);
      told.textContent = `The ${pairs.length} pairs of a token of your sentence, as the query, and any token of ${model.one.name} that head ${head} scores highest.`;
      list.replaceChildren(...pairs.map(({ query, id, score }) => make("li", {},
        make("button", { type: "button", class: "pair", click: () => go({ at: "pair", token: query, key: id }, true) },
          tokenElement(tokens[id]), " ← ", tokenElement(tokens[query])),
        make("span", { class: "score" }, number(score, 1)))));
    };
  });
})();
