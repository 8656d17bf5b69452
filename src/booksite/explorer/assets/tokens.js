/* The explorer's vocabulary: searching it, and choosing one token. */
"use strict";

globalThis.lnattnTokens = (() => {
  const { chosen, go, make, plain, state, tokenElement } = lnattnExplorer;
  const MOST = 40; // suggestions listed at once

  // ---- Searching -----------------------------------------------------------------------------

  const BLOCK = 4096; // tokens looked at between two pauses
  const lowered = new WeakMap(); // a vocabulary in small letters

  async function smallLetters(tokens, rest) {
    if (!lowered.has(tokens)) {
      const small = [];
      for (const [id, token] of tokens.entries()) {
        small.push(token.toLowerCase());
        if (id % BLOCK === 0) await rest();
      }
      lowered.set(tokens, small);
    }
    return lowered.get(tokens);
  }

  /** How well a token fits what was typed: 0 is best; −1: not at all. */
  function fitOf(token, lower, text, small) {
    if (!lower.includes(small.trim())) return -1;
    if (token === text) return 0;
    if (lower.trim() === small.trim()) return 1;
    if (lower.trimStart().startsWith(small.trimStart())) return 2;
    return lower.includes(small) ? 3 : -1;
  }

  /** Ids of the tokens that match what was typed, best first; "#12" is the id 12. */
  async function search(tokens, typed) {
    const text = typed.replaceAll("␣", " ").replaceAll("⏎", "\n");
    const id = /^#(\d+)$/.exec(text);
    if (id && Number(id[1]) < tokens.length) return [Number(id[1])];
    const rest = lnattnExplorer.breath();
    const lower = await smallLetters(tokens, rest);
    const small = text.toLowerCase();
    const groups = [[], [], [], []];
    for (const [token, name] of tokens.entries()) {
      groups[fitOf(name, lower[token], text, small)]?.push(token);
      if (token % BLOCK === 0) await rest();
    }
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
        const { tokens } = (await lnattnModels.current()).words;
        const typed = input.value;
        const found = await search(tokens, typed);
        if (typed !== input.value) return; // another letter came meanwhile, and asks again
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
        shown = text === undefined ? "" : plain(text);
        if (document.activeElement !== input || listed.has(input.value)) input.value = shown;
      },
    };
  }

  // Where the address names no token: the first of these pairs that a vocabulary has.
  const START = [["iens", " sap"], ["jackson", "michael"], [" Angeles", " Los"]];

  /** The id of the token, or of the key, that the address names, by its number or its text; −1: no key. */
  function asked(name, tokens) {
    const text = state()[name] ?? "";
    const id = /^\d+$/.test(text) ? chosen(name, tokens.length, -1) : tokens.indexOf(text || null);
    if (id >= 0 || (name === "key" && state().token)) return id;
    const [token, key] = START.find((pair) => pair.every((one) => tokens.includes(one))) ?? ["", ""];
    return Math.max(0, tokens.indexOf(name === "token" ? token : key));
  }

  /** A token as a button that leads to its view, or to that of another part of the address. */
  function link(text, id, part = "token") {
    const label = `Show ${plain(text)}`;
    const open = () => go({ [part]: id }, true);
    return make("button", { type: "button", title: label, click: open }, tokenElement(text));
  }

  return { asked, link, tokenBox };
})();
