/* What the sentence and the front page's widget share: word chips, switches for the terms, and bars of
 * attention. */
"use strict";

globalThis.lnattnTerms = (() => {
  const { chosen, go, make, number, plain, state, tokenElement } = lnattnExplorer;

  /** What the address says of a sentence with these terms; `first`: the view where it says nothing. */
  function settings({ n, heads, names }, first) {
    const said = state();
    return {
      head: chosen("head", heads, Math.min(first.head, heads - 1)),
      query: chosen("query", n, Math.min(first.query, n - 1)),
      without: (said.without ?? "").split(".").filter((name) => names.includes(name)),
    };
  }

  /** Buttons of which one is chosen: to the keyboard one stop, within which arrow keys move. */
  function choices(name, children, chosen, choose) {
    const all = children.map((child, i) => make("button", {
      type: "button", role: "radio", id: `${name}-${i}`, "aria-checked": String(i === chosen),
      tabindex: i === chosen ? 0 : -1, click: () => choose(i),
      keydown: (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = all[(i + step + all.length) % all.length];
        next.focus();
        next.click();
      },
    }, child));
    return all;
  }

  /** The tokens, of which one is the query. */
  const wordButtons = (tokens, query) =>
    choices("explorer-word", tokens.map(tokenElement), query, (i) => go({ query: i }));

  /** T with the term's letters, as in the chapters. */
  function termElement(name) {
    return make("span", { class: "term" }, make("i", {}, "T"), make("sup", {}, name));
  }

  /** A coloured square: each term keeps its colour in figures, tables and here. */
  function swatch(terms, name) {
    return make("span", {
      class: "swatch", style: `background-color: ${terms[name].colour}`, "aria-hidden": "true",
    });
  }

  /** A box to tick for each of these terms: which are kept. */
  function switches(terms, names, without, place) {
    return names.map((name) => make(
      "label", { class: "switch" },
      make("input", {
        type: "checkbox", id: `${place}-keep-${name}`, checked: without.includes(name) ? null : "",
        change: (event) => go({
          without: names.filter((other) =>
            other === name ? !event.target.checked : without.includes(other)).join("."),
        }),
      }),
      swatch(terms, name), make("span", {}, terms[name].name)));
  }

  function percent(share, decimals = 1) {
    return `${number(100 * share, decimals)} %`;
  }

  /** Attention as bars, a key each; a line marks where the bar ends with all terms. */
  function bars(tokens, seen) {
    const width = (share) => `${(100 * share).toFixed(2)}%`;
    return make("ol", { class: "bars" }, ...seen.keys.map((key, i) => make(
      "li", { title: `${plain(tokens[key])}: ${percent(seen.weights[i])}, ${percent(seen.whole[i])} with all terms` },
      make("span", { class: "key" }, tokenElement(tokens[key])),
      make("span", { class: "track", "aria-hidden": "true" },
        make("span", { class: "fill", style: `width: ${width(seen.weights[i])}` }),
        make("span", { class: "mark", style: `left: ${width(seen.whole[i])}` })),
      make("span", { class: "share" }, percent(seen.weights[i])))));
  }

  return { bars, choices, percent, settings, swatch, switches, termElement, wordButtons };
})();
