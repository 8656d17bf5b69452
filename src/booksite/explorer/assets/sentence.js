/* The explorer's sentence: type any text; its terms in every head, and attention without some. */
"use strict";

(() => {
  const { colour, go, make, mount, number, plain, state, tokenElement } = lnattnExplorer;
  const { look } = lnattnFirstLayer;
  const { bars, percent, settings, swatch, switches, termElement, wordButtons } = lnattnTerms;
  const { analysed, readers } = lnattnTyped;
  const ATTENTION = "attention";
  const TYPING = 250; // milliseconds after the last key until the page follows

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
      const row = terms.keysOf(query).map((key) => terms.term(show, head, query, key, wanted.useSigma));
      return wanted.centred ? centre(row) : row;
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
    rows.forEach((row, q) => found.terms.keysOf(q).forEach((k, i) => {
      brush.clearRect(k * CELL, q * CELL, CELL, CELL);
      brush.fillStyle = colour(row[i] / largest, 0.9);
      brush.fillRect(k * CELL, q * CELL, CELL, CELL);
    }));
    brush.strokeStyle = "rgba(118, 118, 118, 1)";
    brush.strokeRect(0.5, query * CELL + 0.5, n * CELL - 1, CELL - 1);
  }

  const shownAs = (show, value) => show === ATTENTION ? percent(value) : number(value, 2);

  /** What a map shows, in words. */
  function describe({ terms, tokens }, rows, show, head) {
    let best = { value: -Infinity, query: 0, key: 0 };
    rows.forEach((row, query) => row.length > 1 && row.forEach((value, i) => {
      if (value > best.value) best = { value, query, key: terms.keysOf(query)[i] };
    }));
    if (best.value === -Infinity) return `Head ${head}`;
    return `Head ${head}: largest ${shownAs(show, best.value)}, from ${plain(tokens[best.query])} `
      + `to ${plain(tokens[best.key])}`;
  }

  /** Which cell of a map the pointer is on, or null where the model hides it. */
  function cellAt(canvas, event, found, rows) {
    const box = canvas.getBoundingClientRect();
    const at = (from, size, where) =>
      Math.min(rows.length - 1, Math.max(0, Math.floor(((where - from) / size) * rows.length)));
    const query = at(box.top, box.height, event.clientY);
    const key = at(box.left, box.width, event.clientX);
    const place = found.terms.keysOf(query).indexOf(key);
    return { query, key, value: place < 0 ? null : rows[query][place] };
  }

  function mapOf(found, show, head, wanted, hover) {
    const rows = rowsOf(found, show, head, wanted);
    const canvas = make("canvas", {
      "aria-hidden": "true",
      mousemove: (event) => {
        const { query, key, value } = cellAt(canvas, event, found, rows);
        const [from, to] = [query, key].map((place) => plain(found.tokens[place]));
        hover.textContent = value === null ? `Head ${head}: ${from} does not see ${to}`
          : `Head ${head}, from ${from} to ${to}: ${shownAs(show, value)}`;
      },
      click: (event) => {
        event.preventDefault(); // the label would choose the head alone
        go({ head, query: cellAt(canvas, event, found, rows).query });
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

  function table(all, { terms, tokens }, seen, { centred, head, query, without }) {
    const { names } = terms;
    const shownRow = (row) => centred ? centre(row) : row;
    const values = Object.fromEntries(names.map((name) => [name, shownRow(seen.values[name])]));
    const sums = shownRow(seen.scores);
    const largest = Math.max(...Object.values(values).flat().map(Math.abs), 1e-9);
    const most = Math.max(...seen.weights);
    const titles = names.map((name) => make("th", { scope: "col", title: all.terms[name].name },
      termElement(name), swatch(all.terms, name)));
    const body = seen.keys.map((key, i) => make(
      "tr", {},
      make("th", { scope: "row" }, tokenElement(tokens[key])),
      make("td", { style: `background-color: ${colour(seen.weights[i] / most)}` },
        percent(seen.weights[i])),
      make("td", {}, number(sums[i], 1)),
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

  const box = (id, key, text) => {
    const input = make("input", {
      type: "checkbox", id, change: () => go({ [key]: input.checked ? "" : "no" }),
    });
    const label = make("span", {}, text);
    return { input, label, element: make("label", { class: "switch" }, input, label) };
  };

  const KEYS = [
    "of", "text", "head", "query", "show", "without", "centre", "sigma", "scale", "shift", "swap",
  ];

  mount("sentence", KEYS, (place) => {
    let timer = null;
    let typed = null; // what the reader is typing
    const input = make("input", {
      id: "explorer-text", type: "text", maxlength: "600", autocomplete: "off", spellcheck: "false",
      input: () => {
        clearTimeout(timer);
        typed = input.value;
        timer = setTimeout(() => {
          if (typed) go({ text: typed, query: "", swap: "" });
          typed = null;
        }, TYPING);
      },
    });
    const examples = make("select", {
      id: "explorer-example",
      change: () => examples.value && go({ text: examples.value, query: "", swap: "" }, true),
    });
    const models = make("select", {
      id: "explorer-of",
      change: () => go({ of: models.value, head: "", query: "", shift: "", swap: "" }, true),
    });
    const said = make("p", { class: "hint", role: "status" });
    const words = make("div", { class: "words", role: "group", "aria-label": "Query token" });
    const boxes = make("div", { class: "switches", role: "group", "aria-label": "Terms kept" });
    const sigma = box("explorer-sigma", "sigma", "divide by σ");
    const scale = box("explorer-scale", "scale", "divide by √d′");
    const centred = box("explorer-centre", "centre", "centre the rows");
    const shift = make("input", {
      id: "explorer-shift", type: "number", min: "0", value: "0",
      change: () => go({ shift: Number(shift.value) > 0 ? shift.value : "" }),
    });
    const swaps = ["first", "second"].map((which) => make("select", {
      id: `explorer-swap-${which}`, "aria-label": `Swap: the ${which} token`,
      change: () => {
        const [a, b] = swaps.map((select) => select.value);
        if (a !== "" && b !== "" && a !== b) go({ swap: `${a}.${b}` });
        else if (a === "" || b === "") go({ swap: "" });
      },
    }));
    const shows = make("select", { id: "explorer-show", change: () => go({ show: shows.value }) });
    const hover = make("p", { class: "hint hover" });
    const heads = make("fieldset", { class: "maps" });
    const attention = make("div", {});
    const numbersOf = make("div", {
      class: "numbers", role: "region", tabindex: "0", "aria-label": "Terms of the chosen query",
    });
    const exact = make("p", { class: "hint" });
    const labelled = (text, id, ...elements) =>
      make("div", {}, make("label", { for: id }, text), ...elements);
    place.replaceChildren(
      make("div", { class: "controls" },
        make("div", { class: "text" }, make("label", { for: "explorer-text" }, "Your sentence"), input),
        labelled("or an example", "explorer-example", examples),
        labelled("read by", "explorer-of", models)),
      said,
      make("p", { class: "step" }, "The query:"), words,
      make("p", { class: "step" }, "The terms that count:"), boxes, attention,
      make("div", { class: "controls settings" },
        sigma.element, scale.element, centred.element,
        labelled("First position", "explorer-shift", shift),
        labelled("Swap two tokens", "explorer-swap-first", make("div", { class: "two" }, ...swaps)),
        labelled("The maps show", "explorer-show", shows)),
      heads, hover, numbersOf, exact,
    );

    return async (isLatest) => {
      const found = await analysed(state().of);
      if (!isLatest()) return;
      const { all, one, layer, terms, tokens } = found;
      const wanted = settings(terms, found.first);
      const show = terms.names.includes(state().show) ? state().show : ATTENTION;
      const seen = look(layer, terms, wanted.head, wanted.query, wanted);
      const focused = document.activeElement?.id;

      if (typed === null && input.value !== found.text) input.value = found.text;
      examples.replaceChildren(make("option", { value: "" }, "choose …"),
        ...all.examples.map((text) =>
          make("option", { value: text, selected: text === found.text && "" }, text)));
      const own = all.models.find((model) => model.computed);
      models.replaceChildren(...readers(all).map((model) => make(
        "option", { value: model === own ? "" : model.folder, selected: model === one && "" },
        model.computed ? `${model.name}: any text` : `${model.name}: the examples`)));
      const lost = found.lost ? `Of ${found.lost} only the examples are known; this is ${one.name}. ` : "";
      said.textContent = lost + (found.cut
        ? `The first ${terms.n} tokens are shown; ${found.cut} more are left out.`
        : `${terms.n} tokens of ${one.name}, the first ${layer.causal ? "" : "and the last "}`
          + "by the model itself.");
      words.replaceChildren(...wordButtons(tokens, wanted.query));
      boxes.replaceChildren(...switches(all.terms, terms.names, wanted.without, "explorer"));
      sigma.input.checked = wanted.useSigma;
      sigma.label.textContent = `divide by ${layer.positionsAre === "rotary" ? "ρ" : "σ"}`;
      scale.input.checked = wanted.useScale;
      centred.input.checked = wanted.centred;
      if (document.activeElement !== shift) shift.value = String(found.shift);
      for (const control of [shift, ...swaps]) control.disabled = found.fixed;
      swaps.forEach((select, which) => select.replaceChildren(make("option", { value: "" }, "none"),
        ...tokens.map((token, i) => make("option", {
          value: i, selected: found.pair?.[which] === i && "",
        }, `${i}: ${plain(token)}`))));
      shows.replaceChildren(...[ATTENTION, ...terms.names].map((name) => make("option", {
        value: name, selected: name === show && "",
      }, name === ATTENTION ? "attention" : all.terms[name].name)));
      heads.replaceChildren(
        make("legend", {}, "The heads. Each map: "
          + `${show === ATTENTION ? "attention" : all.terms[show].name}, a row for each query, a `
          + "column for each key, both from the sentence's start; full colour is its largest value, "
          + "grey is not seen. Click on a row to choose head and query."),
        ...Array.from({ length: terms.heads }, (_, head) => mapOf(found, show, head, wanted, hover)));
      hover.textContent = describe(found, rowsOf(found, show, wanted.head, wanted), show, wanted.head);
      attention.replaceChildren(
        make("p", { class: "caption" }, "Where ", tokenElement(tokens[wanted.query]),
          ` looks in head ${wanted.head}`, wanted.without.length
            ? `: moved by ${number(seen.shift, 2)} nats (lines: with all terms)` : ""),
        bars(tokens, seen));
      numbersOf.replaceChildren(table(all, found, seen, wanted));
      exact.textContent = (found.fixed
        ? "Computed by the package in double precision when the book was built, shown: terms to "
        : "Computed in your browser from rounded weights: terms to ")
        + `±${one.tolerance.terms}, attention to ±${percent(one.tolerance.attention, 2)}, shifts to `
        + `±${one.tolerance.kl} nats.${wanted.centred ? " Rows of the table and of the maps of terms "
        + "are shown minus their mean, which moves no attention." : ""}`;
      document.getElementById(focused)?.focus({ preventScroll: true }); // it was built anew
    };
  });
})();
