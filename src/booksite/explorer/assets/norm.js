/* Chapter 1: LayerNorm in three dimensions, which can be turned. */
"use strict";

globalThis.lnattnNorm = (() => {
  const { load, make, mount, number } = lnattnExplorer;
  const { box, draw, slider } = lnattnDrawn;
  const SIZE = 340;
  const REACH = 3.3; // of the drawing, in units of space
  const COLOURS = ["#7c63c9", "#8a8a1e", "#c2407c"]; // violet, olive, rose, as in the picture
  const STAGES = ["input", "projected", "scaled"];
  const ROOT = Math.sqrt(3);

  /** Where a point of space is seen: [right, up, towards the reader]. */
  function seenFrom(turn, tilt) {
    const [a, b] = [turn, tilt].map((degrees) => (degrees * Math.PI) / 180);
    return ([x, y, z]) => {
      const [right, deep] = [y * Math.cos(a) - x * Math.sin(a), x * Math.cos(a) + y * Math.sin(a)];
      return [right, z * Math.cos(b) - deep * Math.sin(b), deep * Math.cos(b) + z * Math.sin(b)];
    };
  }

  /** Points on their way from one stage to the next, in straight lines. */
  function between(stages, at) {
    const first = Math.min(1, Math.floor(at));
    return stages[first].map((point, i) => point.map((x, axis) => x + (at - first) * (stages[first + 1][i][axis] - x)));
  }

  /** The largest size of a point's part along 1, and the shortest and the longest point. */
  function measured(points) {
    const along = points.map((point) => Math.abs(point.reduce((a, b) => a + b, 0)) / ROOT);
    const lengths = points.map((point) => Math.hypot(...point));
    return { along: Math.max(...along), shortest: Math.min(...lengths), longest: Math.max(...lengths) };
  }

  mount("norm", [], (place) => {
    let data = null;
    const words = (at) => (Number.isInteger(at) ? STAGES[at] : `${STAGES[Math.floor(at)]} → ${STAGES[Math.ceil(at)]}`);
    const degrees = (value) => `${number(value, 0)}°`;
    const stage = slider("norm-stage", "LayerNorm", { min: 0, max: 2, step: 0.1, value: 0 }, words, () => show());
    const turn = slider("norm-turn", "Turn", { min: -180, max: 180, step: 5, value: 10 }, degrees, () => show());
    const tilt = slider("norm-tilt", "Tilt", { min: -90, max: 90, step: 5, value: 15 }, degrees, () => show());
    const plane = box("norm-plane", "points of a plane through 1", () => show(), false);
    const said = make("p", { class: "moved", role: "status" });
    const picture = draw("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "space", role: "img", "aria-label": "Points in space" });
    place.replaceChildren(make("div", { class: "beside" }, picture,
      make("div", {}, stage.element, turn.element, tilt.element, plane, said)));

    // A finger or the mouse turns it; up and down a finger still scrolls the page.
    picture.addEventListener("pointerdown", (down) => {
      const begun = turn.value();
      picture.setPointerCapture(down.pointerId);
      picture.onpointermove = (moved) => {
        turn.set(((begun - (moved.clientX - down.clientX) + 540) % 360 + 360) % 360 - 180);
        show();
      };
      picture.onpointerup = picture.onpointercancel = () => (picture.onpointermove = null);
    });

    function show() {
      const view = seenFrom(turn.value(), tilt.value());
      const spot = (point) => {
        const [right, up, near] = view(point);
        return [SIZE / 2 + (right / REACH) * (SIZE / 2), SIZE / 2 - (up / REACH) * (SIZE / 2), near];
      };
      const path = (points) => points.map((point) => spot(point).slice(0, 2).map((x) => x.toFixed(1)).join()).join(" ");
      const onPlane = ([a, b], size) => [1, -1, 0].map((x, i) => size * ((a * x) / Math.SQRT2 + (b * [1, 1, -2][i]) / Math.sqrt(6)));
      const round = Array.from({ length: 73 }, (_, i) => onPlane([Math.cos((i * Math.PI) / 36), Math.sin((i * Math.PI) / 36)], ROOT));
      const isPlane = plane.querySelector("input").checked;
      const clouds = (isPlane ? data.plane : data.points).map((stages) => between(stages, stage.value()));
      const dots = clouds.flatMap((points, side) => points.map((point) => {
        const colour = isPlane ? COLOURS[2 * side] : COLOURS[Math.round(stage.value())];
        return { colour, at: spot(point) };
      })).sort((a, b) => a.at[2] - b.at[2]);
      const end = [1.4, 1.4, 1.4];
      picture.replaceChildren(
        draw("polygon", { class: "ground", points: path([[1, 1], [1, -1], [-1, -1], [-1, 1]].map((corner) => onPlane(corner, 2))) }),
        draw("polyline", { class: "thin", stroke: "currentColor", points: path(round) }),
        draw("polyline", { class: "dashed", stroke: "currentColor", points: path([end.map((x) => -x), end]) }),
        draw("text", { x: spot(end)[0] + 6, y: spot(end)[1] }, "1"),
        ...dots.map(({ at: [x, y, near], colour }) => draw("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: (4 + near / 2).toFixed(1), fill: colour })));
      const { along, shortest, longest } = measured(clouds.flat());
      const name = words(stage.value());
      said.textContent = `${name[0].toUpperCase()}${name.slice(1)}: along 1 the points reach ${number(along, 2)}; their lengths run from `
        + `${number(shortest, 2)} to ${number(longest, 2)}${isPlane && stage.value() === 2 ? ". Two points are left" : ""}.`;
    }

    return async (isLatest) => {
      data = await load("of-norm");
      if (!isLatest()) return;
      show();
      lnattnChapter.caption(place, "LayerNorm in three dimensions. Move the first slider: inputs are projected along the dashed line, that of the vector 1, onto the grey "
        + "plane, then brought to the circle of radius √3. Drag the picture, or move the other sliders, to turn it.");
    };
  });

  return { between, measured };
})();
