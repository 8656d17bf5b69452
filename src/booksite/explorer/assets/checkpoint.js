/* The first layer of a checkpoint: those few tensors of a safetensors file, as its config.json says.
 *
 * What cannot be used is refused with one sentence.
 */
"use strict";

globalThis.lnattnCheckpoint = (() => {
  const { WIDTH, decoded, refuse } = lnattnSafetensors;
  const { settingsOf } = lnattnSettings;
  const PART = /-\d+-of-\d+\.safetensors/; // the name of a part of a sharded checkpoint
  const LARGEST = 8e8; // bytes of embeddings that a page may hold

  // ---- Tensors -----------------------------------------------------------------------------------

  /** What reads the tensors of a file by name, without the prefix that the file uses. */
  function reader(file, prefix) {
    const has = (tensor) => file.tensors.has(prefix + tensor);

    function checked(tensor, shape) {
      const entry = file.tensors.get(prefix + tensor);
      if (!entry) {
        const more = PART.test(file.name) ? ": give the other parts with it." : ".";
        refuse(`${file.name} has no tensor ${prefix}${tensor}, so the model's first layer is not in it${more}`);
      }
      if (!WIDTH.has(entry.dtype) || entry.dtype === "I8") {
        refuse(`${file.name} is quantised (${prefix}${tensor} is stored as ${entry.dtype}): give F64, F32, F16 or BF16.`);
      }
      const isFitting = entry.shape.length === shape.length
        && shape.every((n, i) => n === null || n === entry.shape[i]);
      if (!isFitting) {
        refuse(`${prefix}${tensor} in ${file.name} has the shape ${entry.shape.join(" × ")} where config.json `
          + `asks for ${shape.map((n) => n ?? "any").join(" × ")}: give the two files of one model.`);
      }
      return entry;
    }

    async function get(tensor, ...shape) {
      const { dtype } = checked(tensor, shape);
      const values = decoded(dtype, await file.bytes(prefix + tensor));
      if (values.some((value) => !Number.isFinite(value))) {
        refuse(`${prefix}${tensor} in ${file.name} holds values that are no finite numbers: fetch it again.`);
      }
      return values;
    }

    /** A linear layer as [in, column]: it is stored the other way round. */
    async function linear(tensor, inside, outside, hasBias) {
      const stored = await get(`${tensor}.weight`, outside, inside);
      const turned = Float32Array.from(stored, (_, at) => stored[(at % outside) * inside + Math.floor(at / outside)]);
      return [turned, hasBias ? await get(`${tensor}.bias`, outside) : null];
    }

    async function norm(tensor, d) {
      const [gain, shift] = has(`${tensor}.gamma`) ? ["gamma", "beta"] : ["weight", "bias"];
      return { gamma: await get(`${tensor}.${gain}`, d), beta: await get(`${tensor}.${shift}`, d) };
    }

    return { checked, get, has, linear, norm };
  }

  const split = (flat, d) => Array.from({ length: flat.length / d }, (_, i) => flat.subarray(i * d, (i + 1) * d));

  /** Some columns of a matrix of rows of `width` numbers. */
  const columns = (flat, width, from, to) => Float32Array.from(
    { length: (flat.length / width) * (to - from) },
    (_, at) => flat[Math.floor(at / (to - from)) * width + from + (at % (to - from))]);

  // ---- Families ----------------------------------------------------------------------------------

  /** The width of a head; refuses a width that its heads do not share evenly. */
  function headWidth(d, heads) {
    if (d % heads) refuse(`config.json asks for ${heads} heads of a width of ${d}, which does not divide evenly.`);
    return d / heads;
  }

  /** How far each pair of coordinates turns from one position to the next. */
  function frequenciesOf(settings, width) {
    const how = settingsOf({ ...settings.part("rope_scaling"), ...settings.part("rope_parameters") });
    const kind = how.word("rope_type", how.word("type", "default"));
    if (kind !== "default") refuse(`The page does not know how this model stretches its positions (${kind}).`);
    const share = how.number("partial_rotary_factor", settings.number("partial_rotary_factor", 1));
    if (share !== 1) refuse("This model turns only a part of its queries and keys, which the page does not compute.");
    const theta = how.number("rope_theta", settings.number("rope_theta", 1e4));
    if (width % 2 || theta === 0) refuse("Rotary positions need heads of an even width and a base above 0.");
    return Float64Array.from({ length: width / 2 }, (_, i) => theta ** ((-2 * i) / width));
  }

  /** How many keys back the first layer of a decoder with windows sees; null: all. */
  function windowOf(settings, model) {
    if (model === "mistral") return settings.whole("sliding_window", null);
    if (model !== "qwen2" || !settings.flag("use_sliding_window", false)) return null;
    const kinds = settings.value("layer_types", null);
    const isLocal = Array.isArray(kinds) ? kinds[0] === "sliding_attention"
      : settings.number("max_window_layers", 28) === 0;
    return isLocal ? settings.whole("sliding_window", 4096) : null;
  }

  // Of two names for one size transformers takes the general one, whatever stands first.
  /** By model_type: prefixes, a tensor that tells which is in use, the embeddings, and the rest. */
  const FAMILIES = new Map(Object.entries({
    gpt2: {
      prefixes: ["transformer.", ""], anchor: "wpe.weight", tokens: "wte.weight", d: ["hidden_size", "n_embd"], isTied: true,
      async layer({ get, has, norm }, settings, d) {
        if (settings.flag("add_cross_attention", false)) {
          refuse("This model's blocks also attend to an encoder, which the page does not compute: give a plain decoder.");
        }
        if (settings.word("positions", "learned") !== "learned") {
          refuse("This GPT-2 has no learned positions, which the page does not compute.");
        }
        const heads = settings.whole(["num_attention_heads", "n_head"]);
        headWidth(d, heads);
        const W = await get("h.0.attn.c_attn.weight", d, 3 * d);
        const b = await get("h.0.attn.c_attn.bias", 3 * d);
        const places = settings.whole(["max_position_embeddings", "n_positions", "n_ctx"], null);
        const output = "h.0.attn.c_proj.bias";
        return {
          more: { values: b.slice(2 * d), output: has(output) ? await get(output, d) : null },
          ...await norm("h.0.ln_1", d), eps: settings.number("layer_norm_epsilon", 1e-5), heads,
          isScaled: settings.flag("scale_attn_weights", true),
          W_Q: columns(W, 3 * d, 0, d), W_K: columns(W, 3 * d, d, 2 * d), b_Q: b.slice(0, d), b_K: b.slice(d, 2 * d),
          positions: split(await get("wpe.weight", places, d), d),
        };
      },
    },
    bert: {
      prefixes: ["bert.", ""], anchor: "embeddings.position_embeddings.weight",
      tokens: "embeddings.word_embeddings.weight", d: "hidden_size", isTied: false,
      async layer({ get, has, linear, norm }, settings, d) {
        const kind = settings.word("position_embedding_type", "absolute");
        if (kind !== "absolute") refuse(`This BERT has positions of the kind ${kind}, which the page does not compute.`);
        const heads = settings.whole("num_attention_heads");
        headWidth(d, heads);
        const [W_Q, b_Q] = await linear("encoder.layer.0.attention.self.query", d, d, true);
        const [W_K, b_K] = await linear("encoder.layer.0.attention.self.key", d, d, true);
        const type = await get("embeddings.token_type_embeddings.weight", settings.whole("type_vocab_size", 2), d);
        const rows = await get("embeddings.position_embeddings.weight", settings.whole("max_position_embeddings"), d);
        const [values, output] = ["self.value.bias", "output.dense.bias"].map((name) => `encoder.layer.0.attention.${name}`);
        return {
          more: { values: has(values) ? await get(values, d) : null, output: has(output) ? await get(output, d) : null },
          ...await norm("embeddings.LayerNorm", d), eps: settings.number("layer_norm_eps", 1e-12), heads,
          causal: settings.flag("is_decoder", false), W_Q, W_K, b_Q, b_K,
          positions: split(rows, d).map((row) => row.map((x, i) => x + type[i])),
        };
      },
    },
    llama: {
      prefixes: ["model.", ""], anchor: "layers.0.input_layernorm.weight", tokens: "embed_tokens.weight",
      d: "hidden_size", isTied: false,
      async layer({ get, has, linear }, settings, d) {
        const at = "layers.0.self_attn";
        if (has(`${at}.q_norm.weight`)) refuse("This model norms its queries and keys, which the page does not compute.");
        const heads = settings.whole("num_attention_heads");
        const keyHeads = settings.whole("num_key_value_heads", heads);
        if (heads % keyHeads) refuse(`config.json asks for ${heads} heads that share ${keyHeads} keys, which does not divide evenly.`);
        const width = settings.whole("head_dim", null) ?? headWidth(d, heads);
        const [W_Q, b_Q] = await linear(`${at}.q_proj`, d, heads * width, has(`${at}.q_proj.bias`));
        const [W_K, b_K] = await linear(`${at}.k_proj`, d, keyHeads * width, has(`${at}.k_proj.bias`));
        return {
          gamma: await get("layers.0.input_layernorm.weight", d), norm: "rms", eps: settings.number("rms_norm_eps", 1e-6),
          heads, keyHeads, W_Q, W_K, b_Q, b_K, positionsAre: "rotary", frequencies: frequenciesOf(settings, width),
          window: windowOf(settings, settings.word("model_type")),
          places: settings.whole("max_position_embeddings", 2048),
        };
      },
    },
    // What comes with the page: the package has read it.
    lnattn: {
      prefixes: [""], anchor: "gamma", tokens: "W_E", d: "d", isTied: false,
      async layer({ get, has }, _settings, d, about) {
        const names = ["gamma", "beta", "W_Q", "b_Q", "W_K", "b_K", "q0", "k0", "frequencies"].filter(has);
        const read = names.map((name) => get(name, ...(name.startsWith("W") ? [d, null] : [null])));
        const values = await Promise.all(read);
        const positions = has("positions") ? split(await get("positions", null, d), d) : null;
        return { ...about, positions, ...Object.fromEntries(names.map((name, i) => [name, values[i]])) };
      },
    },
  }));
  FAMILIES.set("mistral", FAMILIES.get("llama"));
  FAMILIES.set("qwen2", FAMILIES.get("llama"));

  /** Prefixes that wrappers put before a model's own names: compiled, parallel, with adapters. */
  const WRAPPERS = ["", "_orig_mod.", "module.", "base_model.model.", "pretrained_model."];

  function familyOf(settings) {
    const name = settings.word("model_type");
    const family = FAMILIES.get(name);
    if (!family) {
      const known = [...FAMILIES.keys()].filter((key) => key !== "lnattn").join(", ");
      refuse(`The page does not read models of the type ${name.slice(0, 60)}; it reads ${known}.`);
    }
    return family;
  }

  function prefixOf(file, { anchor, prefixes }, model) {
    const all = WRAPPERS.flatMap((wrapper) => prefixes.map((prefix) => wrapper + prefix));
    const prefix = all.find((start) => file.tensors.has(start + anchor));
    if (prefix === undefined) {
      const more = PART.test(file.name) ? ": give the other parts with it." : ".";
      refuse(`${file.name} has no tensor ${anchor}, so the first layer of a ${model} is not in it${more}`);
    }
    return prefix;
  }

  /** The name of the token embeddings: a file may hold a tied pair under its other name only. */
  function tokensOf(file, prefix, { tokens, isTied, prefixes }, settings) {
    if (file.tensors.has(prefix + tokens) || !settings.flag("tie_word_embeddings", isTied)) return prefix + tokens;
    const inner = prefixes.find((start) => start && prefix.endsWith(start)) ?? "";
    const tied = `${prefix.slice(0, prefix.length - inner.length)}lm_head.weight`;
    return file.tensors.has(tied) ? tied : prefix + tokens;
  }

  /** The first layer of an open file, folded, and its settings; and what its embeddings are called. */
  async function layerOf(file, config) {
    if (!config) refuse(`Give the config.json of ${file.name} with it.`);
    const settings = settingsOf(config);
    const family = familyOf(settings);
    if (settings.value("quantization_config", null) !== null) {
      refuse(`${file.name} is quantised: give F64, F32, F16 or BF16.`);
    }
    const prefix = prefixOf(file, family, settings.word("model_type"));
    const d = settings.whole(family.d);
    const { more, ...own } = await family.layer(reader(file, prefix), settings, d, config);
    const layer = lnattnFirstLayer.fold({
      d, norm: "layer", positionsAre: "learned", keyHeads: own.heads, causal: true, window: null, ...own,
    });
    // As they were before the norm went into them.
    const biases = { queries: own.b_Q, keys: own.b_K, ...more, norm: own.beta };
    layer.biases = Object.keys(biases).filter((name) => biases[name]?.some((value) => value !== 0));
    layer.scale ??= own.isScaled ?? true ? Math.sqrt(layer.width) : 1;
    return { config, layer, settings, tokens: tokensOf(file, prefix, family, settings) };
  }

  /** The token embeddings of a reader's file. */
  async function embeddingsOf(file, tensor, d, vocab, tell) {
    const { dtype, shape, from, to } = reader(file, "").checked(tensor, [vocab ?? null, d]);
    if (to - from > LARGEST) refuse(`The embeddings of ${file.name} are too large for a page (${to - from} bytes).`);
    if (!shape[0]) refuse(`The embeddings of ${file.name} are empty: fetch it again.`);
    return lnattnEmbeddings.whole({ d, dtype, bytes: await file.bytes(tensor, tell) }, shape[0]);
  }

  /** The positions of a file that holds nothing else. */
  const placesOf = async (file, d) => split(await reader(file, "").get("positions", null, d), d);

  return { embeddingsOf, layerOf, placesOf };
})();
