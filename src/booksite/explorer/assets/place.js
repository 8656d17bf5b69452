/* Chapter 5: where a head of GPT-2 looks by place alone, by its slope, its wave, or both. */
"use strict";

globalThis.lnattnPlace = (() => {
  const { load, make, mount, number } = lnattnExplorer;
  const { softmax } = lnattnFirstLayer;
  const { box, curve, panel, percent, round, slider } = lnattnDrawn;
  const NEAR = 10;

  /** The curves of one head for one of the queries, up to the query itself; kept: which of them count. */
  function seen({ queries, slope, wave }, head, row, kept = ["slope", "wave"]) {
    const query = queries[row];
    const parts = { slope: curve(slope[head]), wave: curve(wave[head][row]) };
    for (const name of Object.keys(parts)) parts[name] = parts[name].slice(0, query + 1);
    const scores = Array.from({ length: query + 1 }, (_, key) =>
      kept.reduce((sum, name) => sum + parts[name][key], 0));
    const attention = softmax(scores);
    const near = attention.slice(-NEAR).reduce((a, b) => a + b, 0);
    const crest = parts.wave.indexOf(Math.max(...parts.wave.slice(1)), 1);
    return { ...parts, query, attention, near, crest };
  }

  const pointsOf = (values) => Array.from(values, (value, key) => [key, value]);

  mount("place", [], (place) => {
    let data = null;
    const head = slider("place-head", "Head", { min: 0, max: 11, value: 7 }, String, () => draw());
    const query = slider("place-query", "Place of the query", { min: 0, max: 2, value: 2 }, (row) => String(data?.queries[row] ?? ""), () => draw());
    const boxes = { slope: box("place-slope", "slope", () => draw()), wave: box("place-wave", "wave", () => draw()) };
    const said = make("p", { class: "moved", role: "status" });
    const panels = make("div", { class: "panels" });
    place.replaceChildren(
      make("div", { class: "sliders" }, head.element, query.element,
        make("div", { class: "switches", role: "group", "aria-label": "What counts" }, ...Object.values(boxes))),
      said, panels);

    function draw() {
      const kept = Object.keys(boxes).filter((name) => boxes[name].querySelector("input").checked);
      const view = seen(data, head.value(), query.value(), kept);
      const last = view.query;
      const x = { ends: [0, last], ticks: round(0, last).map((value) => [value, String(value)]) };
      const both = [...view.slope, ...view.wave];
      const ends = [Math.min(...both), Math.max(...both)];
      const y = { ends, ticks: round(...ends, 3).map((value) => [value, number(value, 0)]) };
      const most = Math.max(...view.attention);
      const shares = { ends: [0, most], ticks: round(0, most, 3).map((value) => [value, percent(value)]) };
      const of = (title, values, scale, colour, more = []) => panel({
        title, x, y: scale, label: "key", lines: [{ points: pointsOf(values), colour }],
        dots: [{ at: [last, values[last]], colour }, ...more],
      });
      const { p, pp } = data.terms;
      const ring = { at: [view.crest, view.wave[view.crest]], kind: "ring" };
      panels.replaceChildren(
        of(`slope: ${p.name}`, view.slope, y, p.colour), of(`wave: ${pp.name}`, view.wave, y, pp.colour, [ring]),
        of(kept.length === 2 ? "attention by place alone" : `attention by ${kept[0] ? `the ${kept[0]} alone` : "neither"}`, view.attention, shares));
      const by = kept.length === 2 ? "by place alone" : kept.length ? `by the ${kept[0]} alone` : "by neither, evenly,";
      const before = last - view.crest;
      said.textContent = `At place ${last} head ${head.value()} gives ${by} ${percent(view.near)} of its attention to the nearest ten keys. `
        + `The wave is highest ${before ? `${before} ${before === 1 ? "key" : "keys"} before the query` : "at the query itself"}.`;
    }

    return async (isLatest) => {
      data = await load("of-place");
      if (!isLatest()) return;
      query.set(query.value());
      draw();
      lnattnChapter.caption(place, "GPT-2 small, by place alone. Choose a head and the place of the query, and let slope or wave out: what the "
        + "place of a key adds to its score whatever the query, what both places add together (ringed: the highest crest), and the softmax of what is kept.");
    };
  });

  return { seen };
})();
