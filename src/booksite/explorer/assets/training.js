/* Chapter 11: five trainings step by step: what is lost without a part, and where the heads look by place. */
"use strict";

(() => {
  const { load, make, mount, number } = lnattnExplorer;
  const { bars, panel, percent, slider } = lnattnDrawn;
  const LINEAR = 0.01; // nats below which the scale is not logarithmic
  const PARTS = { pairs: "pairs of tokens", positions: "all that knows a position" };

  const scale = (value) => (value <= LINEAR ? value / LINEAR : 1 + Math.log10(value / LINEAR));

  const millions = (tokens) => `${number(tokens / 1e6, tokens < 1e7 ? 1 : 0)} million`;

  const nats = (value) => number(Math.abs(value) < 0.0005 ? 0 : value, 3);

  mount("training", [], (place) => {
    let data = null;
    const step = slider("training-step", "Tokens of training", { min: 0, max: 8, value: 4 },
      (at) => (data ? millions(data.tokens[at]) : ""), () => draw());
    const run = slider("training-run", "Training", { min: 1, max: 5, value: 1 }, String, () => draw());
    const said = make("p", { class: "moved", role: "status" });
    const curves = make("div", {});
    const heads = make("div", {});
    place.replaceChildren(make("div", { class: "sliders" }, step.element, run.element), said,
      make("div", { class: "beside" }, curves,
        make("div", {}, make("p", { class: "caption" }, "Attention on the token before, by place alone"), heads)));

    function draw() {
      const { colours, tokens, trainings } = data;
      const at = step.value();
      const chosen = trainings[run.value() - 1];
      const names = Object.keys(PARTS);
      const pointsOf = (values) => values.map((value, i) => [tokens[i], value]);
      const lines = trainings.flatMap((one) => names.map((name) => ({
        points: pointsOf(one[name]), colour: colours[name], kind: one === chosen ? "line" : "thin",
      })));
      const x = { ends: [tokens[0], tokens.at(-1)], map: Math.log, ticks: [1, 10, 100].map((value) => [value * 1e6, String(value)]) };
      const label = "tokens of training (millions)";
      const ticks = [[0, "0"], [0.01, "0.01"], [0.1, "0.1"], [1, "1"]];
      curves.replaceChildren(
        panel({
          title: "nats lost a token", label, x,
          y: { ends: [-0.006, 1.5], map: scale, ticks }, lines, upright: tokens[at],
          dots: names.map((name) => ({ at: [tokens[at], chosen[name][at]], colour: colours[name] })),
        }),
        make("p", { class: "legend" }, ...names.flatMap((name) => [
          make("span", { class: "swatch", style: `background-color: ${colours[name]}`, "aria-hidden": "true" }), ` without ${PARTS[name]} `])),
        panel({
          title: "pieces found by pairs (dashed: by chance)", label, x, upright: tokens[at],
          y: { ends: [0, 0.4], ticks: [0, 0.2, 0.4].map((share) => [share, percent(share)]) },
          lines: [...trainings.map((one) => ({
            points: pointsOf(one.found), colour: colours.pairs, kind: one === chosen ? "line" : "thin",
          })), { points: pointsOf(chosen.chance), kind: "dashed" }],
          dots: [{ at: [tokens[at], chosen.found[at]], colour: colours.pairs }],
        }));
      const shares = chosen.previous[at];
      heads.replaceChildren(bars(shares.map((share, head) => ({ words: `head ${head}`, share: percent(share), of: share }))));
      const most = shares.indexOf(Math.max(...shares));
      said.textContent = `After ${millions(tokens[at])} tokens training ${run.value()} loses ${nats(chosen.pairs[at])} nats a token without `
        + `${PARTS.pairs} and ${nats(chosen.positions[at])} without ${PARTS.positions}; by place alone head ${most} gives the token before `
        + `${percent(shares[most])}, more than any other.`;
    }

    return async (isLatest) => {
      data = await load("of-training");
      if (!isLatest()) return;
      step.set(step.value());
      draw();
      lnattnChapter.caption(place, "Five trainings of a GPT-2 of two layers: move through one of them and see what it loses without a part of its "
        + "first layer's scores (the others thin), and where each of its first heads looks by place alone.");
    };
  });
})();
