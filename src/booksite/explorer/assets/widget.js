/* The front page's widget: a sentence, three heads, six switches laid out as query meets key, where attention
 * goes, and what draws it there. Every sentence is computed from the chosen query. */
"use strict";

(() => {
  const { chosen, go, make, mount, state } = lnattnExplorer;
  const { look } = lnattnFirstLayer;
  const { choose, show } = lnattnPulls;
  const { choices, settings, wordButtons } = lnattnTerms;

  const VIEWS = [
    { name: "two words, one name", model: "minilm", head: 5, query: 5 },
    { name: "the token before", model: "minilm", head: 2, query: 5 },
    { name: "the start of the text", model: "book-gpt2", head: 0, query: 8 },
  ];
  const TYPING = 350; // milliseconds after the last key until the page follows

  /** Of a reader's sentence, the query that one of the terms moves most: signs at both ends aside. */
  function liveliest(layer, terms, head) {
    let best = { query: Math.max(0, terms.n - 2), most: -1 };
    for (let query = 1; query < terms.n - 1; query++) {
      const most = Math.max(...Object.values(look(layer, terms, head, query).moved));
      if (most > best.most) best = { query, most };
    }
    return { head, query: best.query };
  }

  // ---- The widget --------------------------------------------------------------------------------

  mount("widget", ["view", "text", "model", "query", "without"], (place) => {
    let timer = null;
    const input = make("input", {
      id: "widget-text", type: "text", maxlength: "200", autocomplete: "off", spellcheck: "false",
      input: () => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          if (!input.value.trim()) return;
          go({ text: input.value, model: VIEWS[chosen("view", VIEWS.length, 0)].model, query: "" });
        }, TYPING);
      },
    });
    const note = make("p", { class: "hint", role: "status" });
    const heads = make("div", { class: "words", role: "radiogroup", "aria-label": "Head" });
    const words = make("div", { class: "words answer", role: "radiogroup", "aria-label": "Query token" });
    const boxes = make("div", { class: "grid", role: "group", "aria-label": "Terms kept" });
    const shown = make("div", { class: "shown" });
    const said = make("p", { class: "moved", role: "status" });
    place.replaceChildren(heads,
      make("div", { class: "text" }, make("label", { for: "widget-text" }, "A sentence of yours"), input), note,
      words, make("div", { class: "beside answer" }, make("div", {}, said, boxes), shown));

    return async (isLatest, say) => {
      const number_ = chosen("view", VIEWS.length, 0);
      const view = VIEWS[number_];
      const own = Boolean(state().text) && state().model === view.model;
      const { all, layer, one, terms, text, tokens } = await (own ? lnattnModels.sentence(say) : lnattnModels.first(view.model));
      if (!isLatest()) return;
      const { query, without } = settings(terms, own && text !== all.text ? liveliest(layer, terms, view.head) : view);
      const seen = look(layer, terms, view.head, query, { without });
      const focused = document.activeElement?.id;
      heads.replaceChildren(...choices("widget-view", VIEWS.map(({ name }) => name), number_,
        (i) => go({ view: i, query: "", without: "", model: own ? VIEWS[i].model : "" })));
      words.replaceChildren(...wordButtons(tokens, query));
      if (document.activeElement !== input) input.value = text;
      note.textContent = "";
      boxes.replaceChildren(...choose(all.terms, without, "widget"));
      const shownOf = { seen, layer, tokens, query, without, terms: all.terms };
      show(shownOf, { said, shown }, `${one.name}, first layer, head ${view.head}`);
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
