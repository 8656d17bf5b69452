/* Byte-level byte-pair encoding, as GPT-2's: text in, token ids out; no dependency.
 *
 * Strings of bytes are JavaScript strings whose characters are below 256. Tokens come as the page
 * shows them: UTF-8, and U+DC00 + byte for a byte that belongs to no character.
 */
"use strict";

globalThis.lnattnBpe = (() => {
  // Unicode's White_Space, as the tokenizers library reads \s; JavaScript's own \s also has U+FEFF
  // and lacks U+0085.
  const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const PIECES = new RegExp(
    `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+`
    + `|[${SPACE}]+(?![^${SPACE}])|[${SPACE}]+`, "gu");
  const utf8 = new TextEncoder();

  /** The bytes of a text; of a lone half of a surrogate pair, those of U+FFFD. */
  function bytesOf(text) {
    return Array.from(utf8.encode(text), (byte) => String.fromCharCode(byte)).join("");
  }

  /** The bytes of a token as the page shows it. */
  function bytesOfToken(text) {
    return Array.from(text, (sign) => {
      const code = sign.codePointAt(0);
      return code >= 0xdc80 && code <= 0xdcff ? String.fromCharCode(code - 0xdc00) : bytesOf(sign);
    }).join("");
  }

  /** Join the pair that was learned first, as long as there is one; `word`: a string of bytes. */
  function join(word, ranks) {
    let parts = Array.from(word);
    while (parts.length > 1) {
      let best = Infinity;
      for (let i = 0; i + 1 < parts.length; i++) {
        best = Math.min(best, ranks.get(parts[i])?.get(parts[i + 1]) ?? Infinity);
      }
      if (best === Infinity) break;
      const joined = [];
      for (let i = 0; i < parts.length; i++) {
        if (ranks.get(parts[i])?.get(parts[i + 1]) === best) joined.push(parts[i] + parts[++i]);
        else joined.push(parts[i]);
      }
      parts = joined;
    }
    return parts;
  }

  /**
   * A function from a text to its token ids.
   *
   * tokens: the text of every id; merges: [left id, right id, left id, …] in the order in which
   * they were learned; added: ids of tokens that are found whole in a text, such as <|endoftext|>.
   */
  function tokenizer(tokens, merges, added) {
    const bytes = tokens.map(bytesOfToken);
    const special = new Map(added.map((id) => [tokens[id], id]));
    const ids = new Map(bytes.map((word, id) => [word, id]));
    for (const id of added) ids.delete(bytes[id]);
    const ranks = new Map();
    for (let i = 0; i < merges.length; i += 2) {
      const left = bytes[merges[i]];
      if (!ranks.has(left)) ranks.set(left, new Map());
      ranks.get(left).set(bytes[merges[i + 1]], i / 2);
    }
    const marks = [...special.keys()].map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const whole = marks.length ? new RegExp(`(${marks.join("|")})`, "u") : null;
    return (text) => (whole ? text.split(whole) : [text]).flatMap((part) => special.has(part)
      ? [special.get(part)]
      : (part.match(PIECES) ?? []).flatMap((piece) =>
        join(bytesOf(piece), ranks).map((word) => ids.get(word))));
  }

  return { tokenizer };
})();
