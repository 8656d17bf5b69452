/* What the widgets in chapters share: sliders, and curves in a panel. */
"use strict";

globalThis.lnattnDrawn = (() => {
  const { make, number } = lnattnExplorer;
  const [WIDTH, HEIGHT] = [360, 190];
  const FRAME = { left: 44, right: 20, top: 24, bottom: 32 };

  /** An element of a drawing. */
  function draw(tag, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /**
   * A slider with its label, which says its value in words; changed() is called when it is moved.
   *
   * range: the attributes min, max, step and value; words(value): what is said of a value.
   */
  function slider(id, label, range, words, changed) {
    const said = make("output", { for: id });
    const moved = () => {
      tell();
      changed();
    };
    const input = make("input", { id, type: "range", ...range, input: moved });
    const value = () => Number(input.value);
    function tell() {
      said.textContent = words(value());
      input.setAttribute("aria-valuetext", words(value()));
    }
    function set(wanted) {
      input.value = wanted;
      tell();
    }
    tell();
    const element = make("div", { class: "slider" }, make("label", { for: id }, label), said, input);
    return { element, set, value };
  }

  /** A box to tick. */
  const box = (id, words, changed, isTicked = true) => make("label", { class: "switch" },
    make("input", { type: "checkbox", id, checked: isTicked ? "" : null, change: changed }), words);

  /** Round numbers from low to high, about `most` of them. */
  function round(low, high, most = 4) {
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= raw);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
  }

  /**
   * Curves in a frame. Each line: { points: [[x, y] …], colour, kind }, and each dot { at: [x, y], colour, kind };
   * x, y: { ends, ticks: [[value, words] …], map }; upright: where a line stands in the whole height.
   */
  function panel({ title, x, y, lines = [], dots = [], upright = null, label }) {
    function along({ ends, map = (value) => value }, from, to) {
      const [low, high] = ends.map(map);
      return (value) => from + ((to - from) * (map(value) - low)) / (high - low);
    }
    const across = along(x, FRAME.left, WIDTH - FRAME.right);
    const up = along(y, HEIGHT - FRAME.bottom, FRAME.top);
    const spot = ([a, b]) => [across(a).toFixed(1), up(b).toFixed(1)];
    const floor = HEIGHT - FRAME.bottom;
    const ticks = [
      ...x.ticks.map(([value, words]) => draw("text", { x: across(value), y: floor + 15, "text-anchor": "middle" }, words)),
      ...y.ticks.map(([value, words]) => draw("text", { x: FRAME.left - 5, y: up(value) + 4, "text-anchor": "end" }, words)),
      ...y.ticks.map(([value]) => draw("line", { class: "rule", x1: FRAME.left, x2: WIDTH - FRAME.right, y1: up(value), y2: up(value) })),
    ];
    return draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, class: "panel" },
      draw("text", { class: "title", x: FRAME.left, y: 15 }, title), ...ticks,
      draw("text", { x: (FRAME.left + WIDTH) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, label),
      ...(upright === null ? [] : [draw("line", { class: "upright", x1: across(upright), x2: across(upright), y1: FRAME.top, y2: floor })]),
      ...lines.map(({ points, colour = "currentColor", kind = "line" }) =>
        draw("polyline", { class: kind, stroke: colour, points: points.map((point) => spot(point).join()).join(" ") })),
      ...dots.map(({ at, colour = "currentColor", kind = "dot" }) =>
        draw("circle", { class: kind, fill: colour, stroke: colour, cx: spot(at)[0], cy: spot(at)[1], r: kind === "ring" ? 7 : 3.5 })));
  }

  /** Shares as bars, each { words, share, of }: `of` is how wide a share is drawn, from 0 to 1; marks: lines across. */
  const bars = (rows) => make("ol", { class: "bars" }, ...rows.map(({ words, share, of, marks = [] }) => make("li", {},
    make("span", { class: "key" }, words),
    make("span", { class: "track", "aria-hidden": "true" },
      make("span", { class: "fill", style: `width: ${(100 * of).toFixed(2)}%` }),
      ...marks.map(([kind, at]) => make("span", { class: kind, style: `left: ${(100 * at).toFixed(2)}%` }))),
    make("span", { class: "share" }, share))));

  /** A curve as in_chapters.py writes it: thousandths, each less the one before. */
  function curve(steps) {
    let sum = 0;
    return Float64Array.from(steps, (step) => {
      sum += step;
      return sum / 1000;
    });
  }

  /** A share in per cent, with two figures. */
  const percent = (share) => `${number(100 * share, share >= 0.1 || share === 0 ? 0 : share >= 0.01 ? 1 : 2)} %`;

  return { bars, box, curve, draw, panel, percent, round, slider };
})();
