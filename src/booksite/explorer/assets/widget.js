/* The front page's widget: a sentence, three heads, six switches laid out as query meets key, where attention
 * goes, and what draws it there. Every sentence is computed from the chosen query. */
"use strict";

(() => {
  const { chosen, go, make, mount, number, plain, state, tokenElement } = lnattnExplorer;
  const { TERMS, look } = lnattnFirstLayer;
  const { choices, percent, settings, switches, wordButtons } = lnattnTerms;

  const VIEWS = [
    { name: "two words, one name", model: "minilm", head: 5, query: 5 },
    { name: "the token before", model: "minilm", head: 2, query: 5 },
    { name: "the start of the text", model: "book-gpt2", head: 0, query: 8 },
  ];
  const TYPING = 350; // milliseconds after the last key until the page follows
  const STILL = 0.1; // a share that changes by less than this part of itself is kept

  // ---- What is said ------------------------------------------------------------------------------

  const quoted = (token) => make("em", {}, plain(token).replace(/^␣/, ""));
  const rounded = (share) => number(100 * share, 0);
  const largest = (values) => values.indexOf(Math.max(...values));

  /** Of each term, how far its score of a key lies above its mean over the keys, in nats. */
  function pulls({ values, keys }, layer, name) {
    const mean = values[name].reduce((a, b) => a + b, 0) / keys.length;
    return values[name].map((value) => (value - mean) / layer.scale);
  }

  /** Where the query looks with all terms, and the two terms that draw it there most. */
  function told(seen, layer, terms, tokens, query, names) {
    const top = largest(seen.whole);
    const drawn = names
      .map((name) => [pulls(seen, layer, name)[top], terms[name].name])
      .sort(([a], [b]) => b - a)
      .slice(0, 2)
      .filter(([pull]) => pull > 0)
      .map(([pull, name]) => `${name} (+${number(pull, 1)})`);
    const why = drawn.length ? `, drawn by ${drawn.join(" and ")}` : "";
    return [quoted(tokens[query]), " gives ", quoted(tokens[seen.keys[top]]),
      ` ${rounded(seen.whole[top])} % of its attention${why}. Take a term out.`];
  }

  /** What becomes of that attention without some terms, and where most of it is then. */
  function changed(seen, terms, without, tokens, query) {
    const top = largest(seen.whole);
    const [before, after] = [seen.whole[top], seen.weights[top]];
    const verb = after < (1 - STILL) * before ? "loses" : after > (1 + STILL) * before ? "gains" : "keeps";
    const left = without.length === 1 ? terms[without[0]].name : `${without.length} of the six terms`;
    const said = [`Without ${left} `, quoted(tokens[query]), ` ${verb} `, quoted(tokens[seen.keys[top]]),
      `: ${rounded(before)} → ${rounded(after)} %.`];
    const now = largest(seen.weights);
    if (now === top) return said;
    const even = seen.weights[now] < 2 / seen.keys.length;
    return [...said, ...even ? [" The rest is nearly even."]
      : [" Most, ", `${rounded(seen.weights[now])} %, is now on `, quoted(tokens[seen.keys[now]]), "."]];
  }

  /** Of a reader's sentence, the query that one of the terms moves most: signs at both ends aside. */
  function liveliest(layer, terms, head) {
    let best = { query: Math.max(0, terms.n - 2), most: -1 };
    for (let query = 1; query < terms.n - 1; query++) {
      const most = Math.max(...Object.values(look(layer, terms, head, query).moved));
      if (most > best.most) best = { query, most };
    }
    return { head, query: best.query };
  }

  // ---- Bars --------------------------------------------------------------------------------------

  /** A key's pulls, stacked in the terms' colours: to the right what draws attention, to the left what repels. */
  function stack(parts, most) {
    const sides = { more: [], less: [] };
    for (const { colour, pull } of parts) {
      const width = `width: ${(100 * Math.abs(pull) / most).toFixed(2)}%; background-color: ${colour}`;
      sides[pull > 0 ? "more" : "less"].push(make("span", { style: width }));
    }
    return make("span", { class: "pulls", "aria-hidden": "true" },
      make("span", { class: "less" }, ...sides.less), make("span", { class: "more" }, ...sides.more));
  }

  /** Attention and what draws it, a key each; a line marks where attention ends with all terms. */
  function bars(tokens, seen, layer, terms, names) {
    const of = Object.fromEntries(names.map((name) => [name, pulls(seen, layer, name)]));
    const parts = seen.keys.map((_, i) => names.map((name) => ({ colour: terms[name].colour, pull: of[name][i] })));
    const sums = parts.map((all) => [1, -1].map((sign) =>
      all.reduce((sum, { pull }) => sum + Math.max(0, sign * pull), 0)));
    const most = Math.max(...sums.flat(), 1e-9);
    const width = (share) => `${(100 * share).toFixed(2)}%`;
    return make("ol", { class: "bars" }, ...seen.keys.map((key, i) => make(
      "li", { title: `${plain(tokens[key])}: ${percent(seen.weights[i])}, ${percent(seen.whole[i])} with all terms` },
      make("span", { class: "key" }, tokenElement(tokens[key])),
      make("span", {},
        make("span", { class: "track", "aria-hidden": "true" },
          make("span", { class: "fill", style: `width: ${width(seen.weights[i])}` }),
          make("span", { class: "mark", style: `left: ${width(seen.whole[i])}` })),
        stack(parts[i], most)),
      make("span", { class: "share" }, percent(seen.weights[i])))));
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
      const kept = TERMS.filter((name) => !without.includes(name));
      heads.replaceChildren(...choices("widget-view", VIEWS.map(({ name }) => name), number_,
        (i) => go({ view: i, query: "", without: "", model: own ? VIEWS[i].model : "" })));
      words.replaceChildren(...wordButtons(tokens, query));
      if (document.activeElement !== input) input.value = text;
      note.textContent = "";
      const [ee, ep, pe, pp, e, p] = switches(all.terms, TERMS, without, "widget");
      const title = (words) => make("span", { class: "title" }, words);
      boxes.replaceChildren(
        title(""), title("the key’s token"), title("the key’s position"),
        title("its token"), ee, ep, title("its position"), pe, pp, title("any query"), e, p);
      shown.replaceChildren(
        make("p", { class: "caption" }, "Where ", tokenElement(tokens[query]),
          ` looks, and what draws it there: ${one.name}, first layer, head ${view.head}`),
        bars(tokens, seen, layer, all.terms, kept));
      said.replaceChildren(...without.length
        ? changed(seen, all.terms, without, tokens, query) : told(seen, layer, all.terms, tokens, query, TERMS));
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
