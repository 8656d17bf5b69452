/* Tokenizers in the browser, from tokenizer.json: byte-level BPE as GPT-2's, and WordPiece as BERT's.
 *
 * A byte-level vocabulary writes each byte as a letter. Tokens are shown as UTF-8, and a byte that
 * belongs to no character as U+DC00 + byte, so that different tokens stay different.
 */
"use strict";

globalThis.lnattnTokenizer = (() => {
  // Unicode's White_Space, as the tokenizers library reads \s; JavaScript's own \s also has U+FEFF
  // and lacks U+0085.
  const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  const utf8 = new TextEncoder();

  /** A pattern of the tokenizers library as JavaScript reads it. */
  function expression(pattern) {
    const source = pattern
      .replace(/\(\?i:([^)]*)\)/g, (_, inner) =>
        `(?:${inner.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`)})`)
      .replaceAll("[^\\s", `[^${SPACE}`).replaceAll("\\s", `[${SPACE}]`).replaceAll("\\S", `[^${SPACE}]`);
    return new RegExp(source, "gu");
  }

  /** The letter of each byte: those that print are themselves, the others follow from U+0100 on. */
  const LETTERS = (() => {
    const prints = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    let next = 0x100;
    return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(prints(byte) ? byte : next++));
  })();
  const BYTES = new Map(LETTERS.map((letter, byte) => [letter, byte]));

  /** What a piece of a byte-level vocabulary says. */
  function textOf(piece) {
    const bytes = Uint8Array.from(piece, (letter) => BYTES.get(letter));
    let text = "";
    for (let at = 0; at < bytes.length;) {
      const size = [1, 0, 2, 3, 4][Math.max(1, Math.clz32(~bytes[at] << 24)) * (bytes[at] > 127)] ?? 0;
      const some = bytes.subarray(at, at + size);
      const sign = size && some.length === size ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(some) : "";
      const whole = sign && !sign.startsWith("\ufffd") || bytesAre(some, 0xef, 0xbf, 0xbd);
      text += whole ? sign : String.fromCharCode(0xdc00 + bytes[at]);
      at += whole ? size : 1;
    }
    return text;
  }
  const bytesAre = (bytes, ...wanted) => bytes.length === wanted.length && wanted.every((b, i) => b === bytes[i]);

  /** Join the pair that was learned first, as long as there is one. */
  function joined(word, ranks) {
    let parts = Array.from(word);
    for (;;) {
      let [best, place] = [Infinity, -1];
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
        if (rank < best) [best, place] = [rank, i];
      }
      if (place < 0) return parts;
      const [left, right] = parts.slice(place, place + 2);
      const next = [];
      for (let i = 0; i < parts.length; i++) {
        if (parts[i] === left && parts[i + 1] === right) next.push(left + parts[++i]);
        else next.push(parts[i]);
      }
      parts = next;
    }
  }

  /** A function from a text to pieces of a byte-level vocabulary; null for one of another kind. */
  function bytePairs({ model, normalizer, pre_tokenizer: first }) {
    const steps = first?.type === "Sequence" ? first.pretokenizers : [first ?? {}];
    const known = steps.every(({ type }) => ["ByteLevel", "Split", "Digits"].includes(type));
    if (!known || steps.at(-1).type !== "ByteLevel" || (normalizer && normalizer.type !== "NFC")) return null;
    const ranks = new Map(model.merges.map((pair, i) => [Array.isArray(pair) ? pair.join(" ") : pair, i]));
    const cuts = steps.flatMap((step) => step.type === "Digits"
      ? expression(step.individual_digits ? "\\p{N}|\\P{N}+" : "\\p{N}+|\\P{N}+")
      : step.type === "Split" ? expression(step.pattern.Regex ?? "[^]+")
        : step.use_regex === false ? [] : expression(GPT2));
    const letters = (piece) => Array.from(utf8.encode(piece), (byte) => LETTERS[byte]).join("");
    return (text) => {
      const start = steps.at(-1).add_prefix_space && !/^\s/.test(text) ? ` ${text}` : text;
      return cuts.reduce((parts, cut) => parts.flatMap((part) => part.match(cut) ?? []), [start]).map(letters)
        .flatMap((word) => model.ignore_merges && Object.hasOwn(model.vocab, word) ? [word] : joined(word, ranks));
    };
  }

  /** A function from a text to pieces of BERT's vocabulary; null for one of another kind. */
  function wordPieces({ model, normalizer, pre_tokenizer: first }) {
    if (normalizer?.type !== "BertNormalizer" || first?.type !== "BertPreTokenizer") return null;
    const { unk_token: unknown, continuing_subword_prefix: mark = "##", max_input_chars_per_word: most = 100 } = model;
    const { lowercase, strip_accents: strip } = normalizer;
    const words = /[!-/:-@[-`{-~\p{P}]|[^!-/:-@[-`{-~\p{P}\s\x85]+/gu;
    const ideograph = /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2ebef}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;
    function clean(text) {
      let made = text.replace(/[\t\n\r]/g, " ").replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd]/gu, "");
      if (normalizer.handle_chinese_chars !== false) made = made.replace(ideograph, " $& ");
      if (strip ?? lowercase) made = made.normalize("NFD").replace(/\p{Mn}/gu, "");
      return lowercase ? made.toLowerCase() : made;
    }
    return (text) => (clean(text).match(words) ?? []).flatMap((word) => {
      const signs = Array.from(word);
      const found = [];
      for (let from = 0, to; from < signs.length; from = to) {
        const piece = () => (from ? mark : "") + signs.slice(from, to).join("");
        for (to = signs.length; to > from && !Object.hasOwn(model.vocab, piece()); to--);
        if (to === from || signs.length > most) return [unknown];
        found.push(piece());
      }
      return found;
    });
  }

  /** Ids before and after a text, [before, after]; null where the tokenizer says nothing. */
  function frameOf(after, ids) {
    const steps = after?.processors ?? [after ?? {}];
    const one = steps.find(({ type }) => ["TemplateProcessing", "BertProcessing", "RobertaProcessing"].includes(type));
    if (!one) return null;
    if (one.cls) return [[one.cls[1]], [one.sep[1]]];
    const place = one.single.findIndex((part) => part.Sequence);
    const named = (parts) => parts.map((part) => one.special_tokens[part.SpecialToken.id]?.ids[0] ?? ids.get(part.SpecialToken.id));
    return [named(one.single.slice(0, place)), named(one.single.slice(place + 1))];
  }

  /** The tokenizer.json that GPT-2's merges stand for. */
  function fromMerges(text) {
    const merges = text.split("\n").filter((line) => line && !line.startsWith("#version"));
    const own = [...LETTERS].sort((a, b) => (a >= "\u0100") - (b >= "\u0100") || (a < b ? -1 : 1));
    const pieces = [...own, ...merges.map((pair) => pair.replace(" ", "")), "<|endoftext|>"];
    return {
      model: { type: "BPE", merges, vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])) },
      pre_tokenizer: { type: "ByteLevel" },
      added_tokens: [{ content: "<|endoftext|>", id: pieces.length - 1 }],
    };
  }

  /**
   * { tokens, encode }: the text of every id, and a function from a text to the ids that a model reads.
   *
   * json: tokenizer.json; size: how many ids the model has; begin: the id that such a model expects
   * first, if the tokenizer does not say. encode is null for a tokenizer of another kind.
   */
  function tokenizer(json, size, begin = null) {
    const { model, added_tokens: added = [] } = json;
    const entries = Array.isArray(model?.vocab) ? model.vocab.map(([piece], id) => [piece, id]) : Object.entries(model?.vocab ?? {});
    const special = new Map(added.map(({ content, id }) => [content, id]));
    const ids = new Map([...entries, ...special]);
    const split = model?.type === "BPE" ? bytePairs(json) : model?.type === "WordPiece" ? wordPieces(json) : null;
    const isBytes = split && model.type === "BPE";
    const tokens = Array(size).fill("");
    for (const [piece, id] of ids) {
      const whole = !isBytes || special.has(piece) || !Array.from(piece).every((letter) => BYTES.has(letter));
      if (id < size) tokens[id] = whole ? piece : textOf(piece);
    }
    const marks = [...special.keys()].map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const whole = marks.length ? new RegExp(`(${marks.join("|")})`, "u") : null;
    const [before, after] = frameOf(json.post_processor, ids) ?? [begin === null ? [] : [begin], []];
    function encode(text) {
      const found = (whole ? text.split(whole) : [text]).flatMap((part) =>
        special.has(part) ? [part] : part ? split(part) : []).map((piece) => ids.get(piece)).filter((id) => id < size);
      return [...(found[0] === before[0] ? [] : before), ...found, ...after];
    }
    return { tokens, encode: split && encode, ends: [before.length, after.length] };
  }

  return { fromMerges, tokenizer };
})();
