/* The token explorer, first part: choose a token, see its strongest partners in every head. */
"use strict";

(() => {
  const { chosen, go, load, make, mount, number, plain, tokenElement, unpack } = lnattnExplorer;
  const MOST = 40; // suggestions listed at once

  // ---- Searching the vocabulary --------------------------------------------------------------

  /** Rows of the index whose token matches what was typed, best first; "#12" is the id 12. */
  function search(index, typed) {
    const text = typed.replaceAll("␣", " ").replaceAll("⏎", "\n");
    const id = /^#(\d+)$/.exec(text);
    if (id) {
      const row = index.ids ? index.ids.indexOf(Number(id[1])) : Number(id[1]);
      if (row >= 0 && row < index.tokens.length) return [row];
    }
    const small = text.toLowerCase();
    const groups = [[], [], [], [], []];
    index.tokens.forEach((token, row) => {
      const lower = token.toLowerCase();
      if (token === text) groups[0].push(row);
      else if (lower.trim() === small.trim() && small.trim()) groups[1].push(row);
      else if (lower.startsWith(small)) groups[2].push(row);
      else if (lower.trimStart().startsWith(small)) groups[3].push(row);
      else if (lower.includes(small)) groups[4].push(row);
    });
    return groups.flat();
  }

  /** A combobox with a list of suggestions, as the ARIA authoring practices describe it. */
  function combobox(id, onChoice) {
    let index = null;
    let rows = [];
    let active = -1;
    let edited = false; // the reader has typed something that is not chosen yet
    const list = make("ul", { id: `${id}-list`, role: "listbox", "aria-label": "Tokens", hidden: "" });
    const count = make("p", { class: "visually-hidden", role: "status" });
    const input = make("input", {
      id, type: "text", role: "combobox", autocomplete: "off", autocapitalize: "off",
      spellcheck: "false", "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": `${id}-list`, "aria-describedby": `${id}-hint`,
    });

    function close() {
      list.hidden = true;
      active = -1;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    }

    function open() {
      rows = search(index, input.value);
      active = -1;
      input.removeAttribute("aria-activedescendant");
      list.replaceChildren(...rows.slice(0, MOST).map((row, place) => make(
        "li",
        { id: `${id}-${place}`, role: "option", "aria-selected": "false", click: () => pick(place) },
        tokenElement(index.tokens[row]),
      )));
      const more = rows.length > MOST ? `, the first ${MOST} listed` : "";
      count.textContent = rows.length === 1 ? "1 token" : `${rows.length} tokens${more}`;
      list.hidden = !rows.length;
      input.setAttribute("aria-expanded", String(Boolean(rows.length)));
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
      if (rows.length === 0) return;
      const row = rows[Math.max(0, place)];
      close();
      edited = false;
      input.value = plain(index.tokens[row]); // at once, not when its data have arrived
      onChoice(row);
      input.select();
    }

    input.addEventListener("focus", () => input.select());
    input.addEventListener("input", () => {
      edited = true;
      if (index) open();
    });
    input.addEventListener("keydown", (event) => {
      if (!index || event.isComposing) return;
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
      edited = false;
      close();
    });
    return {
      elements: [input, list, count],
      set(newIndex, row) {
        index = newIndex;
        if (document.activeElement !== input || (list.hidden && !edited)) {
          input.value = plain(index.tokens[row]);
        }
      },
    };
  }

  // ---- One token -----------------------------------------------------------------------------

  const idOf = (index, row) => (index.ids ? index.ids[row] : row);

  /** Where a token id has its own view, or -1. */
  function rowOf(index, id) {
    return index.ids ? index.ids.indexOf(id) : id;
  }

  /** A token as a button that leads to its view, or as mere text where it has none. */
  function link(index, names, id) {
    const row = rowOf(index, id);
    const text = row >= 0 ? index.tokens[row] : names[id];
    if (row < 0) return tokenElement(text);
    const label = `Show ${plain(text)}`;
    const open = () => go({ token: id }, true);
    return make("button", { type: "button", title: label, click: open }, tokenElement(text));
  }

  /** The partners of one head and side, best first, with the bigrams among them. */
  function partnerList(index, shard, place, side, head) {
    const { ranks, heads, decimals } = index;
    const bigrams = new Map();
    const flat = shard.bigrams[place];
    for (let i = 0; i < flat.length; i += 2) bigrams.set(flat[i], flat[i + 1]);
    return Array.from({ length: ranks }, (_, rank) => {
      const within = (side * heads + head) * ranks + rank;
      const at = place * 2 * heads * ranks + within;
      const score = shard.unpacked.scores[at] / 10 ** decimals;
      const times = bigrams.get(within);
      const width = (100 * Math.max(0, score)) / index.largest;
      return make(
        "li", {},
        make("span", { class: "bar", style: `width: ${width.toFixed(1)}%`, "aria-hidden": "true" }),
        link(index, shard.names, shard.unpacked.ids[at]),
        times
          ? make("span", { class: "times", title: `next to each other ${times} times` }, `${times}×`)
          : "",
        make("span", { class: "score" }, number(score, decimals)),
      );
    });
  }

  function headCard(index, shard, place, head) {
    const [mean, low, high] = index.auroc[head];
    const own = shard.auroc[place][head];
    const said = own === undefined ? "undefined for this token" : `${own.toFixed(3)} for this token`;
    return make(
      "section", { class: "head", "aria-label": `Head ${head}` },
      make("h3", {}, `Head ${head}`),
      make("p", { class: "auroc" },
        make("span", {}, `AUROC ${said}`),
        ` (mean ${mean.toFixed(3)}, 95 % interval ${low.toFixed(3)}–${high.toFixed(3)})`),
      make("h4", {}, "As a query, it looks for"),
      make("ol", {}, ...partnerList(index, shard, place, 0, head)),
      make("h4", {}, "As a key, it is looked for by"),
      make("ol", {}, ...partnerList(index, shard, place, 1, head)),
    );
  }

  function neighbourList(index, shard, title, flat) {
    const items = [];
    for (let i = 0; i < flat.length; i += 2) {
      items.push(make("li", {}, link(index, shard.names, flat[i]), ` ${flat[i + 1]}×`));
    }
    const nothing = make("p", {}, "nothing");
    return make("div", {}, make("h4", {}, title), items.length ? make("ul", {}, ...items) : nothing);
  }

  function tokenView(index, shard, row) {
    const place = row % index.perShard;
    const token = index.tokens[row];
    const times = shard.count[place].toLocaleString("en");
    const corpus = index.about.counted.toLocaleString("en");
    return [
      make("h3", { class: "chosen" }, tokenElement(token)),
      make("p", {}, `Token ${idOf(index, row)}. It occurs ${times} times in ${corpus} tokens `
        + `(${index.about.counts}), after ${shard.kinds[place]} different tokens.`),
      make("div", { class: "neighbours" },
        neighbourList(index, shard, "Most often before it", shard.before[place]),
        neighbourList(index, shard, "Most often after it", shard.after[place])),
      make("div", { class: "heads" },
        ...index.auroc.map((_, head) => headCard(index, shard, place, head))),
    ];
  }

  // ---- The page ------------------------------------------------------------------------------

  mount("heads", (place) => {
    let index = null;
    const select = make("select", {
      id: "explorer-model",
      change: () => go({ model: select.value, token: "", query: "", head: "" }, true),
    });
    const box = combobox("explorer-token", (row) => go({ token: idOf(index, row) }, true));
    const random = make("button", {
      type: "button",
      click: () => go({ token: idOf(index, Math.floor(Math.random() * index.tokens.length)) }, true),
    }, "A random token");
    const about = make("p", { class: "about" });
    const told = make("p", { class: "visually-hidden", role: "status" });
    const view = make("div", { class: "view" });
    place.replaceChildren(
      make("div", { class: "controls" },
        make("div", {}, make("label", { for: "explorer-model" }, "Model"), select),
        make("div", { class: "search" },
          make("label", { for: "explorer-token" }, "Token"), ...box.elements),
        random),
      make("p", { id: "explorer-token-hint", class: "hint" },
        "Type a part of a token (␣ is a space), or # and its number; choose with the arrow keys."),
      about, told, view,
    );

    return async ({ all, one, missing, index: found, part }, isLatest) => {
      if (!one) {
        const why = all.absent.map(({ name, why: reason }) => `${name}: ${reason}`).join(" ");
        view.replaceChildren(make("p", {}, `No model of this build can be explored. ${why}`));
        return;
      }
      const first = found.ids ? found.ids[found.start] : found.start;
      const id = chosen("token", found.vocab, first);
      const row = Math.max(rowOf(found, id), 0);
      const shard = await part(`shard-${Math.floor(row / found.perShard)}`);
      if (!isLatest()) return;
      index = found;
      shard.unpacked ??= {
        ids: unpack(shard.ids, index.wide ? "getUint32" : "getUint16"),
        scores: unpack(shard.scores, "getInt16"),
      };
      select.replaceChildren(...all.models.map((model) => make(
        "option", { value: model.folder, selected: model.folder === one.folder && "" }, model.name)));
      const some = index.ids ? `the ${index.tokens.length.toLocaleString("en")} most frequent of ` : "";
      const lost = missing === null ? "" : "The address names a model that this build lacks. ";
      about.textContent = `${lost}${index.about.name} (${one.why}), weights ${index.about.weights}…: `
        + `${some}${index.vocab.toLocaleString("en")} tokens, ${index.heads} heads.`;
      box.set(index, row);
      view.replaceChildren(...tokenView(index, shard, row));
      told.textContent = `Shown: ${plain(index.tokens[row])}`;
    };
  });
})();
