/* The token explorer, second part: the six terms of a sentence, and attention without some of them. */
"use strict";

(() => {
  const { chosen, colour, go, load, make, mount, number, plain, state, tokenElement, unpack } =
    lnattnExplorer;
  const PAIR_TERMS = ["ee", "ep", "pe", "pp"];
  const TERMS = [...PAIR_TERMS, "e", "p"];
  const MEANING = {
    ee: "token with token", ep: "token with position", pe: "position with token",
    pp: "position with position", e: "the key's token alone", p: "the key's position alone",
  };
  const ATTENTION = "attention";

  // ---- Numbers -------------------------------------------------------------------------------

  /** The six terms of a sentence: keysOf(query), and term(name, head, query, key). */
  function readTerms(index, sentence) {
    sentence.numbers ??= {
      pairs: unpack(sentence.pairs, "getFloat32"),
      keys: unpack(sentence.keys, "getFloat32"),
    };
    const n = sentence.rows.length;
    const { heads, causal } = index;
    const count = causal ? (n * (n + 1)) / 2 : n * n;
    const { pairs, keys } = sentence.numbers;
    const keysOf = (query) => Array.from({ length: causal ? query + 1 : n }, (_, key) => key);
    function term(name, head, query, key) {
      const which = PAIR_TERMS.indexOf(name);
      if (which < 0) return keys[((name === "e" ? 0 : 1) * heads + head) * n + key];
      const pair = causal ? (query * (query + 1)) / 2 + key : query * n + key;
      return pairs[(which * heads + head) * count + pair];
    }
    return { n, keysOf, term };
  }

  function softmax(scores) {
    const most = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - most));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  }

  /** Scores of a query's keys (before the division by √d_head), and attention, of some terms. */
  function attention(index, terms, head, query, without) {
    const kept = TERMS.filter((name) => !without.includes(name));
    const scores = terms.keysOf(query).map((key) =>
      kept.reduce((sum, name) => sum + terms.term(name, head, query, key), 0));
    return { scores, weights: softmax(scores.map((score) => score / index.scale)) };
  }

  /** KL(p ‖ q) in nats: how far attention moves from p. */
  function divergence(p, q) {
    return p.reduce((sum, value, i) => sum + (value > 0 ? value * Math.log(value / q[i]) : 0), 0);
  }

  // ---- Maps ----------------------------------------------------------------------------------

  /** All pairs of one head as rows of numbers; pairs that a causal model hides are absent. */
  function rowsOf(index, terms, show, head, without) {
    return Array.from({ length: terms.n }, (_, query) => show === ATTENTION
      ? attention(index, terms, head, query, without).weights
      : terms.keysOf(query).map((key) => terms.term(show, head, query, key)));
  }

  /** A small map on a canvas; the table below it holds the numbers of the chosen row. */
  function draw(canvas, rows, largest, query) {
    const n = rows.length;
    const cell = 8;
    canvas.width = canvas.height = n * cell;
    const brush = canvas.getContext("2d");
    rows.forEach((row, q) => row.forEach((value, k) => {
      brush.fillStyle = colour(value / largest);
      brush.fillRect(k * cell, q * cell, cell, cell);
    }));
    brush.strokeStyle = "rgba(118, 118, 118, 0.9)";
    brush.strokeRect(0.5, query * cell + 0.5, rows[query].length * cell - 1, cell - 1);
  }

  /** What a map shows, in words. */
  function describe(index, sentence, rows, show, head) {
    let best = { value: -Infinity, query: 0, key: 0 };
    rows.forEach((row, query) => row.forEach((value, key) => {
      if (value > best.value) best = { value, query, key };
    }));
    const name = (place) => plain(index.tokens[sentence.rows[place]]);
    const value = show === ATTENTION ? percent(best.value) : number(best.value, 1);
    return `Head ${head}: largest ${value}, from ${name(best.query)} to ${name(best.key)}`;
  }

  function percent(share) {
    return `${number(100 * share, 1)} %`;
  }

  function termName(name) {
    return name === ATTENTION ? "attention" : `T ${name}`;
  }

  function termElement(name) {
    return make("span", { class: "term" }, make("i", {}, "T"), make("sup", {}, name));
  }

  // ---- One query -----------------------------------------------------------------------------

  function table(index, sentence, terms, head, query, without) {
    const now = attention(index, terms, head, query, without);
    const whole = attention(index, terms, head, query, []);
    const keys = terms.keysOf(query);
    const largest = Math.max(...TERMS.flatMap((name) =>
      keys.map((key) => Math.abs(terms.term(name, head, query, key)))), 1e-9);
    const token = (place) => tokenElement(index.tokens[sentence.rows[place]]);
    const switches = TERMS.map((name) => make(
      "th", { scope: "col" },
      make("label", { title: MEANING[name] }, termElement(name),
        make("input", {
          type: "checkbox", "aria-label": `Keep ${termName(name)}, ${MEANING[name]}`,
          checked: without.includes(name) ? null : "",
          id: `explorer-keep-${name}`,
          change: (event) => go({
            without: TERMS.filter((other) =>
              other === name ? !event.target.checked : without.includes(other)).join("."),
          }),
        })),
    ));
    const body = keys.map((key) => make(
      "tr", {},
      make("th", { scope: "row" }, token(key)),
      ...TERMS.map((name) => {
        const value = terms.term(name, head, query, key);
        const out = without.includes(name) ? "out" : null;
        return make("td", { class: out, style: `background-color: ${colour(value / largest)}` },
          number(value, 1));
      }),
      make("td", {}, number(now.scores[key], 1)),
      make("td", { style: `background-color: ${colour(now.weights[key])}` },
        percent(now.weights[key])),
    ));
    const moves = TERMS.map((name) => make("td", {},
      number(divergence(whole.weights, attention(index, terms, head, query, [name]).weights), 2)));
    const moved = make("td", { colspan: "2" },
      without.length ? `now ${number(divergence(whole.weights, now.weights), 2)}` : "");
    return make(
      "table", {},
      make("caption", {}, `Head ${head}: what the query `, token(query),
        ` at position ${query} finds in each key`),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Key"), ...switches,
        make("th", { scope: "col" }, "Sum"), make("th", { scope: "col" }, "Attention"))),
      make("tbody", {}, ...body),
      make("tfoot", {}, make("tr", {},
        make("th", { scope: "row" }, "Shift without it"), ...moves, moved)),
    );
  }

  // ---- The page ------------------------------------------------------------------------------

  mount("sentence", (place) => {
    const sentences = make("select", {
      id: "explorer-sentence",
      change: () => go({ sentence: sentences.value, query: "" }, true),
    });
    const shows = make(
      "select", { id: "explorer-show", change: () => go({ show: shows.value }) },
      make("option", { value: ATTENTION }, "attention"),
      ...TERMS.map((name) => make("option", { value: name }, `T ${name}: ${MEANING[name]}`)),
    );
    const words = make("div", { class: "words", role: "group", "aria-label": "Query token" });
    const heads = make("fieldset", { class: "maps" });
    const numbers = make("div", {
      class: "numbers", role: "region", tabindex: "0", "aria-label": "Terms of the chosen query",
    });
    place.replaceChildren(
      make("div", { class: "controls" },
        make("div", {}, make("label", { for: "explorer-sentence" }, "Sentence"), sentences),
        make("div", {}, make("label", { for: "explorer-show" }, "The maps show"), shows)),
      make("p", { class: "hint" }, "Choose the query:"),
      words, heads, numbers,
    );

    return async ({ one, index, part }, isLatest) => {
      if (!one) return;
      const which = chosen("sentence", index.sentences.length, 0);
      const sentence = await part(`sentence-${which}`);
      if (!isLatest()) return;
      const terms = readTerms(index, sentence);
      const query = chosen("query", terms.n, terms.n - 1);
      const head = chosen("head", index.heads, 0);
      const show = TERMS.includes(state().show) ? state().show : ATTENTION;
      const without = (state().without ?? "").split(".").filter((name) => TERMS.includes(name));
      const focused = document.activeElement?.id;

      sentences.replaceChildren(...index.sentences.map((text, i) =>
        make("option", { value: i, selected: i === which && "" }, text)));
      shows.value = show;
      words.replaceChildren(...sentence.rows.map((row, i) => make(
        "button",
        {
          type: "button", id: `explorer-word-${i}`, "aria-pressed": String(i === query),
          click: () => go({ query: i }),
        },
        tokenElement(index.tokens[row]))));

      const maps = index.auroc.map((_, h) => rowsOf(index, terms, show, h, without));
      const largest = show === ATTENTION
        ? 1 : Math.max(...maps.flat(2).map((value) => Math.abs(value)), 1e-9);
      heads.replaceChildren(
        make("legend", {}, `Choose the head. Each map: ${termName(show)}, a row for each query, a `
          + `column for each key, both from the sentence's start. Full colour: `
          + `${show === ATTENTION ? "1" : `±${number(largest, 1)}`}.`),
        ...maps.map((rows, h) => {
          const canvas = make("canvas", { "aria-hidden": "true" });
          draw(canvas, rows, largest, query);
          const text = describe(index, sentence, rows, show, h);
          return make("label", { title: text },
            make("input", {
              type: "radio", name: "explorer-head", value: h, id: `explorer-head-${h}`,
              "aria-label": text, checked: h === head ? "" : null, change: () => go({ head: h }),
            }),
            canvas, make("span", { "aria-hidden": "true" }, `Head ${h}`));
        }));
      numbers.replaceChildren(table(index, sentence, terms, head, query, without));
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
