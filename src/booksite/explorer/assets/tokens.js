/* The explorer's vocabulary: searching it, the facts of one token, and all scores of a model. */
"use strict";

globalThis.lnattnTokens = (() => {
  const { chosen, go, make, plain, state, tokenElement } = lnattnExplorer;
  const { dot, embeddings, layer: readLayer, numbers, times } = lnattnFirstLayer;
  const MOST = 40; // suggestions listed at once
  // Widths in base64 digits, as `scripts.py` writes them.
  const [ID, COUNT, SCORE, AUROC] = [3, 3, 2, 2];

  // ---- Searching -----------------------------------------------------------------------------

  /** Ids of the tokens that match what was typed, best first; "#12" is the id 12. */
  function search(tokens, typed) {
    const text = typed.replaceAll("␣", " ").replaceAll("⏎", "\n");
    const id = /^#(\d+)$/.exec(text);
    if (id && Number(id[1]) < tokens.length) return [Number(id[1])];
    const small = text.toLowerCase();
    const groups = [[], [], [], [], []];
    tokens.forEach((token, row) => {
      const lower = token.toLowerCase();
      if (token === text) groups[0].push(row);
      else if (lower.trim() === small.trim() && small.trim()) groups[1].push(row);
      else if (lower.startsWith(small)) groups[2].push(row);
      else if (lower.trimStart().startsWith(small)) groups[3].push(row);
      else if (lower.includes(small)) groups[4].push(row);
    });
    return groups.flat();
  }

  /**
   * A combobox with a list of suggestions, as the ARIA authoring practices describe it.
   *
   * vocabulary(): a promise of all texts, asked for when the reader comes; onChoice(id).
   */
  function combobox(id, label, vocabulary, onChoice) {
    let tokens = null;
    let found = [];
    let active = -1;
    let shown = ""; // the text of the token that the page shows
    let edited = false; // the reader has typed something that is not chosen yet
    const list = make("ul", { id: `${id}-list`, role: "listbox", "aria-label": "Tokens", hidden: "" });
    const said = make("p", { class: "hint said", role: "status" });
    const input = make("input", {
      id, type: "text", role: "combobox", autocomplete: "off", autocapitalize: "off",
      spellcheck: "false", "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": `${id}-list`,
    });

    function close() {
      list.hidden = true;
      active = -1;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    }

    function open() {
      found = search(tokens, input.value);
      active = -1;
      input.removeAttribute("aria-activedescendant");
      list.replaceChildren(...found.slice(0, MOST).map((token, place) => make(
        "li",
        { id: `${id}-${place}`, role: "option", "aria-selected": "false", click: () => pick(place) },
        tokenElement(tokens[token]),
      )));
      const more = found.length > MOST ? `, the first ${MOST} listed` : "";
      if (!found.length) said.textContent = `“${input.value}” is not in this list of tokens.`;
      else said.textContent = found.length === 1 ? "1 token" : `${found.length} tokens${more}`;
      list.hidden = !found.length;
      input.setAttribute("aria-expanded", String(Boolean(found.length)));
    }

    function point(place) {
      const options = list.children;
      if (!options.length) return;
      options[active]?.setAttribute("aria-selected", "false");
      active = (place + options.length) % options.length;
      options[active].setAttribute("aria-selected", "true");
      options[active].scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", options[active].id);
    }

    function pick(place) {
      if (found.length === 0) return;
      const token = found[Math.max(0, place)];
      close();
      edited = false;
      said.textContent = "";
      shown = plain(tokens[token]);
      input.value = shown; // at once, not when its data have arrived
      onChoice(token);
      input.select();
    }

    /** Once the vocabulary is there. */
    async function ready() {
      if (!tokens) said.textContent = "Reading the vocabulary …";
      tokens = await vocabulary();
      if (said.textContent.startsWith("Reading")) said.textContent = "";
    }

    input.addEventListener("focus", () => {
      input.select();
      ready().catch((error) => (said.textContent = error.message));
    });
    input.addEventListener("input", async () => {
      edited = true;
      await ready();
      if (edited && document.activeElement === input) open();
    });
    input.addEventListener("keydown", (event) => {
      if (!tokens || event.isComposing) return;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        if (list.hidden) open();
        point(event.key === "ArrowDown" ? active + 1 : Math.max(active, 0) - 1);
      } else if (event.key === "Enter") {
        if (list.hidden) open();
        pick(active);
      } else if (event.key === "Escape") {
        if (list.hidden) input.value = "";
        close();
      } else if (event.key === "Tab") {
        close();
        return;
      } else return;
      event.preventDefault();
    });
    list.addEventListener("mousedown", (event) => event.preventDefault()); // the input keeps focus
    input.addEventListener("blur", () => {
      // The box never names another token than the one shown; what was not found stays said.
      if (edited) input.value = shown;
      edited = false;
      if (found.length) said.textContent = "";
      close();
    });
    return {
      element: make("div", { class: "search" }, make("label", { for: id }, label), input, list, said),
      /** Another token is shown, perhaps of another model. */
      set(text, isOtherModel) {
        if (isOtherModel) tokens = null;
        shown = plain(text);
        if (document.activeElement !== input || (list.hidden && !edited)) input.value = shown;
      },
    };
  }

  /** The id of the token that the address names, by its number or its text. */
  async function asked(name, index, part, otherwise) {
    const text = state()[name] ?? "";
    if (text === "" || /^\d+$/.test(text)) return chosen(name, index.vocab, otherwise);
    const id = (await part("tokens")).indexOf(text);
    return id < 0 ? otherwise : id;
  }

  /** A token as a button that leads to its view. */
  function link(text, id) {
    const label = `Show ${plain(text)}`;
    const open = () => go({ token: id, key: "" }, true);
    return make("button", { type: "button", title: label, click: open }, tokenElement(text));
  }

  // ---- The facts of a token --------------------------------------------------------------------

  /** Pairs of an id and a number of `width` digits. */
  function pairs(text, width) {
    const step = ID + width;
    return Array.from({ length: text.length / step }, (_, i) => [
      numbers(text.slice(i * step, i * step + ID), ID)[0],
      numbers(text.slice(i * step + ID, (i + 1) * step), width)[0],
    ]);
  }

  /** Lists of partners by head: [{id, score}], best first; null where there is none. */
  function partners(index, text) {
    if (!text) return null;
    const middle = 64 ** SCORE / 2;
    const all = pairs(text, SCORE).map(([id, share]) =>
      ({ id, score: ((share - middle) / (middle - 1)) * index.largest }));
    const most = all.length / index.heads;
    return Array.from({ length: index.heads }, (_, head) =>
      all.slice(head * most, (head + 1) * most));
  }

  /** All that a shard says of one token. */
  async function factsOf(index, part, id) {
    const shard = await part(`shard-${Math.floor(id / index.perShard)}`);
    const place = id % index.perShard;
    const ofHeads = (text, width) => text ? numbers(text, width) : null;
    return {
      id,
      count: shard.count[place],
      kinds: shard.kinds[place],
      before: pairs(shard.before[place], COUNT),
      after: pairs(shard.after[place], COUNT),
      auroc: ofHeads(shard.auroc[place], AUROC)?.map((value) => value / 1000) ?? null,
      // Of the usual predecessor; null where there is none, or where the browser has to find it.
      mainRank: ofHeads(shard.rank[place], ID),
      // A rarer token has no lists.
      keys: partners(index, shard.keys?.[place]),
      queries: partners(index, shard.queries?.[place]),
    };
  }

  // ---- All scores of a model whose embeddings the browser has -----------------------------------

  const scored = new Map(); // folder → promise

  /** T^ee of all pairs at the mean σ: of(query, key, head), best(…), rank(…). */
  function scores(one, part, vocab, onProgress = () => {}) {
    if (!scored.has(one.folder)) scored.set(one.folder, compute(part, vocab, onProgress));
    const promise = scored.get(one.folder);
    promise.catch(() => scored.delete(one.folder)); // so that a second try loads it again
    return promise;
  }

  async function compute(part, vocab, onProgress) {
    const layer = readLayer(await part("layer"));
    const { heads, width } = layer;
    const size = heads * width;
    const queries = new Float32Array(vocab * size);
    const keys = new Float32Array(vocab * size);
    const shards = Math.ceil(vocab / layer.perShard);
    const loading = Array.from({ length: shards }, (_, i) => part(`rows-${i}`));
    for (const [number, promise] of loading.entries()) {
      const shard = await promise;
      embeddings(layer, shard).forEach((unit, i) => {
        const at = (number * layer.perShard + i) * size;
        queries.set(times(unit, layer.W_Q), at);
        keys.set(times(unit, layer.W_K), at);
      });
      onProgress((number + 1) / shards);
      if (number % 4 === 3) await new Promise((done) => setTimeout(done)); // the page stays alive
    }
    function of(query, key, head) {
      const from = query * size + head * width;
      return dot(queries, keys, from, from + width, (key - query) * size);
    }
    const row = (head, token, asQuery) => Float64Array.from({ length: vocab }, (_, other) =>
      asQuery ? of(token, other, head) : of(other, token, head));
    function best(head, token, most, asQuery) {
      const all = row(head, token, asQuery);
      const order = Array.from(all.keys()).sort((a, b) => all[b] - all[a] || a - b);
      return order.slice(0, most).map((id) => ({ id, score: all[id] }));
    }
    function rank(head, query, key) {
      const all = row(head, query, true);
      return 1 + all.reduce((above, score) => above + (score > all[key]), 0);
    }
    return { best, of, rank };
  }

  /** The rank of a token's usual predecessor in every head; null where none is usual. */
  function mainRanks(index, facts, all) {
    const [main, count] = facts.before[0] ?? [];
    if (!(count >= index.leastCount)) return null;
    return index.auroc.map((_, head) => all.rank(head, facts.id, main));
  }

  return { asked, combobox, factsOf, link, mainRanks, scores, search };
})();
