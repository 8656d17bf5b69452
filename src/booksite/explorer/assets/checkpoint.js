/* The first layer of a checkpoint: the header of a safetensors file and those few tensors of it.
 *
 * A source is { name, size, slice(from, to) → a promise of bytes }: a file of the reader's, or what
 * comes with the page. What cannot be used is refused with one sentence.
 */
"use strict";

globalThis.lnattnCheckpoint = (() => {
  const LARGEST = 8e8; // bytes of embeddings that a page may hold
  const LONGEST = 1e8; // bytes of a header
  const PIECE = 1 << 23; // bytes read at once

  function refuse(sentence) {
    throw new Error(sentence);
  }

  // ---- Sources -----------------------------------------------------------------------------------

  const ofBlob = (blob, name = blob.name) =>
    ({ name, size: blob.size, slice: (from, to) => blob.slice(from, to).arrayBuffer() });

  // ---- The header --------------------------------------------------------------------------------

  const HALF = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
    const [power, rest] = [(bits >> 10) & 31, bits & 1023];
    const size = power === 0 ? rest * 2 ** -24
      : power === 31 ? (rest ? NaN : Infinity) : (1 + rest / 1024) * 2 ** (power - 15);
    return bits >> 15 ? -size : size;
  });
  const WIDTH = { F32: 4, F16: 2, BF16: 2, I8: 1 };

  /** Stored numbers as Float32Array. */
  function decoded(dtype, bytes, from = 0, count = (bytes.byteLength - from) / WIDTH[dtype]) {
    if (dtype === "F32") return new Float32Array(bytes, from, count);
    if (dtype === "I8") return Float32Array.from(new Int8Array(bytes, from, count));
    const stored = new Uint16Array(bytes, from, count);
    if (dtype === "F16") return Float32Array.from(stored, (bits) => HALF[bits]);
    return new Float32Array(Uint32Array.from(stored, (bits) => bits << 16).buffer);
  }

  /** The tensors of a safetensors file: { has, shape, bytes }. */
  async function open(source) {
    const { name, size } = source;
    const start = new Uint8Array(await source.slice(0, Math.min(8, size)));
    const letters = String.fromCharCode(...start);
    const length = size < 8 ? Infinity : Number(new DataView(start.buffer).getBigUint64(0, true));
    const isPickle = letters.startsWith("PK") || (letters[0] === "\x80" && length > LONGEST);
    if (/\.(bin|pt|pth|ckpt|pkl)$/i.test(name) || isPickle) {
      refuse(`${name} is a pickle, which may hold a program: give the model's safetensors file.`);
    }
    if (letters.startsWith("GGUF")) refuse(`${name} is a GGUF file: give the model's safetensors file.`);
    if (/-\d+-of-\d+\.safetensors$/.test(name) || /index\.json$/.test(name)) {
      refuse(`${name} is a part of a sharded checkpoint: save the model as one safetensors file.`);
    }
    if (length > LONGEST) refuse(`${name} is no safetensors file.`);
    if (8 + length > size) refuse(`${name} ends within its header: fetch it again.`);
    let header = null;
    try {
      header = JSON.parse(new TextDecoder().decode(await source.slice(8, 8 + length)));
    } catch {
      refuse(`${name} has a header that cannot be read: fetch it again.`);
    }
    const end = Object.values(header).reduce((last, { data_offsets: at }) => Math.max(last, at?.[1] ?? 0), 0);
    if (8 + length + end > size) {
      refuse(`${name} has ${size} of ${8 + length + end} bytes: fetch it again.`);
    }
    let read = 8 + length;

    /** The bytes of a tensor, read piece by piece. */
    async function bytes(tensor, tell = () => {}) {
      const [from, to] = header[tensor].data_offsets.map((at) => 8 + length + at);
      const made = new Uint8Array(to - from);
      for (let at = from; at < to; at += PIECE) {
        made.set(new Uint8Array(await source.slice(at, Math.min(to, at + PIECE))), at - from);
        tell((at - from) / (to - from));
      }
      read += to - from;
      return made.buffer;
    }
    return { name, size, bytes, tensors: header, read: () => read };
  }

  /** What reads the tensors of a file by name, without the prefix that the file uses. */
  function reader(file, prefix) {
    function checked(tensor, shape, isOwn = false) {
      const found = file.tensors[prefix + tensor];
      if (!found) {
        refuse(`${file.name} has no tensor ${prefix}${tensor}, so the model's first layer is not in it.`);
      }
      if (!(found.dtype in WIDTH) || (!isOwn && found.dtype.startsWith("I"))) {
        refuse(`${file.name} is quantised (${prefix}${tensor} is stored as ${found.dtype}): give F32, F16 or BF16.`);
      }
      if (found.shape.join() !== shape.map((n, i) => n ?? found.shape[i]).join()) {
        refuse(`${prefix}${tensor} in ${file.name} has the shape ${found.shape.join(" × ")} where config.json `
          + `asks for ${shape.map((n) => n ?? "any").join(" × ")}: give the two files of one model.`);
      }
      return found;
    }
    async function get(tensor, ...shape) {
      const { dtype } = checked(tensor, shape);
      const values = decoded(dtype, await file.bytes(prefix + tensor));
      if (values.some((value) => !Number.isFinite(value))) {
        refuse(`${prefix}${tensor} in ${file.name} holds values that are no finite numbers: fetch it again.`);
      }
      return values;
    }
    const has = (tensor) => prefix + tensor in file.tensors;
    /** A linear layer as [in, column]: it is stored the other way round. */
    async function linear(tensor, inside, outside, bias) {
      checked(`${tensor}.weight`, [outside, inside]);
      const stored = await get(`${tensor}.weight`, outside, inside);
      const turned = Float32Array.from(stored, (_, at) => stored[(at % outside) * inside + Math.floor(at / outside)]);
      return [turned, bias ? await get(`${tensor}.bias`, outside) : null];
    }
    const norm = async (tensor, d) => {
      const [gain, shift] = has(`${tensor}.gamma`) ? ["gamma", "beta"] : ["weight", "bias"];
      return { gamma: await get(`${tensor}.${gain}`, d), beta: await get(`${tensor}.${shift}`, d) };
    };
    return { checked, get, has, linear, norm };
  }

  // ---- Families ----------------------------------------------------------------------------------

  const split = (flat, d) => Array.from({ length: flat.length / d }, (_, i) => flat.subarray(i * d, (i + 1) * d));

  /** Some columns of a matrix of rows of `width` numbers. */
  const columns = (flat, width, from, to) => Float32Array.from(
    { length: (flat.length / width) * (to - from) },
    (_, at) => flat[Math.floor(at / (to - from)) * width + from + (at % (to - from))]);

  /** How far each pair of coordinates turns from one position to the next. */
  function frequenciesOf(config, width) {
    const how = { ...config.rope_scaling, ...config.rope_parameters };
    const kind = how.rope_type ?? how.type ?? "default";
    if (kind !== "default") refuse(`The page does not know how this model stretches its positions (${kind}).`);
    const theta = how.rope_theta ?? config.rope_theta ?? 1e4;
    return Float64Array.from({ length: width / 2 }, (_, i) => theta ** ((-2 * i) / width));
  }

  /** By model_type: prefixes, a tensor that tells which is in use, the embeddings, and the rest. */
  const FAMILIES = {
    gpt2: {
      prefixes: ["transformer.", ""], anchor: "wpe.weight", tokens: "wte.weight", d: "n_embd",
      async layer({ get, norm }, config, d) {
        const W = await get("h.0.attn.c_attn.weight", d, 3 * d);
        const b = await get("h.0.attn.c_attn.bias", 3 * d);
        return {
          ...await norm("h.0.ln_1", d), eps: config.layer_norm_epsilon ?? 1e-5, heads: config.n_head,
          scaled: config.scale_attn_weights ?? true,
          W_Q: columns(W, 3 * d, 0, d), W_K: columns(W, 3 * d, d, 2 * d), b_Q: b.slice(0, d), b_K: b.slice(d, 2 * d),
          positions: split(await get("wpe.weight", config.n_positions ?? config.n_ctx ?? null, d), d),
        };
      },
    },
    bert: {
      prefixes: ["bert.", ""], anchor: "embeddings.position_embeddings.weight",
      tokens: "embeddings.word_embeddings.weight", d: "hidden_size",
      async layer({ get, linear, norm }, config, d) {
        const [W_Q, b_Q] = await linear("encoder.layer.0.attention.self.query", d, d, true);
        const [W_K, b_K] = await linear("encoder.layer.0.attention.self.key", d, d, true);
        const type = await get("embeddings.token_type_embeddings.weight", config.type_vocab_size ?? null, d);
        const rows = await get("embeddings.position_embeddings.weight", config.max_position_embeddings, d);
        return {
          ...await norm("embeddings.LayerNorm", d), eps: config.layer_norm_eps ?? 1e-12,
          heads: config.num_attention_heads, causal: Boolean(config.is_decoder), W_Q, W_K, b_Q, b_K,
          positions: split(rows, d).map((row) => row.map((x, i) => x + type[i])),
        };
      },
    },
    llama: {
      prefixes: ["model.", ""], anchor: "embed_tokens.weight", tokens: "embed_tokens.weight", d: "hidden_size",
      async layer({ get, has, linear }, config, d) {
        const at = "layers.0.self_attn";
        if (has(`${at}.q_norm.weight`)) refuse("This model norms its queries and keys, which the page does not compute.");
        const heads = config.num_attention_heads;
        const keyHeads = config.num_key_value_heads ?? heads;
        const width = config.head_dim ?? d / heads;
        const [W_Q, b_Q] = await linear(`${at}.q_proj`, d, heads * width, has(`${at}.q_proj.bias`));
        const [W_K, b_K] = await linear(`${at}.k_proj`, d, keyHeads * width, has(`${at}.k_proj.bias`));
        return {
          gamma: await get("layers.0.input_layernorm.weight", d), norm: "rms", eps: config.rms_norm_eps ?? 1e-6,
          heads, keyHeads, W_Q, W_K, b_Q, b_K, positionsAre: "rotary", frequencies: frequenciesOf(config, width),
          window: config.sliding_window && config.model_type === "mistral" ? config.sliding_window : null,
          places: config.max_position_embeddings ?? 2048,
        };
      },
    },
    // What comes with the page: the package has read it.
    lnattn: {
      prefixes: [""], anchor: "gamma", tokens: "W_E", d: "d",
      async layer({ get, has }, config, d) {
        const names = ["gamma", "beta", "W_Q", "b_Q", "W_K", "b_K", "q0", "k0", "frequencies"].filter(has);
        const found = await Promise.all(names.map((name) => get(name, ...(name.startsWith("W") ? [d, null] : [null]))));
        const positions = has("positions") ? split(await get("positions", null, d), d) : null;
        return { ...config, positions, ...Object.fromEntries(names.map((name, i) => [name, found[i]])) };
      },
    },
  };
  FAMILIES.mistral = FAMILIES.qwen2 = FAMILIES.llama;

  /** The first layer of an open file, folded, and its config; and what reads its embeddings. */
  async function layerOf(file, config) {
    if (!config) refuse(`Give the config.json of ${file.name} with it.`);
    const kind = Object.hasOwn(FAMILIES, config.model_type) ? FAMILIES[config.model_type] : null;
    if (!kind) {
      const known = Object.keys(FAMILIES).filter((name) => name !== "lnattn").join(", ");
      refuse(`The page does not read models of the type ${config.model_type}; it reads ${known}.`);
    }
    if (config.quantization_config) refuse(`${file.name} is quantised: give F32, F16 or BF16.`);
    const prefix = kind.prefixes.find((one) => one + kind.anchor in file.tensors);
    if (prefix === undefined) {
      refuse(`${file.name} has no tensor ${kind.anchor}, so the first layer of a ${config.model_type} is not in it.`);
    }
    const from = reader(file, prefix);
    const d = config[kind.d];
    const own = await kind.layer(from, config, d);
    if (!(own.heads > 0) || own.W_Q.length % (d * own.heads)) {
      refuse(`config.json asks for ${own.heads} heads of a width of ${d}: give the two files of one model.`);
    }
    const layer = lnattnFirstLayer.fold({
      d, norm: "layer", positionsAre: "learned", keyHeads: own.heads, causal: true, window: null, ...own,
    });
    layer.scale ??= own.scaled ?? true ? Math.sqrt(layer.width) : 1;
    return { config, layer, prefix, tokens: prefix + kind.tokens };
  }

  /** The token embeddings: { size, rows(first, count) }, held as they are stored. */
  async function embeddingsOf(file, tensor, d, vocab, tell) {
    const { dtype, shape } = reader(file, "").checked(tensor, [vocab ?? null, d], `${tensor}.scale` in file.tensors);
    const [from, to] = file.tensors[tensor].data_offsets;
    if (to - from > LARGEST) refuse(`The embeddings of ${file.name} are too large for a page (${to - from} bytes).`);
    const bytes = await file.bytes(tensor, tell);
    const scales = dtype === "I8" ? decoded("F32", await file.bytes(`${tensor}.scale`)) : null;
    function rows(first, count) {
      const made = decoded(dtype, bytes, first * d * WIDTH[dtype], count * d);
      return scales ? made.map((value, at) => value * scales[first + Math.floor(at / d)]) : made;
    }
    return { size: shape[0], rows };
  }

  return { decoded, embeddingsOf, layerOf, ofBlob, open, refuse };
})();
