/* The explorer's position curves: T^p, T^pp and attention by position alone, in every head. */
"use strict";

(() => {
  const { chosen, go, make, mount, number, options, state } = lnattnExplorer;
  const { positionCurves, softmax } = lnattnFirstLayer;
  const SHOWN = { "": "the two terms and their sum", attention: "attention by position alone" };
  const [WIDTH, HEIGHT] = [240, 120];

  /** An element of a drawing. */
  function drawn(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** The curves of one head over the keys that the query sees: [{name, colour, values}]. */
  function curvesOf(terms, { p, pp }, seen, show, scale) {
    const [one, two] = [p, pp].map((values) => Array.from(values.slice(0, seen)));
    const sum = one.map((value, i) => value + two[i]);
    if (show) {
      const values = softmax(sum.map((value) => value / scale));
      return [{ name: "attention", colour: "currentColor", values }];
    }
    return [
      { name: "p", colour: terms.p.colour, values: one },
      { name: "pp", colour: terms.pp.colour, values: two },
      { name: "sum", colour: "currentColor", values: sum },
    ];
  }

  /** One head's drawing, with its scales. */
  function chart(head, query, curves, decimals) {
    const all = curves.flatMap(({ values }) => Array.from(values));
    const [low, high] = [Math.min(...all, 0), Math.max(...all, 0)];
    const last = curves[0].values.length - 1;
    const x = (place) => (WIDTH * place) / Math.max(1, last);
    const y = (value) => 4 + ((HEIGHT - 8) * (high - value)) / (high - low || 1);
    const lines = curves.map(({ colour, name, values }) => drawn("polyline", {
      points: Array.from(values, (value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" "),
      fill: "none", stroke: colour, "stroke-width": name === "sum" ? 1 : 2,
      "vector-effect": "non-scaling-stroke",
    }));
    const rule = (x1, y1, x2, y2) => drawn("line", {
      x1, y1, x2, y2, stroke: "currentColor", "stroke-opacity": 0.4, "vector-effect": "non-scaling-stroke",
    });
    const middle = Math.round(last / 2);
    const rules = [rule(0, y(0), WIDTH, y(0)), ...[0, middle, last].map((at) => rule(x(at), HEIGHT, x(at), HEIGHT - 5))];
    const peak = curves.at(-1).values.indexOf(Math.max(...curves.at(-1).values));
    const label = `Head ${head}: highest ${query === peak ? "at the query itself"
      : `${Math.abs(query - peak)} ${Math.abs(query - peak) === 1 ? "position" : "positions"} `
        + `${peak < query ? "before" : "after"} the query`}`;
    const picture = drawn("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      "aria-label": label,
    }, ...rules, ...lines);
    const ticks = (kind, ...values) => make("div", { class: kind, "aria-hidden": "true" }, ...values.map((value) => make("span", {}, value)));
    return make("figure", {},
      make("div", { class: "plot" }, ticks("levels", number(high, decimals), number(low, decimals)), picture),
      ticks("places", "0", String(middle), String(last)), make("figcaption", {}, label));
  }

  const inverses = new WeakMap(); // of a vocabulary

  mount("curves", ["model", "place", "curve"], (place) => {
    const query = make("input", {
      id: "explorer-place", type: "number", min: "0", change: () => go({ place: query.value }),
    });
    const shows = make("select", { id: "explorer-curve", change: () => go({ curve: shows.value }) });
    const labelled = (text, element) => make("div", {}, make("label", { for: element.id }, text), element);
    const key = make("p", { class: "hint legend" });
    const heads = make("div", { class: "curves" });
    const told = make("p", { class: "hint hover", role: "status" });
    place.replaceChildren(
      make("div", { class: "controls" }, labelled("Position of the query", query), labelled("Show", shows)), key, heads, told);

    return async (isLatest) => {
      const model = await lnattnModels.current();
      const { all, layer, one } = model;
      const show = state().curve === "attention" ? "attention" : "";
      options(shows, Object.entries(SHOWN), show);
      if (layer.positionsAre === "rotary") {
        key.textContent = `Positions of ${one.name} are rotary: no place does anything by itself. See the pair, near and far.`;
        return heads.replaceChildren();
      }
      if (isLatest()) told.textContent = `Reading all embeddings of ${one.name} …`;
      const vocabulary = await model.vocabulary();
      if (!inverses.has(vocabulary)) inverses.set(vocabulary, vocabulary.inverseSigma());
      const at = chosen("place", layer.places, Math.floor(layer.places / 2));
      const found = await positionCurves(layer, await inverses.get(vocabulary), at);
      if (!isLatest()) return;
      const seen = layer.causal ? at + 1 : layer.places;
      query.max = layer.places - 1;
      if (document.activeElement !== query) query.value = at;
      const patch = (name) => make("span", {
        class: "swatch", style: `background-color: ${all.terms[name].colour}`, "aria-hidden": "true",
      });
      key.replaceChildren(...(show ? ["softmax of the sum, divided by √d′; "] : [
        patch("p"), ` ${all.terms.p.name}, `, patch("pp"), ` ${all.terms.pp.name}, thin line: their sum; `,
      ]), layer.causal ? `keys from 0 on the left to the query, ${at}, on the right.`
        : `keys from 0 on the left to ${seen - 1} on the right; the query is ${at}.`);
      heads.replaceChildren(...found.map((curves, head) => chart(
        head, at, curvesOf(all.terms, curves, seen, show, layer.scale), show ? 3 : 2)));
      told.textContent = "";
    };
  });
})();
