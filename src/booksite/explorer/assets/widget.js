/* The front page's widget: one sentence, six switches, and where attention goes. */
"use strict";

(() => {
  const { make, mount, number, tokenElement } = lnattnExplorer;
  const { TERMS, look } = lnattnFirstLayer;
  const { bars, embedded, settings, switches, termsOf, wordButtons } = lnattnTerms;

  mount("widget", ["query", "without"], (place) => {
    const words = make("div", { class: "words", role: "group", "aria-label": "Query token" });
    const boxes = make("div", { class: "switches", role: "group", "aria-label": "Terms kept" });
    const shown = make("div", {});
    const moved = make("p", { class: "moved", role: "status" });
    place.replaceChildren(words, make("div", { class: "beside" }, boxes, shown), moved);

    return async (isLatest) => {
      const { all, opening } = await embedded();
      if (!isLatest()) return;
      const terms = termsOf(opening);
      const { query, without } = settings(terms, opening);
      const { head } = opening;
      const seen = look(opening, terms, head, query, { without });
      const focused = document.activeElement?.id;
      words.replaceChildren(...wordButtons(opening.tokens, query));
      boxes.replaceChildren(...switches(all.terms, TERMS, without, "widget"));
      shown.replaceChildren(
        make("p", { class: "caption" }, "Where ", tokenElement(opening.tokens[query]),
          ` looks in head ${head}`),
        bars(opening.tokens, seen));
      moved.textContent = without.length
        ? `Attention moved by ${number(seen.shift, 2)} nats (lines: with all six terms).`
        : "Take a term out: attention follows at once.";
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
