/* Token embeddings, held as they are stored: of a file all at once, of what comes with the page in blocks of
 * tokens, as they are asked for.
 *
 * { size, rows(first, count), need(ids), arriving(ids) }: rows: as numbers, of tokens that are here; need: once
 * these tokens are here; arriving: all of them as they come, in parts [first, count], those of these tokens first.
 */
"use strict";

globalThis.lnattnEmbeddings = (() => {
  const { WIDTH, decoded } = lnattnSafetensors;
  const AT_ONCE = 16; // blocks on their way

  /** What gives rows as numbers: stored as `dtype` one after the other, whole numbers with a scale for each row. */
  function reader({ d, dtype, bytes, scales = null }) {
    return (first, count) => {
      const made = decoded(dtype, bytes, first * d * WIDTH.get(dtype), count * d);
      for (let row = 0; scales && row < count; row++) {
        for (let at = row * d; at < (row + 1) * d; at++) made[at] *= scales[first + row];
      }
      return made;
    };
  }

  /** Embeddings that are all here. */
  function whole(stored, size) {
    async function* arriving() {
      yield [0, size];
    }
    return { size, rows: reader(stored), need: async () => {}, arriving };
  }

  /** Refuse what came with the page; what is wrong with it follows its name. */
  function refuse(why) {
    throw Object.assign(new Error(why), { why });
  }

  /** What a file of the page says of itself. */
  const aboutOf = (file) => JSON.parse(file.about.about);

  /** Refuse a file that was written with other weights. */
  function requireEdition(file, edition) {
    if (aboutOf(file).edition !== edition) refuse("is of another edition than this page: load the page again");
  }

  /** The numbers of block `at` of such embeddings, checked: { bytes, scales }. */
  async function checked(file, { d, dtype, edition }, first, count) {
    requireEdition(file, edition);
    const entry = file.tensors.get("W_E");
    const scale = file.tensors.get("W_E.scale");
    const isFitting = aboutOf(file).first === first && entry?.dtype === dtype && entry.shape.join() === `${count},${d}`
      && (dtype === "I8" ? scale?.dtype === "F32" && scale.shape.join() === String(count) : !scale);
    if (!isFitting) refuse("holds other tokens than it should");
    const bytes = await file.bytes("W_E");
    const scales = scale ? decoded("F32", await file.bytes("W_E.scale")) : null;
    if (!(scales ?? decoded(dtype, bytes)).every(Number.isFinite)) refuse("holds values that are no finite numbers");
    return { bytes, scales };
  }

  /**
   * Embeddings that come with the page. load(number, take, line): asks for a block, hands its file to `take`.
   * order: the blocks, those of frequent tokens first; dtype, edition: what each block must say of itself.
   */
  function inBlocks({ d, size, block, order, dtype, edition }, load) {
    const stored = { d, dtype, bytes: new ArrayBuffer(size * d * WIDTH.get(dtype)) };
    if (dtype === "I8") stored.scales = new Float32Array(size);
    const partOf = (number) => [number * block, Math.min(block, size - number * block)];
    const blocksOf = (ids) => [...new Set(ids.map((id) => Math.floor(id / block)))];

    /** Blocks, once they are here; nothing of one that is not what it should be. */
    const held = (numbers, line) => Promise.all(numbers.map((number) => load(number, async (file) => {
      const [first, count] = partOf(number);
      const { bytes, scales } = await checked(file, { d, dtype, edition }, first, count);
      new Uint8Array(stored.bytes).set(new Uint8Array(bytes), first * d * WIDTH.get(dtype));
      if (scales) stored.scales.set(scales, first);
    }, line)));

    async function* arriving(ids, line) {
      const numbers = [...new Set([...blocksOf(ids), ...order])];
      // Each with its failure as a value, since it may fail before its turn.
      const ask = (number) => held([number], line).then(() => null, (error) => error);
      const coming = numbers.slice(0, AT_ONCE).map(ask);
      for (const [at, number] of numbers.entries()) {
        const problem = await coming.shift();
        if (problem) throw problem;
        if (at + AT_ONCE < numbers.length) coming.push(ask(numbers[at + AT_ONCE]));
        yield partOf(number);
      }
    }
    return { size, rows: reader(stored), need: (ids, line) => held(blocksOf(ids), line), arriving };
  }

  return { aboutOf, inBlocks, requireEdition, whole };
})();
