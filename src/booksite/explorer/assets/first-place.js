/* Chapter 7: GPT-2's attention on position 0 by place alone, as its σ is turned. */
"use strict";

globalThis.lnattnFirstPlace = (() => {
  const { load, make, mount, number } = lnattnExplorer;
  const { bars, curve, percent, slider } = lnattnDrawn;
  const LEAST = 1e-4; // attention at the left end of a bar; the right end is 1

  /**
   * In each head the mean attention on position 0 of all later queries, for any σ of that position.
   *
   * Only the score of position 0 hangs on its σ, as 1/σ; so do the log-odds of its attention, and they are known
   * at two values.
   */
  function attention({ sigma, own, ordinary }, value) {
    const share = (1 / value - 1 / sigma.ordinary) / (1 / sigma.own - 1 / sigma.ordinary);
    return own.map((steps, head) => {
      const [there, here] = [curve(steps), curve(ordinary[head])];
      return here.reduce((sum, odds, i) => sum + 1 / (1 + Math.exp(-odds - share * (there[i] - odds))), 0) / here.length;
    });
  }

  const along = (share) => Math.max(0, 1 - Math.log(share) / Math.log(LEAST));

  mount("first-place", [], (place) => {
    const HEAD = 7; // of which the paper speaks
    const STEP = 0.05; // of σ, in ordinary ones
    let data = null;
    let ends = null; // attention with its own σ, and with an ordinary one
    const isOwn = (times) => data && Math.abs(times - data.sigma.own / data.sigma.ordinary) < STEP / 2;
    const words = (times) => isOwn(times) ? "its own" : times === 1 ? "an ordinary one" : `${number(times, 2)} ordinary ones`;
    const knob = slider("first-place-sigma", "σ of position 0", { min: 0.5, max: 4, step: STEP, value: 1 }, words, () => draw());
    const said = make("p", { class: "moved", role: "status" });
    const shown = make("div", {});
    place.replaceChildren(make("div", { class: "sliders" }, knob.element), said, shown);

    function draw() {
      const times = knob.value();
      const sigma = isOwn(times) ? data.sigma.own : times * data.sigma.ordinary;
      const now = attention(data, sigma);
      const more = now.filter((share, head) => share > ends.ordinary[head] * (1 + 1e-6)).length;
      shown.replaceChildren(bars(now.map((share, head) => ({
        words: `head ${head}`, share: percent(share), of: along(share),
        marks: [["mark own", along(ends.own[head])], ["mark usual", along(ends.ordinary[head])]],
      }))));
      const compared = times === 1 ? "" : `, ${number(now[HEAD] / ends.ordinary[HEAD], 1)} times as much as with an ordinary σ; `
        + `${more} of ${now.length} heads give it more`;
      said.textContent = `With σ = ${number(sigma, 3)} (${words(times)}) head ${HEAD} gives position 0 ${percent(now[HEAD])} of its attention${compared}.`;
    }

    return async (isLatest) => {
      const isFirst = !data;
      data = await load("of-first-place");
      if (!isLatest()) return;
      if (isFirst) knob.set(data.sigma.own / data.sigma.ordinary); // the slider takes its nearest step
      ends = { own: attention(data, data.sigma.own), ordinary: attention(data, data.sigma.ordinary) };
      draw();
      lnattnChapter.caption(place, "GPT-2 small, by place alone: turn the σ of position 0 and see how much attention it gets from all later queries, "
        + "head by head, on a logarithmic scale from 0.01 to 100 %. Thick mark: with its own σ; thin: with an ordinary one.");
    };
  });

  return { attention };
})();
