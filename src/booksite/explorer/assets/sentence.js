/* The explorer's sentence: type any text; its terms in every head, and attention without some. */
"use strict";

(() => {
  const { colour, go, make, mount, number, options, plain, state, tokenElement } = lnattnExplorer;
  const { look } = lnattnFirstLayer;
  const { bars, percent, settings, swatch, switches, termElement, wordButtons } = lnattnTerms;
  const ATTENTION = "attention";
  const TYPING = 250; // milliseconds after the last key until the page follows
  const EMPTY = "Type a sentence, or choose an example.";
  const LONGEST = 600; // characters of a text that an address carries

  /** How much of a text is shown. beyond: how many characters follow those that the address carries. */
  function extent({ cut, isGiven, one, terms }, beyond) {
    if (isGiven && !cut) return `${terms.n} tokens of ${one.name}, named one by one: typed, they may be cut otherwise.`;
    const characters = `${beyond.toLocaleString("en")} ${beyond === 1 ? "character" : "characters"}`;
    if (!cut && !beyond) return `${terms.n} tokens of ${one.name}.`;
    if (!beyond) return `The first ${terms.n} tokens are shown; ${cut} more are left out.`;
    return `The first ${terms.n} tokens are shown. Left out: ${cut} more of the first ${LONGEST} characters, `
      + `and the ${characters} after those.`;
  }

  /** What the tool shows, in words. */
  function viewOf({ all, missing, one, tokens }, { head, query, without }, show) {
    const absent = missing ? `${missing} is not in this edition, so ` : "";
    const maps = show === ATTENTION ? "" : `, maps of ${all.terms[show].name}`;
    const left = without.length ? `, without ${without.map((name) => all.terms[name].name).join(", ")}` : "";
    return `${absent}${one.name}, head ${head}, query ${plain(tokens[query])}${maps}${left}`;
  }

  // ---- Maps ------------------------------------------------------------------------------------

  /** Numbers minus their mean: what is the same for all keys of a query moves no attention. */
  function centre(row) {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    return row.map((value) => value - mean);
  }

  /** One head's map, a row a query: what the keys that it sees offer. */
  function rowsOf({ layer, terms }, show, head, wanted) {
    return Array.from({ length: terms.n }, (_, query) => {
      if (show === ATTENTION) return look(layer, terms, head, query, wanted).weights;
      return centre(terms.keysOf(query).map((key) => terms.term(show, head, query, key)));
    });
  }

  /** The largest size in a map; a query that sees one key has no choice and does not count. */
  function largestOf(rows) {
    const counted = rows.filter((row) => row.length > 1).flat();
    return Math.max(...counted.map(Math.abs), 1e-9);
  }

  const CELL = 8;

  /** A small map on a canvas; pairs that the model hides are grey. */
  function draw(canvas, found, rows, query) {
    const n = rows.length;
    const largest = largestOf(rows);
    canvas.width = canvas.height = n * CELL;
    const brush = canvas.getContext("2d");
    brush.fillStyle = "rgba(118, 118, 118, 0.22)";
    brush.fillRect(0, 0, n * CELL, n * CELL);
    rows.forEach((row, q) => {
      found.terms.keysOf(q).forEach((k, i) => {
        brush.clearRect(k * CELL, q * CELL, CELL, CELL);
        brush.fillStyle = colour(row[i] / largest, 0.9);
        brush.fillRect(k * CELL, q * CELL, CELL, CELL);
      });
    });
    brush.strokeStyle = "rgba(118, 118, 118, 1)";
    brush.strokeRect(0.5, query * CELL + 0.5, n * CELL - 1, CELL - 1);
  }

  const shownAs = (show, value) => show === ATTENTION ? percent(value) : number(value, 2);

  /** What a map shows, in words. */
  function describe({ terms, tokens }, rows, show, head) {
    let best = { value: -Infinity, query: 0, key: 0 };
    rows.forEach((row, query) => {
      if (row.length === 1) return; // a query that sees one key has no choice
      row.forEach((value, i) => {
        if (value > best.value) best = { value, query, key: terms.keysOf(query)[i] };
      });
    });
    if (best.value === -Infinity) return `Head ${head}`;
    return `Head ${head}: largest ${shownAs(show, best.value)}, from ${plain(tokens[best.query])} `
      + `to ${plain(tokens[best.key])}`;
  }

  function mapOf(found, show, head, wanted) {
    const rows = rowsOf(found, show, head, wanted);
    const canvas = make("canvas", {
      "aria-hidden": "true",
      click: (event) => {
        event.preventDefault(); // the label would choose the head alone
        const query = Math.floor((event.offsetY / canvas.clientHeight) * rows.length);
        go({ head, query: Math.min(rows.length - 1, Math.max(0, query)) });
      },
    });
    draw(canvas, found, rows, wanted.query);
    const text = describe(found, rows, show, head);
    return make("label", { title: text },
      make("input", {
        type: "radio", name: "explorer-head", value: head, id: `explorer-head-${head}`,
        "aria-label": text, checked: head === wanted.head ? "" : null, change: () => go({ head }),
      }),
      canvas, make("span", { "aria-hidden": "true" }, `Head ${head}`));
  }

  // ---- One query -------------------------------------------------------------------------------

  function table({ all, terms, tokens }, seen, { head, query, without }) {
    const { names } = terms;
    const { scores, values, weights } = seen;
    const largest = Math.max(...Object.values(values).flat().map(Math.abs), 1e-9);
    const most = Math.max(...weights);
    const titles = names.map((name) => make("th", { scope: "col", title: all.terms[name].name },
      termElement(name), swatch(all.terms, name)));
    const body = seen.keys.map((key, i) => make(
      "tr", {},
      make("th", { scope: "row" }, tokenElement(tokens[key])),
      make("td", { style: `background-color: ${colour(weights[i] / most)}` }, percent(weights[i])),
      make("td", {}, number(scores[i], 1)),
      ...names.map((name) => make("td", {
        class: without.includes(name) ? "out" : null,
        style: `background-color: ${colour(values[name][i] / largest)}`,
      }, number(values[name][i], 1))),
    ));
    return make(
      "table", {},
      make("caption", {}, `Head ${head}: what the query `, tokenElement(tokens[query]),
        " finds in each key"),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Key"),
        make("th", { scope: "col" }, "Attention"), make("th", { scope: "col" }, "Sum"), ...titles)),
      make("tbody", {}, ...body),
      make("tfoot", {}, make("tr", {},
        make("th", { scope: "row" }, "Shift without it"),
        make("td", { colspan: "2" }, without.length ? `now ${number(seen.shift, 2)}` : ""),
        ...names.map((name) => make("td", {}, number(seen.moved[name], 2))))),
    );
  }

  // ---- The page --------------------------------------------------------------------------------

  mount("sentence", ["model", "text", "ids", "head", "query", "show", "without"], (place) => {
    let timer = null;
    let typed = null; // what the reader is typing
    let sent = { text: null, beyond: 0 }; // what went into the address, and how much did not
    const input = make("input", {
      id: "explorer-text", type: "text", autocomplete: "off", spellcheck: "false",
      input: () => {
        clearTimeout(timer);
        typed = input.value;
        said.textContent = typed ? "" : EMPTY;
        content.hidden = !typed; // an emptied box shows nothing of the sentence before
        timer = setTimeout(() => {
          if (typed) {
            const characters = Array.from(typed);
            const text = characters.slice(0, LONGEST).join("");
            sent = { text, beyond: Math.max(0, characters.length - LONGEST) };
            go({ text, ids: "", query: "" });
          }
          typed = null;
        }, TYPING);
      },
    });
    const examples = make("select", {
      id: "explorer-example", change: () => examples.value && go({ text: examples.value, ids: "", query: "" }, true),
    });
    const said = make("p", { class: "hint", role: "status" });
    const words = make("div", { class: "words", role: "radiogroup", "aria-label": "Query token" });
    const boxes = make("div", { class: "switches", role: "group", "aria-label": "Terms kept" });
    const shows = make("select", { id: "explorer-show", change: () => go({ show: shows.value }) });
    const hover = make("p", { class: "hint hover" });
    const heads = make("fieldset", { class: "maps" });
    const attention = make("div", {});
    // What a narrow screen shows by scrolling, by keyboard too.
    const numbersOf = make("div", {
      class: "numbers", role: "region", tabindex: "0", "aria-label": "Terms of the chosen query",
    });
    const labelled = (text, element) => make("div", {}, make("label", { for: element.id }, text), element);
    const content = make("div", { class: "answer" },
      make("p", { class: "step" }, "The query:"), words,
      make("p", { class: "step" }, "The terms that count:"), boxes, attention, numbersOf,
      make("div", { class: "controls settings" }, labelled("The maps show", shows)),
      heads, hover);
    place.tabIndex = -1; // who writes a text into it from below is led here
    place.replaceChildren(
      make("div", { class: "controls" },
        make("div", { class: "text" }, make("label", { for: "explorer-text" }, "Your sentence"), input),
        labelled("or an example", examples)),
      said, content);

    return async (isLatest, say) => {
      const found = await lnattnModels.sentence(say);
      if (!isLatest()) return;
      const { all, layer, terms, tokens } = found;
      const wanted = settings(terms, found.first);
      const show = terms.names.includes(state().show) ? state().show : ATTENTION;
      const seen = look(layer, terms, wanted.head, wanted.query, wanted);
      const focused = document.activeElement?.id;

      if (typed === null && document.activeElement !== input) input.value = found.text;
      content.hidden = typed === "";
      options(examples, [["", "choose …"], ...all.examples.map((text) => [text, text])], found.text);
      said.textContent = typed === "" ? EMPTY : extent(found, found.text === sent.text ? sent.beyond : 0);
      words.replaceChildren(...wordButtons(tokens, wanted.query));
      boxes.replaceChildren(...switches(all.terms, terms.names, wanted.without, "explorer"));
      options(shows, [ATTENTION, ...terms.names].map((name) =>
        [name, name === ATTENTION ? name : all.terms[name].name]), show);
      heads.replaceChildren(
        make("legend", {}, "The heads. Each map: "
          + `${show === ATTENTION ? "attention" : `${all.terms[show].name}, each row less its mean`}, a row for `
          + "each query, a column for each key, from the sentence's start; full colour is its largest value, grey "
          + "is not seen. Click on a row to choose head and query."),
        ...Array.from({ length: terms.heads }, (_, head) => mapOf(found, show, head, wanted)));
      hover.textContent = describe(found, rowsOf(found, show, wanted.head, wanted), show, wanted.head);
      attention.replaceChildren(
        make("p", { class: "caption" }, "Where ", tokenElement(tokens[wanted.query]),
          ` looks in head ${wanted.head}`, wanted.without.length
            ? `: moved by ${number(seen.shift, 2)} nats (lines: with all terms)` : ""),
        bars(tokens, seen));
      numbersOf.replaceChildren(table(found, seen, wanted));
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
      return viewOf(found, wanted, show);
    };
  });
})();
