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
    const others = view.among < view.tokens.length ? "those" : "all";
    return make("section", { class: "head", "aria-label": `Head ${head}` },
      make("h3", {}, `Head ${head}`),
      rank ? make("p", { class: "pair" }, tokenElement(view.tokens[view.key]),
        ` is key ${rank.toLocaleString("en")} of ${others}, at ${number(score, 1)}`) : "",
      make("h4", {}, "As a query, it looks for"), partnerList(view, view.keys[head]),
      make("h4", {}, "As a key, it is looked for by"), partnerList(view, view.queries[head]));
  }

  const FIRST = 1024; // tokens that make a first answer
  const PATIENCE = 1500; // milliseconds at least from one answer to the next, but for the last

  /** The heads, first those with most to see: in which the named key ranks first, then the highest scores. */
  function inOrder({ judged, keys, queries }) {
    const rank = (head) => judged[head]?.rank ?? 0;
    const best = (head) => Math.max(keys[head][0].score, queries[head][0].score);
    return [...keys.keys()].sort((a, b) => rank(a) - rank(b) || best(b) - best(a));
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

    let drawn = null; // the question whose answer stands there

    function draw(view) {
      const { among, id, tokens } = view;
      const [here, all] = [among, tokens.length].map((number) => number.toLocaleString("en"));
      const shown = among < tokens.length ? `So far among ${here} of ${all} tokens, the frequent ones first. ` : "";
      const order = view.key < 0 ? "Heads with the highest scores stand first."
        : "Heads in which that key ranks first stand first, then those with the highest scores.";
      content.replaceChildren(
        make("h3", { class: "chosen" }, tokenElement(tokens[id])),
        make("p", { class: "hint" }, `${shown}${order}`),
        make("div", { class: "heads" }, ...inOrder(view).map((head) => headCard(view, head))));
      content.hidden = false;
      place.dataset.begun = ""; // so that a first answer is seen before the last
    }

    async function answer(isLatest, say) {
      const { layer, missing, one, vocabulary, words: { tokens } } = await lnattnModels.current(say, "all tokens");
      const [id, key] = [asked("token", tokens), asked("key", tokens)];
      const isRotary = layer.positionsAre === "rotary";
      const distance = isRotary ? chosen("apart", layer.places, 1) : 0;
      const question = JSON.stringify([one.folder, id, key, distance]);
      if (!isLatest()) return;
      query.set(tokens[id]);
      other.set(tokens[key]);
      far.hidden = !isRotary;
      apart.value = distance;
      if (drawn !== question) content.hidden = true;
      let [among, begun] = [0, performance.now()];
      for await (const all of vocabulary([id, Math.max(0, key)])) {
        if (!isLatest()) return;
        const isWhole = all.read() === tokens.length;
        const isTime = all.read() >= Math.max(FIRST, 2 * among) && performance.now() - begun > PATIENCE;
        if (!isWhole && !isTime) continue;
        if (isWhole) say(`Asking all tokens of ${one.name} …`);
        const found = await all.partners(id, { key, distance });
        if (!isLatest()) return;
        [among, begun] = [found.among, performance.now()];
        const largest = Math.max(...[...found.keys, ...found.queries].flat().map(({ score }) => score), 1e-9);
        draw({ ...found, id, key, largest, tokens });
        drawn = question;
      }
      told.textContent = `Shown: ${plain(tokens[id])}, token ${id} of ${one.name}`;
      const absent = missing ? `${missing} is not in this edition, so ` : "";
      return `${absent}${one.name}, token ${plain(tokens[id])}${key < 0 ? "" : `, key ${plain(tokens[key])}`}`;
    }
    return answer;
  });
})();
