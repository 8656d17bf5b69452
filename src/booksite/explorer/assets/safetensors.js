/* A safetensors file in the browser: its header, checked as the format asks, and tensors read in pieces.
 *
 * A source is { name, size, slice(from, to) → a promise of bytes }: a file of the reader's, or what
 * comes with the page. What cannot be used is refused with one sentence.
 */
"use strict";

globalThis.lnattnSafetensors = (() => {
  const LONGEST = 1e8; // bytes of a header
  const PIECE = 1 << 23; // bytes read at once

  /** Refuse a reader's file, with a sentence that says all there is to say. */
  function refuse(sentence) {
    throw Object.assign(new Error(sentence), { name: "Refused" });
  }

  const ofBlob = (blob, name = blob.name) =>
    ({ name, size: blob.size, slice: (from, to) => blob.slice(from, to).arrayBuffer() });

  // ---- Stored numbers ------------------------------------------------------------------------------

  /** Bits of a number, by the type that a header names. */
  const BITS = new Map(Object.entries({
    BOOL: 8, U8: 8, I8: 8, F8_E5M2: 8, F8_E4M3: 8, F8_E8M0: 8, F4: 4, F6_E2M3: 6, F6_E3M2: 6,
    I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, I64: 64, U64: 64, F64: 64, C64: 64,
  }));
  /** Bytes of a number, by the types that the page computes with. */
  const WIDTH = new Map(Object.entries({ F64: 8, F32: 4, F16: 2, BF16: 2, I8: 1 }));

  const HALF = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
    const power = (bits >> 10) & 31;
    const rest = bits & 1023;
    let size = (1 + rest / 1024) * 2 ** (power - 15);
    if (power === 0) size = rest * 2 ** -24;
    if (power === 31) size = rest ? NaN : Infinity;
    return bits >> 15 ? -size : size;
  });

  /** Stored numbers as Float32Array. */
  function decoded(dtype, bytes, from = 0, count = (bytes.byteLength - from) / WIDTH.get(dtype)) {
    switch (dtype) {
      case "F64": return Float32Array.from(new Float64Array(bytes, from, count));
      case "F32": return new Float32Array(bytes, from, count);
      case "I8": return Float32Array.from(new Int8Array(bytes, from, count));
      case "F16": return Float32Array.from(new Uint16Array(bytes, from, count), (bits) => HALF[bits]);
      case "BF16": {
        const stored = new Uint16Array(bytes, from, count);
        return new Float32Array(Uint32Array.from(stored, (bits) => bits << 16).buffer);
      }
      default: return refuse(`The page does not compute with numbers of the type ${dtype}.`);
    }
  }

  // ---- The header ----------------------------------------------------------------------------------

  const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

  /** A tensor's entry, or null where the format does not allow it. */
  function entryOf(value) {
    if (!isObject(value)) return null;
    const { dtype, shape, data_offsets: offsets } = value;
    const isWhole = Array.isArray(shape) && shape.every(isCount) && Array.isArray(offsets)
      && offsets.length === 2 && offsets.every(isCount);
    if (!isWhole || !BITS.has(dtype)) return null;
    const bits = shape.reduce((product, n) => product * n, BITS.get(dtype));
    const isFilled = Number.isSafeInteger(bits) && bits === 8 * (offsets[1] - offsets[0]);
    return isFilled ? { dtype, shape, from: offsets[0], to: offsets[1] } : null;
  }

  /** The entries of a header by name, which fill the `size` bytes behind it without overlap or gap. */
  function entriesOf(name, header, size) {
    if (!isObject(header)) refuse(`${name} has a header that cannot be read: fetch it again.`);
    const tensors = new Map();
    for (const [tensor, value] of Object.entries(header)) {
      if (tensor === "__metadata__") continue;
      const entry = entryOf(value);
      if (!entry) {
        refuse(`${name} says of ${tensor.slice(0, 80)} what no safetensors file may say (type, shape and place `
          + "do not agree): fetch it again.");
      }
      tensors.set(tensor, entry);
    }
    const inOrder = [...tensors.values()].sort((a, b) => a.from - b.from || a.to - b.to);
    let end = 0;
    for (const { from, to } of inOrder) {
      if (from !== end) refuse(`${name} has a header whose tensors overlap or leave a gap: fetch it again.`);
      end = to;
    }
    if (end > size) refuse(`${name} lacks its last ${end - size} bytes: fetch it again.`);
    if (end < size) refuse(`${name} has ${size - end} bytes that belong to no tensor: fetch it again.`);
    return tensors;
  }

  /** The length of the header, of a file that is a safetensors file by its name and first bytes. */
  async function headerLength({ name, size, slice }) {
    const start = new Uint8Array(await slice(0, Math.min(8, size)));
    const letters = String.fromCharCode(...start);
    const length = start.length < 8 ? Infinity : Number(new DataView(start.buffer).getBigUint64(0, true));
    const isPickle = letters.startsWith("PK") || (letters[0] === "\x80" && length > LONGEST);
    if (/\.(bin|pt|pth|ckpt|pkl)$/i.test(name) || isPickle) {
      refuse(`${name} is a pickle, which may hold a program: give the model's safetensors file.`);
    }
    if (letters.startsWith("GGUF")) refuse(`${name} is a GGUF file: give the model's safetensors file.`);
    if (/index\.json$/.test(name)) refuse(`${name} lists the parts of a sharded checkpoint: give those parts.`);
    if (length > LONGEST) refuse(`${name} is no safetensors file.`);
    if (8 + length > size) refuse(`${name} ends within its header: fetch it again.`);
    return length;
  }

  /**
   * The tensors of a file: { name, size, tensors, about, bytes(tensor), read() }.
   *
   * tensors: entries { dtype, shape, from, to } by name; about: what `__metadata__` says; bytes: a
   * tensor's bytes, read piece by piece; read(): how many bytes were read so far.
   */
  async function open(source) {
    const { name, size } = source;
    const length = await headerLength(source);
    let header = null;
    try {
      header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(await source.slice(8, 8 + length)));
    } catch {
      refuse(`${name} has a header that cannot be read: fetch it again.`);
    }
    const begin = 8 + length;
    const tensors = entriesOf(name, header, size - begin);
    let read = begin;

    async function bytes(tensor, tell = () => {}) {
      const { from, to } = tensors.get(tensor);
      const made = new Uint8Array(to - from);
      for (let at = from; at < to; at += PIECE) {
        made.set(new Uint8Array(await source.slice(begin + at, begin + Math.min(to, at + PIECE))), at - from);
        tell((at - from) / (to - from));
      }
      read += to - from;
      return made.buffer;
    }
    const about = isObject(header.__metadata__) ? header.__metadata__ : {};
    return { name, size, tensors, about, bytes, read: () => read };
  }

  /** The files of a sharded checkpoint as one: a tensor is read from the part that holds it. */
  async function openTogether(sources) {
    const files = await Promise.all(sources.map(open));
    const owner = new Map();
    for (const file of files) {
      for (const tensor of file.tensors.keys()) {
        if (owner.has(tensor)) refuse(`${tensor.slice(0, 80)} stands in two of the files: give those of one model.`);
        owner.set(tensor, file);
      }
    }
    const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
    return {
      name: files.map(({ name }) => name).join(", "),
      size: sum(files.map(({ size }) => size)),
      tensors: new Map([...owner].map(([tensor, file]) => [tensor, file.tensors.get(tensor)])),
      about: {},
      bytes: (tensor, tell) => owner.get(tensor).bytes(tensor, tell),
      read: () => sum(files.map((file) => file.read())),
    };
  }

  return { WIDTH, decoded, ofBlob, open, openTogether, refuse };
})();
