/* Tokenizers in the browser, from tokenizer.json: byte-level BPE as GPT-2's, and WordPiece as BERT's.
 *
 * A byte-level vocabulary writes each byte as a letter. Tokens are shown as UTF-8, and a byte that
 * belongs to no character as U+DC00 + byte, so that different tokens stay different.
 */
"use strict";

globalThis.lnattnTokenizer = (() => {
  const { SPACE, WORD, expression, literal } = lnattnPatterns;
  const GPT2 = expression("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+");
  const { breath } = lnattnExplorer;
  const BLOCK = 1024; // tokens between two pauses
  const utf8 = new TextEncoder();
  const characters = new TextDecoder("utf-8", { ignoreBOM: true });

  /** The letter of each byte: those that print are themselves, the others follow from U+0100 on. */
  const LETTERS = (() => {
    const prints = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    let next = 0x100;
    return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(prints(byte) ? byte : next++));
  })();
  const BYTES = new Map(LETTERS.map((letter, byte) => [letter, byte]));

  const isByteLevel = (piece) => Array.from(piece).every((letter) => BYTES.has(letter));

  /** How many bytes the character has that begins with this one; 0: none begins so. */
  function lengthOf(byte) {
    if (byte < 0x80) return 1;
    const ones = Math.clz32(~byte << 24);
    return ones >= 2 && ones <= 4 ? ones : 0;
  }

  /** What a piece of a byte-level vocabulary says. */
  function textOf(piece) {
    const bytes = Uint8Array.from(piece, (letter) => BYTES.get(letter));
    if (bytes.every((byte) => byte < 0x80)) return String.fromCharCode(...bytes);
    let text = "";
    for (let at = 0; at < bytes.length;) {
      const size = lengthOf(bytes[at]);
      const part = bytes.subarray(at, at + size);
      const sign = size && part.length === size ? characters.decode(part) : "";
      const isReplacement = part.join() === "239,191,189"; // U+FFFD itself
      const isSign = sign !== "" && (isReplacement || !sign.startsWith("\ufffd"));
      text += isSign ? sign : String.fromCharCode(0xdc00 + bytes[at]);
      at += isSign ? size : 1;
    }
    return text;
  }

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

  // ---- Cutting a text into words -----------------------------------------------------------------

  /** A text as parts { text, isMatch }, in order: what the expression finds, and what lies between. */
  function partsBy(cut, text) {
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(cut)) {
      if (!match[0]) continue;
      if (match.index > end) parts.push({ text: text.slice(end, match.index), isMatch: false });
      end = match.index + match[0].length;
      parts.push({ text: match[0], isMatch: true });
    }
    if (end < text.length) parts.push({ text: text.slice(end), isMatch: false });
    return parts;
  }

  /** What becomes of the parts, by the name that the tokenizers library gives it. */
  const BEHAVIOURS = new Map(Object.entries({
    Isolated: (parts) => parts.map(({ text }) => text),
    Removed: (parts) => parts.filter(({ isMatch }) => !isMatch).map(({ text }) => text),
    Contiguous(parts) {
      const made = [];
      parts.forEach(({ text, isMatch }, i) => {
        if (i && parts[i - 1].isMatch === isMatch) made[made.length - 1] += text;
        else made.push(text);
      });
      return made;
    },
    MergedWithPrevious(parts) {
      const made = [];
      parts.forEach(({ text, isMatch }, i) => {
        if (i && isMatch && !parts[i - 1].isMatch) made[made.length - 1] += text;
        else made.push(text);
      });
      return made;
    },
    MergedWithNext(parts) {
      const made = [];
      let waiting = "";
      parts.forEach(({ text, isMatch }, i) => {
        if (isMatch && i + 1 < parts.length && !parts[i + 1].isMatch) waiting = text;
        else {
          made.push(waiting + text);
          waiting = "";
        }
      });
      return made;
    },
  }));

  /** A function from a text to its parts, for one step of a pre-tokenizer; null for an unknown one. */
  function cutterOf(step) {
    if (step.type === "Digits") {
      const behaviour = BEHAVIOURS.get(step.individual_digits ? "Isolated" : "Contiguous");
      return (text) => behaviour(partsBy(/\p{N}/gu, text));
    }
    if (step.type === "Split") {
      const { Regex: pattern, String: text } = step.pattern;
      const cut = pattern === undefined ? literal(text) : expression(pattern);
      const behaviour = BEHAVIOURS.get(step.behavior);
      if (!cut || !behaviour) return null;
      const turned = (parts) => parts.map((part) => ({ ...part, isMatch: part.isMatch !== Boolean(step.invert) }));
      return (whole) => behaviour(turned(partsBy(cut, whole)));
    }
    if (step.type !== "ByteLevel") return null;
    const isolated = BEHAVIOURS.get("Isolated");
    const words = step.use_regex === false ? (text) => [text] : (text) => isolated(partsBy(GPT2, text));
    return (text) => words(step.add_prefix_space !== false && !text.startsWith(" ") ? ` ${text}` : text);
  }

  /** A function from a text to pieces of a byte-level vocabulary; null for one of another kind. */
  function bytePairs({ model, pre_tokenizer: first }) {
    const steps = first?.type === "Sequence" ? first.pretokenizers : [first ?? {}];
    const cutters = steps.map(cutterOf);
    const isByteLevel = steps.filter(({ type }) => type === "ByteLevel").length === 1 && steps.at(-1).type === "ByteLevel";
    const isPlain = !model.continuing_subword_prefix && !model.end_of_word_suffix && !model.byte_fallback;
    if (!isByteLevel || !isPlain || cutters.includes(null)) return null;
    const ranks = new Map(model.merges.map((pair, i) => [Array.isArray(pair) ? pair.join(" ") : pair, i]));
    const letters = (word) => Array.from(utf8.encode(word), (byte) => LETTERS[byte]).join("");
    const piecesOf = (word) =>
      (model.ignore_merges && Object.hasOwn(model.vocab, word) ? [word] : joined(word, ranks));
    return (text) => {
      const words = cutters.reduce((parts, cut) => parts.flatMap((part) => (part ? cut(part) : [])), [text]);
      return words.map(letters).flatMap(piecesOf);
    };
  }

  /** A function that normalises a text before it is cut; null for a kind that the page does not know. */
  function normaliserOf(normalizer, model) {
    if (model?.type === "WordPiece") return (text) => text; // a part of `wordPieces`
    if (!normalizer) return (text) => text;
    const form = normalizer.type;
    return ["NFC", "NFD", "NFKC", "NFKD"].includes(form) ? (text) => text.normalize(form) : null;
  }

  /** A function from a text to pieces of BERT's vocabulary; null for one of another kind. */
  function wordPieces({ model, normalizer, pre_tokenizer: first }) {
    if (normalizer?.type !== "BertNormalizer" || first?.type !== "BertPreTokenizer") return null;
    const { unk_token: unknown, continuing_subword_prefix: mark = "##", max_input_chars_per_word: most = 100 } = model;
    const { lowercase, strip_accents: strip } = normalizer;
    const words = /[!-/:-@[-`{-~\p{P}]|[^!-/:-@[-`{-~\p{P}\s\x85]+/gu;
    const ideograph = /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2ebef}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;
    function clean(text) {
      let made = text;
      if (normalizer.clean_text !== false) {
        made = made.replace(/[\t\n\r]/g, " ").replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd]/gu, "");
      }
      if (normalizer.handle_chinese_chars !== false) made = made.replace(ideograph, " $& ");
      if (strip ?? lowercase) made = made.normalize("NFD").replace(/\p{Mn}/gu, "");
      return lowercase ? made.toLowerCase() : made;
    }
    return (text) => (clean(text).match(words) ?? []).flatMap((word) => {
      const signs = Array.from(word);
      const pieces = [];
      for (let from = 0, to; from < signs.length; from = to) {
        const piece = () => (from ? mark : "") + signs.slice(from, to).join("");
        for (to = signs.length; to > from && !Object.hasOwn(model.vocab, piece()); to--);
        if (to === from || signs.length > most) return [unknown];
        pieces.push(piece());
      }
      return pieces;
    });
  }

  // ---- Tokens that stand whole in a text ---------------------------------------------------------

  const endsWithWord = new RegExp(`[${WORD}]$`, "u");
  const beginsWithWord = new RegExp(`^[${WORD}]`, "u");
  const spaceAtEnd = new RegExp(`[${SPACE}]+$`, "u");
  const spaceAtBegin = new RegExp(`^[${SPACE}]+`, "u");

  /** A function from a text to parts { text } and { id }: of added tokens the longest is taken first. */
  function apartOf(added, contentOf = (content) => content) {
    const tokens = new Map(added.map((token) => [contentOf(token.content), token]).filter(([content]) => content));
    if (!tokens.size) return (text) => [{ text }];
    const contents = [...tokens.keys()].sort((a, b) => b.length - a.length);
    const any = new RegExp(contents.map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"), "gu");
    return (text) => {
      const parts = [];
      let end = 0;
      for (const { 0: content, index } of text.matchAll(any)) {
        const token = tokens.get(content);
        let [from, to] = [index, index + content.length];
        const [before, after] = [text.slice(0, from), text.slice(to)];
        if (token.single_word && (endsWithWord.test(before) || beginsWithWord.test(after))) continue;
        if (token.lstrip) from = Math.max(end, from - (spaceAtEnd.exec(before)?.[0].length ?? 0));
        if (token.rstrip) to += spaceAtBegin.exec(after)?.[0].length ?? 0;
        if (from > end) parts.push({ text: text.slice(end, from) });
        parts.push({ id: token.id });
        end = to;
      }
      if (end < text.length) parts.push({ text: text.slice(end) });
      return parts;
    };
  }

  /** Ids before and after a text, [before, after]; null where the tokenizer says nothing. */
  function frameOf(after, ids) {
    const steps = after?.processors ?? [after ?? {}];
    const frame = steps.find(({ type }) => ["TemplateProcessing", "BertProcessing", "RobertaProcessing"].includes(type));
    if (!frame) return null;
    if (frame.cls) return [[frame.cls[1]], [frame.sep[1]]];
    const place = frame.single.findIndex((part) => part.Sequence);
    const idsOf = (parts) => parts.flatMap(({ SpecialToken: { id } }) => frame.special_tokens[id]?.ids ?? [ids.get(id)]);
    return [idsOf(frame.single.slice(0, place)), idsOf(frame.single.slice(place + 1))];
  }

  /** The tokenizer.json that GPT-2's merges stand for. */
  function fromMerges(text) {
    const merges = text.split("\n").filter((line) => line && !line.startsWith("#version"));
    const own = [...LETTERS].sort((a, b) => (a >= "\u0100") - (b >= "\u0100") || (a < b ? -1 : 1));
    const pieces = [...own, ...merges.map((pair) => pair.replace(" ", "")), "<|endoftext|>"];
    return {
      model: { type: "BPE", merges, vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])) },
      pre_tokenizer: { type: "ByteLevel", add_prefix_space: false },
      added_tokens: [{ content: "<|endoftext|>", id: pieces.length - 1 }],
    };
  }

  /** Ids by piece: those of the vocabulary and of the tokens added to it. */
  function idsOf({ model, added_tokens: added = [] }) {
    const vocab = model?.vocab ?? {};
    const entries = Array.isArray(vocab) ? vocab.map(([piece], id) => [piece, id]) : Object.entries(vocab);
    const ids = new Map(entries);
    for (const { content, id } of added) ids.set(content, id);
    return ids;
  }

  /** The text of every id; a long vocabulary leaves the page time to answer. */
  async function textsOf(ids, special, size, isBytes) {
    const tokens = Array(size).fill("");
    const rest = breath();
    let done = 0;
    for (const [piece, id] of ids) {
      if (++done % BLOCK === 0) await rest();
      if (id >= size) continue;
      const isWhole = !isBytes || special.has(piece) || !isByteLevel(piece);
      tokens[id] = isWhole ? piece : textOf(piece);
    }
    return tokens;
  }

  function cutOf(json) {
    if (json.model?.type === "BPE") return bytePairs(json);
    return json.model?.type === "WordPiece" ? wordPieces(json) : null;
  }

  async function built(json, size, begin) {
    const { model, normalizer, added_tokens: added = [] } = json;
    const ids = idsOf(json);
    const cut = cutOf(json);
    const normalised = normaliserOf(normalizer, model);
    const special = new Set(added.map(({ content }) => content));
    const tokens = await textsOf(ids, special, size, cut && model.type === "BPE");
    const told = frameOf(json.post_processor, ids);
    const [before, after] = told ?? [begin === null ? [] : [begin], []];
    const ends = [before.length, after.length];
    if (!cut || !normalised) return { tokens, encode: null, ends };

    const raw = apartOf(added.filter((token) => !token.normalized));
    const late = apartOf(added.filter((token) => token.normalized), normalised);
    const idsOfText = (text) => late(normalised(text)).flatMap((part) =>
      ("id" in part ? [part.id] : cut(part.text).map((piece) => ids.get(piece))));
    function encode(text) {
      const inside = raw(text).flatMap((part) => ("id" in part ? [part.id] : idsOfText(part.text)))
        .filter((id) => id < size);
      // What the tokenizer puts first, it always puts there; what only the model expects, if it lacks.
      const isThere = !told && inside[0] === before[0];
      return [...(isThere ? [] : before), ...inside, ...after];
    }
    return { tokens, encode, ends };
  }

  /**
   * { tokens, encode, ends }: the text of every id, a function from a text to the ids that a model
   * reads, and how many of those stand before and after the text.
   *
   * json: tokenizer.json; size: how many ids the model has; begin: the id that such a model expects
   * first, if the tokenizer does not say. encode is null for a tokenizer of another kind.
   */
  async function tokenizer(json, size, begin = null) {
    try {
      return await built(json, size, begin);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw new Error("tokenizer.json is not laid out as the tokenizers library writes it: fetch it again.");
    }
  }

  return { fromMerges, tokenizer };
})();
