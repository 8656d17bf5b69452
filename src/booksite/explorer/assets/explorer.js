/* The explorer, shared parts: loading data, showing tokens safely, colours, and the address.
 *
 * Data come as scripts that call lnattnExplorer.receive(name, value): a page opened from a disk may
 * load scripts, but may not fetch files. Tokens are untrusted: they reach the page as text nodes
 * and attribute values, never as markup.
 */
"use strict";

window.lnattnExplorer = (() => {
  const base = new URL(".", document.currentScript.src);

  // ---- Data ----------------------------------------------------------------------------------

  const values = new Map(); // promises of what was made of the scripts' values
  const here = new Set(); // names of the scripts whose promise is fulfilled
  const waiting = new Map(); // of the scripts on their way: what takes their value
  const failures = new Map(); // how often a script failed: no cache is to answer again

  /** The value of a script as it arrives. */
  function arrival(name, version) {
    return new Promise((resolve, reject) => {
      const fail = (why) => waiting.delete(name) && reject(Object.assign(new Error(why), { why }));
      waiting.set(name, resolve);
      const query = [version && `v=${version}`, failures.has(name) && `again=${failures.get(name)}`].filter(Boolean);
      const script = document.createElement("script");
      script.src = new URL(`${name}.js${query.length ? `?${query.join("&")}` : ""}`, base);
      script.onerror = () => fail("could not be loaded");
      script.onload = () => {
        script.remove();
        fail("is damaged"); // unless its value has come
      };
      document.head.append(script);
    });
  }

  /**
   * What read(value) makes of the value that the script `name`.js hands over. Each script is loaded once, and
   * again after it failed; an error says in its message what is wrong with which script.
   */
  function load(name, version = "", read = (value) => value) {
    if (!values.has(name)) {
      const made = arrival(name, version).then(read).then((value) => {
        here.add(name);
        return value;
      }, (error) => {
        values.delete(name);
        failures.set(name, (failures.get(name) ?? 0) + 1);
        throw new Error(`${name}.js ${error.why ?? "is damaged"}`, { cause: error });
      });
      values.set(name, made);
    }
    return values.get(name);
  }

  /** Whether a script was loaded and read. */
  const isHere = (name) => here.has(name);

  /** Called by the data's scripts. */
  function receive(name, value) {
    const take = waiting.get(name);
    waiting.delete(name);
    take?.(value);
  }

  /** As `receive`, of something long, deflated, in base64: bytes, or a value as JSON. */
  function receivePacked(name, text, isJson) {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const flow = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
    receive(name, isJson ? flow.json() : flow.arrayBuffer());
  }

  // ---- Long work -----------------------------------------------------------------------------

  const STRETCH = 30; // ms of work without a pause

  /** A function to wait for now and then in a long computation: it lets the page answer. */
  function breath() {
    let last = performance.now();
    return async () => {
      if (performance.now() - last < STRETCH) return;
      await new Promise((done) => setTimeout(done));
      last = performance.now();
    };
  }

  // ---- Tokens as text ------------------------------------------------------------------------

  const INVISIBLE = /[\p{C}\p{Z}]/u;

  /** The signs of a token as [kind, text]: what cannot be seen gets a name. */
  function signs(token) {
    return Array.from(token, (sign) => {
      const code = sign.codePointAt(0);
      const hex = code.toString(16).toUpperCase();
      if (sign === " ") return ["space", "␣"];
      if (sign === "\n") return ["space", "⏎"];
      if (code >= 0xdc80 && code <= 0xdcff) return ["byte", hex.slice(2)]; // part of a character
      if (INVISIBLE.test(sign)) return ["code", `U+${hex.padStart(4, "0")}`];
      return ["", sign];
    });
  }

  /** A token in plain text, for labels: bytes and code points in angle brackets. */
  function plain(token) {
    const shown = signs(token).map(([kind, text]) =>
      kind === "byte" || kind === "code" ? `⟨${text}⟩` : text);
    return shown.join("") || "⟨empty⟩";
  }

  /** A token as an element; text nodes only. */
  function tokenElement(token) {
    const element = make("bdi", { class: "token" });
    let run = null;
    for (const [kind, text] of signs(token)) {
      if (kind === "" && run) {
        run.data += text;
        continue;
      }
      const node = document.createTextNode(text);
      run = kind === "" ? node : null;
      const names = { byte: `byte 0x${text}`, code: text, space: "space" };
      element.append(kind ? make("span", { class: kind, title: names[kind] }, node) : node);
    }
    // A mark that combines with the letter before it gets something to sit on.
    if (/^\p{M}/u.test(token)) element.prepend("◌");
    if (!token) element.append(make("span", { class: "code" }, "empty"));
    return element;
  }

  /** An element with attributes (functions become listeners) and children. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value !== null && value !== false) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  /** The options of a select: [value, text] each. */
  const options = (select, pairs, value) => select.replaceChildren(...pairs.map(([one, text]) =>
    make("option", { value: one, selected: String(one) === String(value) && "" }, text)));

  /** A number with a true minus sign. */
  function number(value, decimals) {
    const text = value.toFixed(decimals);
    return Number(text) < 0 ? text.replace("-", "−") : text.replace("-", "");
  }

  const isDark = () => document.documentElement.dataset.theme === "dark";

  /**
   * Blue below zero, vermilion above, as in the book's figures; see-through near zero.
   * most: how strong the colour of ±1 is; behind a number weaker than in a map, so that it reads.
   */
  function colour(share, most = 0.45) {
    const [below, above] = isDark() ? ["86, 180, 233", "255, 140, 66"] : ["0, 114, 178", "213, 94, 0"];
    const strength = Math.min(1, Math.abs(share)) * most;
    return `rgba(${share < 0 ? below : above}, ${strength.toFixed(3)})`;
  }

  // ---- The address: #model=…&token=…&text=…&head=…&query=…; ids=1.2.3 in place of a text -----------

  const KEYS = [
    "model", "token", "key", "apart", "text", "ids", "head", "query", "show", "without", "view",
  ];
  let known = {};

  /** What the address says; a link to a heading of the page changes nothing of it. */
  function state() {
    const said = new URLSearchParams(location.hash.slice(1));
    const mine = KEYS.filter((key) => said.has(key)).map((key) => [key, said.get(key)]);
    if (mine.length) known = Object.fromEntries(mine);
    return known;
  }

  /** Change parts of the address; "" takes one out. `step`: a step in the browser's history. */
  function go(changes, step = false) {
    const parts = Object.entries({ ...state(), ...changes }).filter(([, value]) => value !== "");
    if (!parts.length) known = {};
    const hash = `#${new URLSearchParams(parts)}`;
    if (hash === location.hash) return;
    if (step) location.hash = hash;
    else location.replace(hash);
  }

  /** A whole number from the address, if it is one and within 0 … size − 1. */
  function chosen(name, size, otherwise) {
    const text = state()[name] ?? "";
    const value = Number(text);
    return /^\d+$/.test(text) && value < size ? value : otherwise;
  }

  // ---- Parts of the page -------------------------------------------------------------------------

  // Or the reader scrolls, and is not to be moved again; nor is who reads a chapter when its widget comes.
  let arrived = !location.hash || Boolean(globalThis.lnattnChapter);
  let isTold = arrived;

  function stay() {
    arrived = true;
  }

  /** Where who came with this address wants to be: at the tool that it sets, or at a heading. */
  function destination() {
    const names = Object.keys(state());
    if (!names.length) return document.getElementById(location.hash.slice(1));
    const has = (...any) => any.some((name) => names.includes(name));
    const ofToken = has("head") ? "every-text" : "heads";
    const part = has("token", "key", "apart") && !has("text", "ids") ? ofToken : "sentence";
    return document.querySelector(`.token-explorer[data-part="${part}"]`);
  }

  /** Whether a place is where the address leads, or stands above it. */
  function isOnTheWay(place) {
    const wanted = location.hash && destination();
    return Boolean(wanted) && !(wanted.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING);
  }

  /** Lead there at once, and again while what stands above it is filled. */
  function arrive() {
    if (arrived) return;
    destination()?.scrollIntoView();
    const places = [...document.querySelectorAll(".token-explorer")].filter(isOnTheWay);
    if (places.every((place) => place.dataset.state)) stay();
  }

  /** Say once, above the tool that a link set, what it was set to. */
  function tell(place, view) {
    if (isTold || !view || place !== destination()) return;
    isTold = true;
    place.prepend(make("p", { class: "arrived", role: "status" }, `Your link set this tool: ${view}.`));
  }

  /**
   * Fill the places of a part of the explorer, and again whenever what it shows changes. A place waits until a
   * reader comes near it, unless the address leads to it or to one below it.
   *
   * keys: the parts of the address that it depends on; build(place) makes its controls and returns
   * an async function that fills them, is told by isLatest() whether a newer call has come, tells by
   * say(words) what it waits for, and may return in words what it shows.
   */
  function mount(part, keys, build) {
    for (const place of document.querySelectorAll(`.token-explorer[data-part="${part}"]`)) {
      const show = build(place);
      let latest = 0;
      let seen = null;
      const update = async (event) => {
        const wanted = JSON.stringify(keys.map((key) => state()[key] ?? ""));
        if (event?.type === "hashchange" && (seen === null || wanted === seen)) return;
        near.disconnect();
        delete place.dataset.waits;
        seen = wanted;
        const turn = ++latest;
        const isLatest = () => turn === latest; // a slower answer to an earlier question is dropped
        const line = place.querySelector(":scope > [role=status]:not(.arrived)");
        function say(words) {
          if (isLatest() && line && line.textContent !== words) line.textContent = words;
        }
        const [view, problem] = await show(isLatest, say).then((said) => [said, null], (error) => [null, error]);
        if (!isLatest()) return;
        place.querySelector(".problem")?.remove();
        if (event?.type === "hashchange") place.querySelector(".arrived")?.remove();
        if (problem) {
          const again = make("button", {
            type: "button",
            click: (event) => {
              event.target.closest(".problem").remove(); // it is not known to be one any more
              return update(event);
            },
          }, "Try again");
          const told = problem.name === "Refused" ? [problem.message]
            : [`The explorer's data are missing: ${problem.message}. `, again];
          place.prepend(make("p", { class: "problem", role: "alert" }, ...told));
          say("");
        }
        place.dataset.state = problem ? "failed" : "ready";
        tell(place, view);
        arrive();
      };
      const near = new IntersectionObserver(
        (entries) => entries.some((one) => one.isIntersecting) && update(), { rootMargin: "300px" });
      window.addEventListener("hashchange", update);
      // Maps are drawn in the colours of the theme.
      new MutationObserver(() => place.dataset.state && update())
        .observe(document.documentElement, { attributeFilter: ["data-theme"] });
      if (isOnTheWay(place)) update();
      else {
        place.dataset.waits = "";
        near.observe(place);
      }
    }
    for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      window.addEventListener(kind, stay, { once: true, passive: true });
    }
    arrive();
  }

  return {
    breath, chosen, colour, go, isHere, load, make, mount, number, options, plain, receive, receivePacked,
    state, tokenElement,
  };
})();
