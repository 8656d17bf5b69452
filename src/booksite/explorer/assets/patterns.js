/* Patterns of the tokenizers library (Oniguruma's) as JavaScript reads them.
 *
 * What differs: \s and $, groups that ignore case, quantifiers that give nothing back (`++`), and
 * names of scripts. A pattern with anything else that JavaScript reads otherwise is not translated.
 */
"use strict";

globalThis.lnattnPatterns = (() => {
  // Unicode's White_Space, as Oniguruma reads \s; JavaScript's own \s also has U+FEFF and lacks U+0085.
  const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const DIGIT = "\\p{Nd}";
  const WORD = "\\p{L}\\p{M}\\p{N}\\p{Pc}";
  const CATEGORY = /^(?:[LMNPSZC][a-z]?|L&|Letter|Mark|Number|Punctuation|Symbol|Separator|Other)$/;

  class Untranslatable extends Error {}

  function fail(what) {
    throw new Untranslatable(what);
  }

  /** A letter in both cases; anything else as it is. */
  function bothCases(letter) {
    const [lower, upper] = [letter.toLowerCase(), letter.toUpperCase()];
    return /^[a-z]$/i.test(letter) ? lower + upper : letter;
  }

  /** Reads a pattern from left to right and writes what JavaScript reads alike. */
  class Translator {
    constructor(pattern) {
      this.signs = Array.from(pattern);
      this.at = 0;
      this.groups = 0;
    }

    next() {
      if (this.at >= this.signs.length) fail("it ends too early");
      return this.signs[this.at++];
    }

    has(text) {
      const isNext = this.signs.slice(this.at, this.at + text.length).join("") === text;
      if (isNext) this.at += text.length;
      return isNext;
    }

    /** Alternatives up to the end or to a closing bracket. */
    alternatives(ignoresCase, depth) {
      let written = "";
      while (this.at < this.signs.length && this.signs[this.at] !== ")") {
        written += this.has("|") ? "|" : this.quantified(ignoresCase, depth);
      }
      if (depth === 0 && this.at < this.signs.length) fail("a bracket closes that none opened");
      return written;
    }

    /** An atom with what says how often it stands. */
    quantified(ignoresCase, depth) {
      const atom = this.atom(ignoresCase, depth);
      const rest = this.signs.slice(this.at).join("");
      const times = /^(?:[*+?]|\{\d*,?\d*\})/.exec(rest)?.[0];
      if (!times) return atom;
      this.at += times.length;
      const repeated = atom + (/^\{,/.test(times) ? `{0${times.slice(1)}` : times);
      if (this.has("?")) return `${repeated}?`;
      if (!this.has("+")) return repeated;
      // In Oniguruma {n,m}+ repeats the repetition; the others keep what they took: here, by a look
      // ahead, which is never entered again, and what it found.
      if (times[0] === "{") return `(?:${repeated})+`;
      const name = `kept${this.groups++}`;
      return `(?:(?=(?<${name}>${repeated}))\\k<${name}>)`;
    }

    atom(ignoresCase, depth) {
      const sign = this.next();
      if (sign === "(") return this.group(ignoresCase, depth);
      if (sign === "[") return this.charactersIn(ignoresCase);
      if (sign === "\\") return this.escaped(false);
      if (sign === ".") return "[^\\n]";
      if (sign === "^") return "(?<![^\\n])"; // the begin of any line
      if (sign === "$") return "(?![^\\n])"; // the end of any line
      if ("*+?".includes(sign)) fail("nothing stands before a quantifier");
      if ("{}]".includes(sign)) return `\\${sign}`;
      const cases = ignoresCase ? bothCases(sign) : sign;
      return cases.length === 2 && cases !== sign ? `[${cases}]` : sign.replace("/", "\\/");
    }

    group(ignoresCase, depth) {
      if (depth > 20) fail("brackets are nested too deep");
      let [open, ignores] = ["(?:", ignoresCase];
      const kind = ["?:", "?=", "?!", "?<=", "?<!"].find((text) => this.has(text));
      if (kind) open = `(${kind}`;
      else if (this.has("?i:")) ignores = true;
      else if (this.has("?-i:")) ignores = false;
      else if (this.has("?")) fail("a group of this kind");
      const inside = this.alternatives(ignores, depth + 1);
      if (this.next() !== ")") fail("a bracket stays open");
      return `${open}${inside})`;
    }

    /** A set of characters: [^\s\p{L}]. */
    charactersIn(ignoresCase) {
      let written = this.has("^") ? "[^" : "[";
      for (let isFirst = true; !this.has("]") || isFirst; isFirst = false) {
        if (this.has("&&") || this.has("[")) fail("a set within a set");
        const sign = this.next();
        if (sign === "\\") written += this.escaped(true);
        else if ("^(){}/|$.*+?]".includes(sign)) written += `\\${sign}`;
        else written += ignoresCase ? bothCases(sign) : sign;
      }
      return `${written}]`;
    }

    escaped(isInSet) {
      const sign = this.next();
      const set = { s: SPACE, d: DIGIT, w: WORD }[sign.toLowerCase()];
      if (set && sign === sign.toLowerCase()) return isInSet ? set : `[${set}]`;
      if (set) return isInSet ? fail(`\\${sign} in a set`) : `[^${set}]`;
      if (sign === "p" || sign === "P") return this.property(sign);
      if ("rntvf".includes(sign)) return `\\${sign}`;
      if (sign === "z" && !isInSet) return "(?![^])";
      if (sign === "A" && !isInSet) return "(?<![^])";
      if (/[a-zA-Z0-9]/.test(sign)) fail(`\\${sign}`);
      return /[\^$\\.*+?()[\]{}|/-]/.test(sign) ? `\\${sign}` : sign;
    }

    property(sign) {
      if (!this.has("{")) fail(`\\${sign} without a name`);
      let name = "";
      for (let letter = this.next(); letter !== "}"; letter = this.next()) name += letter;
      const isTurned = name.startsWith("^");
      if (isTurned) name = name.slice(1);
      const turned = { p: "P", P: "p" };
      return `\\${isTurned ? turned[sign] : sign}{${CATEGORY.test(name) ? name : `Script=${name}`}}`;
    }
  }

  /** The expression that finds what the pattern finds; null where it cannot be translated. */
  function expression(pattern) {
    try {
      return new RegExp(new Translator(pattern).alternatives(false, 0), "gu");
    } catch (error) {
      if (error instanceof Untranslatable || error instanceof SyntaxError) return null;
      throw error;
    }
  }

  /** The expression that finds a text. */
  const literal = (text) => new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "gu");

  return { SPACE, WORD, expression, literal };
})();
