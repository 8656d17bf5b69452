/* Chapter 3's pair: where a token of its sentence looks in a head of MiniLM, with terms and without. */
"use strict";

(() => {
  const { make, mount, go, options } = lnattnExplorer;
  const { look } = lnattnFirstLayer;
  const { choose, show } = lnattnPulls;
  const { settings, wordButtons } = lnattnTerms;

  mount("pair", ["head", "query", "without"], (place) => {
    const words = make("div", { class: "words", role: "radiogroup", "aria-label": "Query token" });
    const heads = make("select", { id: "pair-head", change: () => go({ head: heads.value }) });
    const boxes = make("div", { class: "grid", role: "group", "aria-label": "Terms kept" });
    const shown = make("div", { class: "shown" });
    const said = make("p", { class: "moved", role: "status" });
    place.replaceChildren(words, make("div", { class: "beside" },
      make("div", {}, said, boxes,
        make("div", { class: "controls settings" }, make("div", {}, make("label", { for: heads.id }, "Head"), heads))),
      shown));

    return async (isLatest) => {
      const { all, layer, one, terms, tokens } = await lnattnModels.first("minilm", "pair");
      if (!isLatest()) return;
      const { head, query, without } = settings(terms, { head: 5, query: tokens.indexOf("york") });
      const seen = look(layer, terms, head, query, { without });
      const focused = document.activeElement?.id;
      words.replaceChildren(...wordButtons(tokens, query));
      options(heads, Array.from({ length: terms.heads }, (_, i) => [i, i]), head);
      boxes.replaceChildren(...choose(all.terms, without, "pair"));
      show({ seen, layer, tokens, query, without, terms: all.terms }, { said, shown }, `${one.name}, head ${head}`);
      lnattnChapter.caption(place, "Choose a token and take terms out. Grey: the head’s attention, and lines where it was with all "
        + "six terms. Coloured: what each term adds to a key’s score, above its mean over all keys, to the right, or takes away.");
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
