/* The model that all tools of the page show: one that comes with it, or one that a reader opened. */
"use strict";

globalThis.lnattnModels = (() => {
  const { isHere, load, state } = lnattnExplorer;
  const { embeddingsOf, layerOf, placesOf } = lnattnCheckpoint;
  const { aboutOf, inBlocks, requireEdition } = lnattnEmbeddings;
  const { decoded, ofBlob, open, openTogether, refuse } = lnattnSafetensors;
  const { fromMerges, tokenizer } = lnattnTokenizer;
  const { longestText, strongest, termsOf, termsOfParts, vocabulary } = lnattnFirstLayer;

  // ---- Models that come with the page --------------------------------------------------------------

  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

  /** What says how much of `what` is here while parts of it are on their way. */
  function meter(say, what) {
    const asked = new Map(); // bytes by part
    const arrived = new Set();
    function told() {
      const sum = (names) => [...names].reduce((all, name) => all + asked.get(name), 0);
      say(`Loading ${what}: ${megabytes(sum(arrived))} of ${megabytes(sum(asked.keys()))} MB …`);
    }
    function expect(parts) {
      for (const [name, bytes] of parts) asked.set(name, bytes);
      if (parts.length) told();
    }
    function arrive(name) {
      if (!asked.has(name)) return;
      arrived.add(name);
      told();
    }
    return { arrive, expect };
  }

  const fileOf = (bytes, name) => open(ofBlob(new Blob([bytes]), name));

  /** A model that comes with the page; its parts are loaded when they are first asked for. */
  function shipped(one) {
    const { bytes, folder, vocab, begin, version } = one;
    const nameOf = (name) => `${folder}/${name}`;
    const blockOf = (number) => `rows-${number}`;

    /** What read(value) makes of a part. */
    async function part(name, read, line, size = bytes[name]) {
      if (!isHere(nameOf(name))) line.expect([[name, size]]);
      const made = await load(nameOf(name), version, read);
      line.arrive(name);
      return made;
    }

    async function weightsOf(packed) {
      const file = await fileOf(packed, "layer");
      const { rows, ...about } = aboutOf(file);
      const { layer } = await layerOf(file, { model_type: "lnattn", ...about });
      const blocks = rows.order.map((number) => [blockOf(number), bytes.rows / rows.order.length]);
      const get = (number, take, line) =>
        part(blockOf(number), async (block) => take(await fileOf(block, "block")), line, blocks[0][1]);
      return { layer, blocks, edition: rows.edition, embeddings: inBlocks({ d: layer.d, size: vocab, ...rows }, get) };
    }
    const weights = (line) => part("layer", weightsOf, line);
    const words = (line) => part("tokenizer", (json) => tokenizer(json, vocab, begin), line);

    async function beyondOf(packed, { edition, layer }) {
      const file = await fileOf(packed, "places");
      requireEdition(file, edition);
      return placesOf(file, layer.d);
    }

    let all = null;
    /** What is known of all tokens, again and again while they come, these first. */
    async function* vocabularyOf(ids, line) {
      const held = await weights(line);
      const { blocks, embeddings, layer } = held;
      line.expect(blocks.filter(([name]) => !isHere(nameOf(name))));
      if (!all) {
        // No sentence reaches these positions, but σ is a mean over all.
        const beyond = bytes.places ? await part("places", (packed) => beyondOf(packed, held), line) : [];
        const positions = layer.positions && [...layer.positions, ...beyond];
        all ??= vocabulary({ ...layer, positions }, embeddings.rows, vocab);
      }
      for await (const [first, count] of embeddings.arriving(ids, line)) {
        await all.add(first, count);
        if (all.read() < vocab) yield all;
      }
      yield all;
    }
    return { weights, words, vocabulary: vocabularyOf };
  }

  // ---- A reader's own ------------------------------------------------------------------------------

  const opened = [];

  const idOf = (value) => (Number.isSafeInteger(value) && value >= 0 ? value : null);

  /** The files of a model, read: its first layer, embeddings and tokenizer. tell(share of it). */
  async function openSources(sources, { config, words, name: told }, tell = () => {}) {
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
    const all = vocabulary(layer, held.rows, held.size);
    await all.add(0, held.size);
    const listed = isHere("shared") ? (await load("shared")).models : [];
    const name = unlike(told || `yours, ${layer.heads} heads`, [...opened.map(({ one }) => one), ...listed].map((one) => one.name));
    const one = {
      folder: `opened-${opened.length + 1}`, name, why: "opened by you", heads: layer.heads, vocab: held.size,
    };
    opened.push({
      one, weights: async () => ({ layer, embeddings: held }), words: async () => read,
      async *vocabulary() {
        yield all;
      },
    });
    const facts = lnattnAbout.facts(name, found.config, { layer, vocab: held.size });
    const seconds = (performance.now() - begun) / 1000;
    return { one, layer, words: read, embeddings: held, vocabulary: all, facts, file, seconds };
  }

  const MOST = 60; // characters of a name

  /** The folder of a file that was chosen with its folder. */
  const folderOf = ({ webkitRelativePath: path = "" }) => path.split("/").at(-2) ?? "";

  /** What a config.json calls its model: a name on the hub, or the last part of a path on somebody's disk. */
  function lastOf(told) {
    if (typeof told !== "string") return "";
    const parts = told.split(/[/\\]/).filter((part) => part && !/^\.+$/.test(part));
    return /^[\w.-]+\/[\w.-]+$/.test(told) ? parts.join("/") : parts.at(-1) ?? "";
  }

  /** A name that no other model of the page has. */
  function unlike(name, others) {
    const short = Array.from(name).slice(0, MOST).join("");
    let free = short;
    for (let i = 2; others.includes(free); i++) free = `${short} (${i})`;
    return free;
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
    const told = folderOf(weights[0]) || lastOf(config?._name_or_path);
    return openSources(weights.map((file) => ofBlob(file)), { config, words, name: told }, tell);
  }

  // ---- What the page shows -----------------------------------------------------------------------

  /** The model that the address names, else the first; `missing`: the name, if there is none such. */
  async function named() {
    const all = await load("shared");
    const listed = [...opened.map(({ one }) => one), ...all.models];
    const asked = state().model;
    const one = listed.find(({ folder }) => folder === asked) ?? all.models[0];
    if (!one) throw new Error(all.absent.map(({ name, why }) => `${name}: ${why}`).join(" "));
    return { all, listed, one, missing: asked && one.folder !== asked ? asked : null };
  }

  const models = new Map();

  /** That model with its first layer and its tokenizer; `what`: what is loaded of it, for the line of say(words). */
  async function current(say = () => {}, what = "the first layer and the vocabulary") {
    const asked = await named();
    const { one } = asked;
    if (!models.has(one.folder)) models.set(one.folder, opened.find((model) => model.one === one) ?? shipped(one));
    const model = models.get(one.folder);
    const line = meter(say, `${what} of ${one.name}`);
    const [{ embeddings, layer }, words] = await Promise.all([model.weights(line), model.words(line)]);
    return {
      ...asked, embeddings, layer, line, words,
      vocabulary: (ids) => model.vocabulary(ids, line),
    };
  }

  /** Where the first sentence opens, in a model in which a head shows something at a glance: York and New. */
  const SHOWN = { minilm: { head: 5, query: 5 } };

  /** A sentence that comes with its queries and keys, in the model of this name or in the first such. */
  async function opening(folder, script) {
    const all = await load("shared");
    const one = all.models.find((model) => model.opening && (!folder || model.folder === folder));
    if (!one) throw new Error(`${folder ?? "the embedded model"} is not in this build`);
    const file = await load(`${one.folder}/${script}`, one.version, (packed) => fileOf(packed, script));
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
  async function first(folder, script = "opening") {
    const name = `${folder}/${script}`;
    const held = openings.get(name) ?? await opening(folder, script);
    openings.set(name, held);
    return held;
  }

  /** The ids that the address names one by one, if each is a token; else null. */
  function idsAsked(vocab) {
    const ids = (state().ids ?? "").split(".");
    return ids.every((id) => /^\d+$/.test(id) && Number(id) < vocab) ? ids.map(Number) : null;
  }

  /** The sentence of the address in the model of the address: its tokens and its terms. */
  async function sentence(say) {
    const asked = await named();
    const { all, one } = asked;
    const given = idsAsked(one.vocab);
    const typed = state().text ?? all.text;
    if (!given && one.opening && typed === all.text) return { ...asked, ...await first(one.folder) };
    const { embeddings, layer, line, words } = await current(say, "what this sentence needs");
    const { encode, ends, tokens } = words;
    if (!given && !encode) refuse(`The tokenizer.json of ${one.name} is neither byte-level BPE nor WordPiece, so the page can read no sentence with it.`);
    const ids = given ?? encode(typed);
    const text = given ? given.map((id) => tokens[id]).join("") : typed;
    const most = longestText(layer, all.longest);
    const kept = ids.length > most ? [...ids.slice(0, most - ends[1]), ...ids.slice(ids.length - ends[1])] : ids;
    await embeddings.need(kept, line);
    const terms = termsOf(layer, kept.map((id) => embeddings.rows(id, 1)));
    const view = { first: strongest(layer, terms), cut: ids.length - kept.length };
    return { ...asked, ...view, layer, text, isGiven: Boolean(given), ids: kept, tokens: kept.map((id) => tokens[id]), terms };
  }

  return { current, first, named, openFiles, sentence };
})();
