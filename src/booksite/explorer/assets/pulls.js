/* What the front page and chapter 3 show of one query: switches laid out as query meets key, where attention
 * goes, and what draws it there. Every sentence is computed. */
"use strict";

globalThis.lnattnPulls = (() => {
  const { make, number, plain, tokenElement } = lnattnExplorer;
  const { TERMS } = lnattnFirstLayer;
  const { percent, switches } = lnattnTerms;
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

  // ---- Both together -----------------------------------------------------------------------------

  /** The six switches, as query meets key. */
  function choose(terms, without, place) {
    const [ee, ep, pe, pp, e, p] = switches(terms, TERMS, without, place);
    const title = (words) => make("span", { class: "title" }, words);
    return [
      title(""), title("the key’s token"), title("the key’s position"),
      title("its token"), ee, ep, title("its position"), pe, pp, title("any query"), e, p];
  }

  /** Fill `shown` with the bars and `said` with the sentence of what look() has seen; of: whose head it is. */
  function show({ seen, layer, tokens, query, without, terms }, { said, shown }, of) {
    const kept = TERMS.filter((name) => !without.includes(name));
    shown.replaceChildren(
      make("p", { class: "caption" }, "Where ", tokenElement(tokens[query]),
        ` looks, and what draws it there: ${of}`),
      bars(tokens, seen, layer, terms, kept));
    said.replaceChildren(...without.length
      ? changed(seen, terms, without, tokens, query) : told(seen, layer, terms, tokens, query, TERMS));
  }

  return { choose, show };
})();
