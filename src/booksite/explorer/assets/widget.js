/* The front page's widget: one sentence, six switches, and where attention goes. */
"use strict";

(() => {
  const { make, mount, number, tokenElement } = lnattnExplorer;
  const { TERMS, look } = lnattnFirstLayer;
  const { bars, settings, switches, wordButtons } = lnattnTerms;

  mount("widget", ["query", "without"], (place) => {
    const words = make("div", { class: "words", role: "group", "aria-label": "Query token" });
    const boxes = make("div", { class: "switches", role: "group", "aria-label": "Terms kept" });
    const shown = make("div", {});
    const moved = make("p", { class: "moved", role: "status" });
    place.replaceChildren(words, make("div", { class: "beside" }, boxes, shown), moved);

    return async (isLatest) => {
      const { all, first, layer, terms, tokens } = await lnattnModels.first();
      if (!isLatest()) return;
      const { query, without } = settings(terms, first);
      const { head } = first;
      const seen = look(layer, terms, head, query, { without });
      const focused = document.activeElement?.id;
      words.replaceChildren(...wordButtons(tokens, query));
      boxes.replaceChildren(...switches(all.terms, TERMS, without, "widget"));
      shown.replaceChildren(
        make("p", { class: "caption" }, "Where ", tokenElement(tokens[query]),
          ` looks in head ${head}`),
        bars(tokens, seen));
      moved.textContent = without.length
        ? `Attention moved by ${number(seen.shift, 2)} nats (lines: with all six terms).`
        : "Take a term out: attention follows at once.";
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
