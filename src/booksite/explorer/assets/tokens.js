/* The explorer's vocabulary: searching it, and the facts of one token. */
"use strict";

globalThis.lnattnTokens = (() => {
  const { chosen, go, make, plain, state, tokenElement } = lnattnExplorer;
  const MOST = 40; // suggestions listed at once

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

  /** A box for a token, with the browser's own list of suggestions; Enter takes the best. */
  function tokenBox(id, label, onChoice) {
    let shown = ""; // the token that the page shows
    let listed = new Map(); // id by what a suggestion says
    const list = make("datalist", { id: `${id}-list` });
    const said = make("p", { class: "hint said", role: "status" });
    async function suggest() {
      said.textContent = "";
      listed = new Map();
      if (input.value) {
        const { tokens } = await (await lnattnModels.current()).words();
        const found = search(tokens, input.value);
        for (const token of found.slice(0, MOST)) listed.set(plain(tokens[token]), token);
        if (!found.length) said.textContent = `“${input.value}” is not in this list of tokens.`;
        else said.textContent = `${found.length} ${found.length === 1 ? "token" : "tokens"}`;
      }
      list.replaceChildren(...Array.from(listed.keys(), (value) => make("option", { value })));
    }
    async function take() {
      const typed = input.value;
      if (!typed || typed === shown) return; // an empty box names no token
      if (!listed.has(typed)) await suggest();
      const token = listed.get(typed) ?? listed.values().next().value;
      if (token !== undefined) onChoice(token);
    }
    const input = make("input", {
      id, type: "text", list: `${id}-list`, autocomplete: "off", spellcheck: "false",
      focus: () => input.select(),
      input: (event) => (listed.has(input.value) && event.inputType !== "insertText" ? take()
        : suggest().catch((error) => (said.textContent = error.message))),
      keydown: (event) => event.key === "Enter" && take(),
      blur: () => (input.value = shown), // the box never names another token than the one shown
    });
    return {
      element: make("div", { class: "search" }, make("label", { for: id }, label), input, list, said),
      set(text) {
        shown = plain(text);
        if (document.activeElement !== input || listed.has(input.value)) input.value = shown;
      },
    };
  }

  /** The id of the token that the address names, by its number or its text. */
  function asked(name, tokens, otherwise) {
    const text = state()[name] ?? "";
    if (text === "" || /^\d+$/.test(text)) return chosen(name, tokens.length, otherwise);
    const id = tokens.indexOf(text);
    return id < 0 ? otherwise : id;
  }

  /** A token as a button that leads to its view. */
  function link(text, id) {
    const label = `Show ${plain(text)}`;
    const open = () => go({ token: id, key: "" }, true);
    return make("button", { type: "button", title: label, click: open }, tokenElement(text));
  }

  /** What the text that comes with a model says of its neighbours: counts, and who stands before whom. */
  function factsOf(facts, id) {
    if (!facts) return null;
    const { count, at, key, times } = facts;
    const before = [];
    const after = [];
    for (let i = at[id]; i < at[id + 1]; i++) before.push([key[i], times[i]]);
    for (let query = 0, i = 0; i < key.length; i++) {
      while (i >= at[query + 1]) query++;
      if (key[i] === id) after.push([query, times[i]]);
    }
    const often = (a, b) => b[1] - a[1] || a[0] - b[0];
    return { count: count[id], before: before.sort(often), after: after.sort(often) };
  }

  return { asked, factsOf, link, tokenBox };
})();
