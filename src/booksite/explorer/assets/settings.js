/* Settings of a config.json, read with a check: whole, finite and in range, or one sentence. */
"use strict";

globalThis.lnattnSettings = (() => {
  const { refuse } = lnattnSafetensors;
  const MOST = 2 ** 31 - 1;

  /** What reads the settings of a config by name; a setting that is null is one that is not there. */
  function settingsOf(config) {
    if (typeof config !== "object" || config === null || Array.isArray(config)) {
      refuse("config.json holds no settings: give the one of these weights.");
    }

    function value(name, fallback) {
      const given = Object.hasOwn(config, name) ? config[name] : null;
      if (given !== null) return given;
      if (fallback === undefined) refuse(`config.json does not give ${name}: give the one of these weights.`);
      return fallback;
    }

    function wrong(name, wanted) {
      const given = String(JSON.stringify(config[name])).slice(0, 60);
      refuse(`config.json gives ${given} for ${name}, which must be ${wanted}: give the one of these weights.`);
    }

    /** A whole number from 1 on, under the first of its names that is there; else `fallback`. */
    function whole(names, fallback) {
      const all = [names].flat();
      const name = all.find((one) => value(one, null) !== null) ?? all.at(-1);
      const number = value(name, fallback);
      if (number === null) return null;
      if (!Number.isInteger(number) || number < 1 || number > MOST) wrong(name, "a whole number > 0");
      return number;
    }

    /** A finite number ≥ 0, such as the ε of a norm. */
    function number(name, fallback) {
      const given = value(name, fallback);
      if (typeof given !== "number" || !(given >= 0 && given < Infinity)) wrong(name, "a number ≥ 0");
      return given;
    }

    function flag(name, fallback) {
      const given = value(name, fallback);
      if (typeof given !== "boolean") wrong(name, "true or false");
      return given;
    }

    function word(name, fallback) {
      const given = value(name, fallback);
      if (given !== null && typeof given !== "string") wrong(name, "a word");
      return given;
    }

    /** The settings below a name, as an object of their own; {} where there are none. */
    function part(name) {
      const given = value(name, {});
      if (typeof given !== "object" || Array.isArray(given)) wrong(name, "a group of settings");
      return given;
    }

    return { flag, number, part, value, whole, word };
  }

  return { settingsOf };
})();
