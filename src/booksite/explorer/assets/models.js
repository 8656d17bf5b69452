/* The model that all tools of the page show: one that comes with it, or one that a reader opened. */
"use strict";

globalThis.lnattnModels = (() => {
  const { load, partOf, state } = lnattnExplorer;
  const { embeddingsOf, layerOf } = lnattnCheckpoint;
  const { decoded, ofBlob, open, openTogether, refuse } = lnattnSafetensors;
  const { fromMerges, tokenizer } = lnattnTokenizer;
  const { longestText, strongest, termsOf, termsOfParts, vocabulary } = lnattnFirstLayer;

  /** What `compute` gives, computed when first asked for; a failure is forgotten. */
  function once(compute) {
    let promise = null;
    return () => (promise ??= compute().catch((error) => {
      promise = null;
      throw error;
    }));
  }

  // ---- Models that come with the page --------------------------------------------------------------

  const packed = async (bytes, name) => open(ofBlob(new Blob([await bytes]), name));

  const aboutOf = (file) => JSON.parse(file.about.about); // the settings, as JSON

  async function shipped(one) {
    const part = partOf(one);
    const file = await packed(part("layer"), "layer");
    const about = aboutOf(file);
    const { layer } = await layerOf(file, { model_type: "lnattn", ...about });
    const embeddings = once(async () => embeddingsOf(await packed(part("rows"), "rows"), "W_E", layer.d));
    const words = once(async () => tokenizer(await part("tokenizer"), about.vocab, about.begin));
    return { one, layer, vocab: about.vocab, embeddings, words };
  }

  // ---- A reader's own ------------------------------------------------------------------------------

  const opened = [];

  const idOf = (value) => (Number.isSafeInteger(value) && value >= 0 ? value : null);

  /** The files of a model, read: its first layer, embeddings and tokenizer. tell(share of it). */
  async function openSources(sources, { config = null, words = null, name = sources[0].name } = {}, tell = () => {}) {
    const begun = performance.now();
    const file = sources.length > 1 ? await openTogether(sources) : await open(sources[0]);
    const found = await layerOf(file, config);
    const { layer } = found;
    const held = await embeddingsOf(file, found.tokens, layer.d, found.settings.whole("vocab_size", null), tell);
    if (!words && held.size !== 50257) {
      refuse(`${file.name} has ${held.size} tokens, which are not GPT-2's: give its tokenizer.json with it.`);
    }
    const begin = found.config.model_type === "qwen2" ? null : idOf(found.config.bos_token_id);
    const read = await tokenizer(words ?? fromMerges(await load("gpt2")), held.size, begin);
    const all = await vocabulary(layer, held.rows, held.size);
    const one = { folder: `opened-${opened.length + 1}`, name, why: "opened by you" };
    const model = {
      one, layer, vocab: held.size, embeddings: async () => held, words: async () => read,
      vocabulary: async () => all,
    };
    opened.push(model);
    const facts = lnattnAbout.facts(name, found.config, { layer, vocab: held.size });
    return { ...model, facts, file, seconds: (performance.now() - begun) / 1000 };
  }

  /** The files that a reader dropped or chose, opened. */
  async function openFiles(files, tell) {
    const named = (pattern) => files.find(({ name }) => pattern.test(name));
    async function json(file) {
      try {
        return file && JSON.parse(await file.text());
      } catch {
        return refuse(`${file.name} is no JSON: fetch it again.`);
      }
    }
    const parts = files.filter(({ name }) => /\.safetensors$/.test(name));
    const other = named(/index\.json$/) ?? files.find(({ name }) => !/\.(json|txt)$/.test(name));
    const weights = parts.length ? parts : [other].filter(Boolean);
    if (!weights.length) refuse("Give the model's safetensors file, its config.json and its tokenizer.json.");
    const [config, words] = await Promise.all([/^config\.json$/, /^tokenizer\.json$/].map((name) => json(named(name))));
    const name = config?._name_or_path || weights[0].name;
    return openSources(weights.map((file) => ofBlob(file)), { config, words, name }, tell);
  }

  // ---- What the page shows -----------------------------------------------------------------------

  const models = new Map();

  /** The model that the address names, else the first; `missing`: the name, if there is none such. */
  async function current() {
    const all = await load("shared");
    const listed = [...opened.map(({ one }) => one), ...all.models];
    const asked = state().model;
    const one = listed.find(({ folder }) => folder === asked) ?? all.models[0];
    if (!one) throw new Error(all.absent.map(({ name, why }) => `${name}: ${why}`).join(" "));
    if (!models.has(one.folder)) {
      const own = opened.find((model) => model.one === one);
      const promise = own ? Promise.resolve(own) : shipped(one);
      models.set(one.folder, promise);
      promise.catch(() => models.delete(one.folder));
    }
    const model = await models.get(one.folder);
    model.vocabulary ??= once(async () => {
      const { rows, size } = await model.embeddings();
      return vocabulary(model.layer, rows, size);
    });
    return { ...model, all, listed, missing: asked && one.folder !== asked ? asked : null };
  }

  /** Where the first sentence opens, in a model in which a head shows something at a glance: York and New. */
  const SHOWN = { minilm: { head: 5, query: 5 } };

  /** The first sentence in a model that comes with its queries and keys; without a name, the first such. */
  async function opening(folder) {
    const all = await load("shared");
    const one = all.models.find((model) => model.opening && (!folder || model.folder === folder));
    if (!one) throw new Error(`${folder ?? "the embedded model"} is not in this build`);
    const file = await packed(partOf(one)("opening"), "opening");
    const { text, tokens, ...layer } = aboutOf(file);
    const [queries, keys] = [{}, {}];
    for (const [name, { dtype }] of file.tensors) {
      const flat = decoded(dtype, await file.bytes(name));
      const width = flat.length / tokens.length;
      layer.width = width / layer.heads;
      (name[0] === "q" ? queries : keys)[name.slice(2)] = tokens.map((_, i) => flat.subarray(i * width, (i + 1) * width));
    }
    const terms = termsOfParts(layer, [queries, keys]);
    const view = Object.hasOwn(SHOWN, one.folder) ? SHOWN[one.folder] : strongest(layer, terms);
    return { all, one, layer, terms, text, tokens, first: view, cut: 0 };
  }
  const openings = new Map();
  function first(folder) {
    if (!openings.has(folder)) openings.set(folder, once(() => opening(folder)));
    return openings.get(folder)();
  }

  /** The ids that the address names one by one, if each is a token; else null. */
  function idsAsked(vocab) {
    const ids = (state().ids ?? "").split(".");
    return ids.every((id) => /^\d+$/.test(id) && Number(id) < vocab) ? ids.map(Number) : null;
  }

  /** The sentence of the address in the model of the address: its tokens and its terms. */
  async function sentence() {
    const model = await current();
    const { all, layer, one, vocab } = model;
    const given = idsAsked(vocab);
    const asked = state().text ?? all.text;
    if (!given && one.opening && asked === all.text) return { ...model, ...await first(one.folder) };
    const { tokens, encode, ends } = await model.words();
    if (!given && !encode) refuse(`The tokenizer.json of ${one.name} is neither byte-level BPE nor WordPiece, so the page can read no sentence with it.`);
    const { rows } = await model.embeddings();
    if (layer.positionsAre === "rotary" && !layer.q0) await model.vocabulary();
    const ids = given ?? encode(asked);
    const text = given ? given.map((id) => tokens[id]).join("") : asked;
    const most = longestText(layer, all.longest);
    const kept = ids.length > most ? [...ids.slice(0, most - ends[1]), ...ids.slice(ids.length - ends[1])] : ids;
    const terms = termsOf(layer, kept.map((id) => rows(id, 1)));
    const view = { first: strongest(layer, terms), cut: ids.length - kept.length };
    return { ...model, ...view, text, isGiven: Boolean(given), ids: kept, tokens: kept.map((id) => tokens[id]), terms };
  }

  return { current, first, openFiles, sentence };
})();
