/* What an opened model is: the first table of `lnattn report`, row for row (lnattn.reporting.about); and what
 * its heads do on a text. */
"use strict";

globalThis.lnattnAbout = (() => {
  const counted = (number) => number.toLocaleString("en");

  /** A number as Python's format `g` writes it, with this many digits. */
  function general(number, digits = 6) {
    const rounded = Number(number.toPrecision(digits));
    const exponent = rounded === 0 ? 0 : Math.floor(Math.log10(Math.abs(rounded)));
    if (exponent >= -4 && exponent < digits) return String(rounded);
    const [mantissa, power] = rounded.toExponential().split("e");
    return `${mantissa}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }

  /** Label and text of each row, for a layer that checkpoint.js has read. */
  function facts(name, config, { layer, vocab }) {
    const isRotary = layer.positionsAre === "rotary";
    const shared = layer.keyHeads < layer.heads ? `, which share ${layer.keyHeads} key heads` : "";
    const seen = layer.causal ? "a query sees itself and earlier keys" : "a query sees all keys";
    return [
      ["Model", name],
      ["Family", config.model_type],
      ["Heads", `${layer.heads} of width ${layer.width}${shared}`],
      ["Width", counted(layer.d)],
      ["Vocabulary", `${counted(vocab)} tokens`],
      ["Positions", isRotary ? "rotary" : `${counted(layer.places)} learned, added to the input`],
      ["Norm", `${layer.norm === "rms" ? "RMSNorm" : "LayerNorm"}, ε = ${general(layer.eps)}`],
      ["Biases", layer.biases.join(", ") || "none"],
      ["Attention", layer.window ? `${seen}, at most ${counted(layer.window)}` : seen],
      ["Scores are divided by", general(layer.scale, 4)],
      ["Exact here", isRotary ? "the sum of four terms at every distance, from folded weights"
        : "the sum of six terms, from folded weights"],
    ];
  }

  const EVEN = 0.005; // nats: a head that no kind of term moves further prefers no key
  const mean = (numbers) => numbers.reduce((sum, value) => sum + value, 0) / (numbers.length || 1);

  /**
   * Of each head, in the mean over the queries of a text that have a choice: `moved`, how far attention moves where
   * the terms of a kind are taken out, in nats, by kind; `first`, the share of the text's first token; `mostly`, the
   * kind that moves it most.
   *
   * kinds: names of terms by kind, as of shared.js.
   */
  function glance(layer, terms, kinds) {
    const { look } = lnattnFirstLayer;
    const queries = Array.from({ length: terms.n }, (_, query) => query).filter((query) => terms.keysOf(query).length > 1);
    return Array.from({ length: terms.heads }, (_, head) => {
      const seen = (without) => queries.map((query) => look(layer, terms, head, query, { without }));
      const moved = Object.entries(kinds).map(([kind, without]) => [kind, mean(seen(without).map(({ shift }) => shift))]);
      const first = mean(seen([]).map(({ keys, whole }) => (keys[0] === 0 ? whole[0] : 0)));
      const [kind, most] = moved.reduce((a, b) => (b[1] > a[1] ? b : a));
      return { head, moved: Object.fromEntries(moved), first, mostly: most < EVEN ? "prefers no key" : kind };
    });
  }

  return { facts, glance };
})();
