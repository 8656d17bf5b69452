/* The explorer's guarantees: what one head pays in every text, from a token to each that stands before it, and a
 * text that proves it, written into the sentence. */
"use strict";

(() => {
  const { chosen, go, make, mount, options, plain } = lnattnExplorer;
  const { everyText, longestText } = lnattnFirstLayer;
  const { asked, link, tokenBox } = lnattnTokens;
  const { percent } = lnattnTerms;
  const SHOWN = 8; // predecessors that are promised most

  /** A text as long as the page shows; a decoder's query stands last, an encoder's inside its frame. */
  function settingOf({ all, layer }, { encode, ends }) {
    const length = longestText(layer, all.longest);
    if (layer.causal) return { length, place: length - 1, fixed: {} };
    const frame = encode ? encode("") : [];
    const places = frame.map((id, i) => [i < ends[0] ? i : length - frame.length + i, id]);
    return { length, place: Math.floor(length / 2), fixed: Object.fromEntries(places) };
  }

  /** What is shown, in a sentence. */
  function told({ found, head, key, length, name, place, fixed, query, tokens }) {
    const [least, greatest] = [found.least, found.greatest].map((of) => percent(of[key]));
    const named = { 0: "first", [length - 1]: "last" };
    const given = Object.entries(fixed).map(([at, id]) => `${plain(tokens[id])} ${named[at] ?? `at ${at}`}`);
    const where = place === length - 1 ? "the last" : `at place ${place}`;
    const framed = given.length ? `, with ${given.join(" and ")}` : "";
    return `In every text of ${length} tokens of ${name}${framed}, ${plain(tokens[query])}, ${where}, gives `
      + `${plain(tokens[key])} just before it at least ${least} and at most ${greatest} of head ${head}’s attention.`;
  }

  /** From the least to the greatest attention, as a bar on a track. */
  function interval(least, greatest) {
    const at = `left: ${(100 * least).toFixed(2)}%; width: ${(100 * (greatest - least)).toFixed(2)}%`;
    return make("span", { class: "track", "aria-hidden": "true" }, make("span", { class: "fill", style: at }));
  }

  function table({ found, key, tokens }, best) {
    const rows = [...new Set([key, ...best])].map((id) => make("tr", {},
      make("th", { scope: "row" }, link(tokens[id], id, "key")),
      make("td", { class: "interval" }, interval(found.least[id], found.greatest[id])),
      make("td", {}, percent(found.least[id])), make("td", {}, percent(found.greatest[id]))));
    const titles = ["The token before", "From least to greatest", "Least", "Greatest"]
      .map((title) => make("th", { scope: "col" }, title));
    return make("table", {},
      make("caption", {}, "The token before that you named, and those that are promised most"),
      make("thead", {}, make("tr", {}, ...titles)), make("tbody", {}, ...rows));
  }

  /** A button that writes a text into the sentence, and leads there. */
  function writer(id, words, ids, { head, place }) {
    const write = () => {
      go({ ids: ids.join("."), head, query: place, text: "", without: "", show: "" }, true);
      const sentence = document.querySelector('.token-explorer[data-part="sentence"]');
      sentence?.scrollIntoView();
      sentence?.focus({ preventScroll: true });
    };
    return make("button", { type: "button", id, click: write }, words);
  }

  mount("every-text", ["model", "token", "key", "head"], (place) => {
    const query = tokenBox("every-token", "Token", (id) => go({ token: id }, true));
    const before = tokenBox("every-key", "The token before", (id) => go({ key: id }, true));
    const heads = make("select", { id: "every-head", change: () => go({ head: heads.value }, true) });
    const said = make("p", { class: "hint", role: "status" });
    const content = make("div", { class: "view answer" });
    place.replaceChildren(
      make("div", { class: "controls" }, query.element, before.element,
        make("div", {}, make("label", { for: heads.id }, "Head"), heads)),
      said, content);
    let last = { about: "", found: null }; // another token before asks nothing anew

    return async (isLatest, say) => {
      const model = await lnattnModels.current(say, "all tokens");
      const { embeddings, layer, one, vocabulary, words } = model;
      const { tokens } = words;
      const [id, named] = [asked("token", tokens), asked("key", tokens)];
      const head = chosen("head", layer.heads, 0);
      const setting = settingOf(model, words);
      const about = JSON.stringify([one.folder, id, head]);
      if (about !== last.about) {
        for await (const _ of vocabulary([id])) if (!isLatest()) return; // all tokens are here afterwards
        say(`Asking all texts of ${one.name} …`);
        const found = await everyText(layer, embeddings.rows, embeddings.size, { head, query: id, ...setting });
        if (!isLatest()) return;
        last = { about, found };
      }
      if (!isLatest()) return;
      const { found } = last;
      const best = Array.from(found.least.keys()).sort((a, b) => found.least[b] - found.least[a]).slice(0, SHOWN);
      const view = { ...setting, found, head, key: named < 0 ? best[0] : named, name: one.name, query: id, tokens };
      query.set(tokens[id]);
      before.set(tokens[view.key]);
      options(heads, Array.from({ length: layer.heads }, (_, i) => [i, i]), head);
      const [worst, kindest] = found.texts(view.key);
      const focused = document.activeElement?.id;
      content.replaceChildren(
        table(view, best),
        make("div", { class: "controls settings" },
          writer("every-worst", "Write the worst text into the sentence", worst, view),
          writer("every-best", "Write the best text into the sentence", kindest, view)));
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
      said.textContent = told(view);
      return `${one.name}, head ${head}, token ${plain(tokens[id])} after ${plain(tokens[view.key])}`;
    };
  });
})();
