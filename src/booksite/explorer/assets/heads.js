/* The explorer's token: its strongest partners in every head, and what every head thinks of one key. */
"use strict";

(() => {
  const { chosen, go, make, mount, number, plain, tokenElement } = lnattnExplorer;
  const { asked, link, tokenBox } = lnattnTokens;

  /** The partners of one head on one side, best first. */
  function partnerList({ largest, tokens }, list) {
    const width = (score) => `width: ${((100 * Math.max(0, score)) / largest).toFixed(1)}%`;
    return make("ol", {}, ...list.map(({ id, score }) => make("li", {},
      make("span", { class: "bar", style: width(score), "aria-hidden": "true" }),
      link(tokens[id], id), make("span", { class: "score" }, number(score, 1)))));
  }

  function headCard(view, head) {
    const { rank, score } = view.judged[head] ?? {};
    return make("section", { class: "head", "aria-label": `Head ${head}` },
      make("h3", {}, `Head ${head}`),
      rank ? make("p", { class: "pair" }, tokenElement(view.tokens[view.key]),
        ` is key ${rank.toLocaleString("en")} of all, at ${number(score, 1)}`) : "",
      make("h4", {}, "As a query, it looks for"), partnerList(view, view.keys[head]),
      make("h4", {}, "As a key, it is looked for by"), partnerList(view, view.queries[head]));
  }

  mount("heads", ["model", "token", "key", "apart"], (place) => {
    const query = tokenBox("explorer-token", "Token", (id) => go({ token: id }, true));
    const other = tokenBox("explorer-key", "A key to rank", (id) => go({ key: id }, true));
    const apart = make("input", {
      id: "explorer-apart", type: "number", min: "0", change: () => go({ apart: apart.value }),
    });
    const far = make("div", {}, make("label", { for: apart.id }, "Tokens from key to query"), apart);
    const told = make("p", { class: "hint", role: "status" });
    const content = make("div", { class: "view" });
    place.replaceChildren(
      make("div", { class: "controls" }, query.element, other.element, far),
      make("p", { class: "hint" }, "Type a part of a token (␣ is a space), or # and its number; choose with the arrow keys."),
      told, content);

    return async (isLatest) => {
      const { layer, one, ...model } = await lnattnModels.current();
      if (isLatest()) told.textContent = `Asking all tokens of ${one.name} …`;
      const [{ tokens }, all] = await Promise.all([model.words(), model.vocabulary()]);
      const [id, key] = [asked("token", tokens), asked("key", tokens)];
      const isRotary = layer.positionsAre === "rotary";
      const distance = isRotary ? chosen("apart", layer.places, 1) : 0;
      const found = await all.partners(id, { key, distance });
      if (!isLatest()) return;
      const largest = Math.max(...[...found.keys, ...found.queries].flat().map(({ score }) => score), 1e-9);
      const view = { ...found, tokens, key, largest };
      query.set(tokens[id]);
      other.set(tokens[key]);
      far.hidden = !isRotary;
      apart.value = distance;
      content.replaceChildren(
        make("h3", { class: "chosen" }, tokenElement(tokens[id])),
        make("div", { class: "heads" }, ...found.keys.map((_, head) => headCard(view, head))));
      told.textContent = `Shown: ${plain(tokens[id])}, token ${id} of ${one.name}`;
      const absent = model.missing ? `${model.missing} is not in this edition, so ` : "";
      return `${absent}${one.name}, token ${plain(tokens[id])}${key < 0 ? "" : `, key ${plain(tokens[key])}`}`;
    };
  });
})();
