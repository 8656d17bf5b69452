/* What an opened model is: the first table of `lnattn report`, row for row (lnattn.reporting.about). */
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

  return { facts };
})();
