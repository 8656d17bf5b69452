/* The explorer's position curves: T^p, T^pp and attention by position alone, in every head. */
"use strict";

(() => {
  const { go, load, make, mount, number, partOf, state } = lnattnExplorer;
  const { matrix, softmax } = lnattnFirstLayer;
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
  function curvesOf(terms, { p, scale }, compared, head, seen, show) {
    const [one, two] = [p[head].slice(0, seen), compared[head].slice(0, seen)];
    const sum = one.map((value, i) => value + two[i]);
    if (show) {
      const values = softmax(Array.from(sum, (value) => value / scale));
      return [{ name: "attention", colour: "currentColor", values }];
    }
    return [
      { name: "p", colour: terms.p.colour, values: one },
      { name: "pp", colour: terms.pp.colour, values: two },
      { name: "sum", colour: "currentColor", values: sum },
    ];
  }

  /** One head's drawing; the pointer, or an arrow key, tells the values at one key. */
  function chart(head, query, curves, decimals, tell) {
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
    const zero = drawn("line", {
      x1: 0, x2: WIDTH, y1: y(0), y2: y(0), stroke: "currentColor", "stroke-opacity": 0.4,
      "vector-effect": "non-scaling-stroke",
    });
    const peak = curves.at(-1).values.indexOf(Math.max(...curves.at(-1).values));
    const label = `Head ${head}: highest ${query === peak ? "at the query itself"
      : `${Math.abs(query - peak)} ${Math.abs(query - peak) === 1 ? "position" : "positions"} `
        + `${peak < query ? "before" : "after"} the query`}`;
    let at = peak;
    const point = (place) => {
      at = Math.min(last, Math.max(0, place));
      const values = curves.map(({ name, values: of }) => `${name === "p" || name === "pp"
        ? `T^${name}` : name} ${number(of[at], decimals)}`);
      tell(`Head ${head}, key ${at} (${query - at} before the query): ${values.join(", ")}`);
    };
    const picture = drawn("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: 0,
      "aria-label": label,
    }, zero, ...lines);
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      point(Math.round(((event.clientX - box.left) / box.width) * last));
    });
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      point(at + step);
    });
    return make("figure", {}, picture, make("figcaption", {}, label,
      make("span", { class: "range" }, `${number(low, decimals)} to ${number(high, decimals)}`)));
  }

  mount("curves", ["of", "place", "curve"], (place) => {
    const choose = (key, text) => {
      const select = make("select", { id: `explorer-${key}`, change: () => go({ [key]: select.value }) });
      return { select, element: make("div", {}, make("label", { for: select.id }, text), select) };
    };
    const [models, queries, shows] = [
      choose("of", "Model"), choose("place", "Position of the query"), choose("curve", "Show"),
    ];
    // The sentence chooses the same part of the address by a box of its own.
    models.select.id = "explorer-curves-of";
    models.element.firstChild.htmlFor = models.select.id;
    const key = make("p", { class: "hint legend" });
    const heads = make("div", { class: "curves" });
    const told = make("p", { class: "hint hover", role: "status" });
    place.replaceChildren(
      make("div", { class: "controls" }, models.element, queries.element, shows.element),
      key, heads, told);

    return async (isLatest) => {
      const all = await load("models");
      const one = all.models.find(({ folder }) => folder === state().of)
        ?? all.models.find(({ computed }) => computed) ?? all.models[0];
      if (!one) return;
      const part = partOf(one);
      const about = await part("curves");
      const middle = about.queries[Math.floor(about.queries.length / 2)];
      const query = about.queries.find((i) => String(i) === state().place) ?? middle;
      const compared = matrix(await part(`curve-${query}`));
      if (!isLatest()) return;
      const p = about.rows ??= matrix(about.p);
      const show = state().curve === "attention" ? "attention" : "";
      const seen = about.causal ? query + 1 : p[0].length;
      const option = (value, text, isIt) => make("option", { value, selected: isIt && "" }, text);
      models.select.replaceChildren(...all.models.map((model) =>
        option(model.computed ? "" : model.folder, model.name, model === one)));
      queries.select.replaceChildren(...about.queries.map((i) => option(i, String(i), i === query)));
      shows.select.replaceChildren(...Object.entries(SHOWN).map(([value, text]) =>
        option(value, text, value === show)));
      const patch = (name) => make("span", {
        class: "swatch", style: `background-color: ${all.terms[name].colour}`, "aria-hidden": "true",
      });
      key.replaceChildren(...(show ? ["softmax of the sum, divided by √d′; "] : [
        patch("p"), ` ${all.terms.p.name}, `, patch("pp"), ` ${all.terms.pp.name}, thin line: their sum; `,
      ]), about.causal ? `keys from 0 on the left to the query, ${query}, on the right.`
        : `keys from 0 on the left to ${seen - 1} on the right; the query is ${query}.`);
      heads.replaceChildren(...p.map((_, head) => chart(
        head, query, curvesOf(all.terms, { p, scale: about.scale }, compared, head, seen, show),
        show ? 3 : 2, (text) => (told.textContent = text))));
      told.textContent = "Point at a curve, or choose it and use the arrow keys, to read its values.";
    };
  });
})();
