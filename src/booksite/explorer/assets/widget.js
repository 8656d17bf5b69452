/* The front page's widget: one sentence, three heads, six switches laid out as query meets key, and where
 * attention goes. Each click is answered by one sentence. */
"use strict";

(() => {
  const { chosen, go, make, mount, plain, tokenElement } = lnattnExplorer;
  const { TERMS, look } = lnattnFirstLayer;
  const { bars, choices, percent, settings, switches, wordButtons } = lnattnTerms;

  // What is said of a head, and of it without the terms that it lives on (a test checks each sentence).
  const VIEWS = [
    {
      name: "the token before", model: "minilm", head: 2, query: 5,
      whole: "York looks at New, and so does every token at the one before it. Take a term out.",
      says: { pp: "Without position → position the head no longer knows which token came just before." },
    },
    {
      name: "two words, one name", model: "minilm", head: 5, query: 5,
      whole: "York looks at New, of which it is a part. Take a term out.",
      says: {
        ee: "Without token → token the head no longer knows that New and York belong together.",
        pp: "Without position → position it no longer knows that New stands near, and looks elsewhere.",
        e: "Without any → token nothing holds New back: the head likes frequent words less, whoever asks.",
      },
    },
    {
      name: "the start of the text", model: "book-gpt2", head: 0, query: 8,
      whole: "The start of the text gets more than any other key, whoever asks. Take a term out.",
      says: { p: "Without any → position the start of the text is a key like the others." },
    },
  ];
  const SMALL = 0.08; // nats: attention that moves by less looks the same

  function answer({ says, whole }, terms, without, seen, tokens) {
    if (!without.length) return whole;
    const top = seen.weights.indexOf(Math.max(...seen.weights));
    const most = `most, ${percent(seen.weights[top], 0)}, is now on ${plain(tokens[seen.keys[top]])}.`;
    if (without.length > 1) return `Without ${without.length} of the six terms: ${most}`;
    const [name] = without;
    if (says[name]) return says[name];
    const left = `Without ${terms[name].name}`;
    return seen.shift < SMALL ? `${left} hardly anything changes: this head does not live on it.` : `${left}: ${most}`;
  }

  mount("widget", ["view", "query", "without"], (place) => {
    const heads = make("div", { class: "words", role: "radiogroup", "aria-label": "Head" });
    const words = make("div", { class: "words", role: "radiogroup", "aria-label": "Query token" });
    const boxes = make("div", { class: "grid", role: "group", "aria-label": "Terms kept" });
    const shown = make("div", { class: "shown" });
    const said = make("p", { class: "moved", role: "status" });
    place.replaceChildren(heads, words, make("div", { class: "beside" }, make("div", {}, boxes, said), shown));

    return async (isLatest) => {
      const number = chosen("view", VIEWS.length, 0);
      const view = VIEWS[number];
      const { all, layer, one, terms, tokens } = await lnattnModels.first(view.model);
      if (!isLatest()) return;
      const { query, without } = settings(terms, view);
      const seen = look(layer, terms, view.head, query, { without });
      const focused = document.activeElement?.id;
      heads.replaceChildren(...choices("widget-view", VIEWS.map(({ name }) => name), number,
        (i) => go({ view: i, query: "", without: "" })));
      words.replaceChildren(...wordButtons(tokens, query));
      const [ee, ep, pe, pp, e, p] = switches(all.terms, TERMS, without, "widget");
      const title = (text) => make("span", { class: "title" }, text);
      boxes.replaceChildren(
        title(""), title("the key’s token"), title("the key’s position"),
        title("its token"), ee, ep, title("its position"), pe, pp, title("any query"), e, p);
      shown.replaceChildren(
        make("p", { class: "caption" }, "Where ", tokenElement(tokens[query]),
          ` looks: ${one.name}, first layer, head ${view.head}`),
        bars(tokens, seen));
      said.textContent = query === view.query || without.length
        ? answer(view, all.terms, without, seen, tokens) : "Another query of the same head. Take a term out.";
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
