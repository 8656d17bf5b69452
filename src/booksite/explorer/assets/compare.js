/* The explorer's comparison: the sentence's view beside another head, or beside another model. */
"use strict";

(() => {
  const { go, make, mount, number, state, tokenElement } = lnattnExplorer;
  const { look } = lnattnFirstLayer;
  const { bars, settings, swatch, termElement } = lnattnTerms;
  const { analysed, readers } = lnattnTyped;

  /** The letters up to the end of each token; tokens of the model itself, first and last, have none. */
  function ends({ tokens, layer }) {
    let sum = 0;
    return tokens.map((token, i) => {
      const own = i === 0 || (!layer.causal && i === tokens.length - 1);
      const text = token.replace(/^##/, "").replace(/\s/gu, "");
      return own ? sum : (sum += Array.from(text).length);
    });
  }

  /** The token of `other` that holds the last letter of a token of `one`. */
  function sameWord(one, query, other) {
    if (one.one === other.one) return Math.min(query, other.terms.n - 1);
    const [here, there] = [ends(one), ends(other)];
    if (query === 0 || here[query] === here[query - 1]) return query === 0 ? 0 : other.terms.n - 1;
    const found = there.findIndex((end) => end >= here[query]);
    return found < 0 ? other.terms.n - 1 : found;
  }

  /** "folder.3" as a model's folder and a head. */
  function named(text) {
    const dot = text.lastIndexOf(".");
    return { folder: text.slice(0, dot), head: Number(text.slice(dot + 1)) };
  }

  function column({ found, head, query, seen }) {
    return make("div", { class: "side" },
      make("p", { class: "caption" }, "Where ", tokenElement(found.tokens[query]),
        ` looks in head ${head} of ${found.one.name}`),
      bars(found.tokens, seen));
  }

  /** Models with positions of two kinds have some terms in common. */
  function table(terms, sides) {
    const names = [...new Set(sides.flatMap(({ found }) => found.terms.names))];
    return make("table", {},
      make("caption", {}, "How far attention moves without a term, in nats"),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Term"),
        ...sides.map(({ found, head }) =>
          make("th", { scope: "col" }, `${found.one.name}, head ${head}`)))),
      make("tbody", {}, ...names.map((name) => make("tr", {},
        make("th", { scope: "row" }, swatch(terms, name), " ", termElement(name), ` ${terms[name].name}`),
        ...sides.map(({ seen }) =>
          make("td", {}, name in seen.moved ? number(seen.moved[name], 2) : "–"))))));
  }

  const KEYS = ["of", "text", "head", "query", "without", "sigma", "scale", "shift", "swap", "beside"];

  mount("compare", KEYS, (place) => {
    const select = make("select", { id: "explorer-beside", change: () => go({ beside: select.value }) });
    const said = make("p", { class: "hint", role: "status" });
    const shown = make("div", { class: "beside" });
    const moved = make("div", {
      class: "numbers", role: "region", tabindex: "0", "aria-label": "Both views in numbers",
    });
    place.replaceChildren(
      make("div", { class: "controls" },
        make("div", {}, make("label", { for: "explorer-beside" }, "Beside it"), select)),
      said, shown, moved);

    return async (isLatest) => {
      const found = await analysed(state().of);
      const { all, one, terms } = found;
      const wanted = settings(terms, found.first);
      const isExample = all.examples.includes(found.text);
      const known = readers(all).filter((model) => model.computed || isExample);
      const asked = named(state().beside ?? "");
      const model = known.find(({ folder }) => folder === asked.folder)
        ?? known.find((candidate) => candidate !== one && !all.rotary.includes(candidate)) ?? one;
      const other = model === one ? found : await analysed(model.folder);
      if (!isLatest()) return;
      const usual = other === found ? (wanted.head + 1) % terms.heads : other.first.head;
      const isHead = model.folder === asked.folder && asked.head >= 0 && asked.head < other.terms.heads;
      const right = { found: other, head: isHead ? asked.head : usual };
      right.query = sameWord(found, wanted.query, other);
      const sides = [{ found, head: wanted.head, query: wanted.query }, right].map((side) => ({
        ...side,
        seen: look(side.found.layer, side.found.terms, side.head, side.query, wanted),
      }));
      select.replaceChildren(...known.map(({ name, folder, heads }) => make(
        "optgroup", { label: name }, ...Array.from({ length: heads }, (_, head) => make("option", {
          value: `${folder}.${head}`,
          selected: folder === other.one.folder && head === right.head && "",
        }, `${name}, head ${head}`)))));
      said.textContent = isExample || all.models.every((model) => model.computed) ? ""
        : "Of other models only the examples are known: choose one above to compare models.";
      shown.replaceChildren(...sides.map(column));
      moved.replaceChildren(table(all.terms, sides));
    };
  });
})();
