// Filter and sort the table of claims. Without this script the table is all there, unfiltered.
// What is chosen goes into the address, so that a view can be shared; works from file:// too.
(() => {
  "use strict";
  const place = document.querySelector(".claims-all");
  const table = place && place.querySelector("table");
  if (!table) return;

  const COLUMNS = { claim: 0, verdict: 3 };
  const body = table.tBodies[0];
  const text = (row, column) => row.cells[column].textContent.trim();
  const rows = [...body.rows].map((row, order) => ({
    row,
    order,
    words: row.textContent.toLowerCase(),
    from: (row.className.match(/from-(\w)/) || [])[1] || "",
    // What was found, a chip each; a claim that nobody registered has one that is not shown.
    chips: [...row.querySelectorAll(".chip")].map((chip) => ({
      chip,
      verdict: chip.className.match(/verdict-([\w-]+)/)[1],
      model: chip.dataset.model,
    })),
  }));
  for (const one of rows) if (!one.chips.length) one.chips = [{ verdict: "none", model: "–" }];
  const VERDICTS = [
    ["holds", "holds"],
    ["holds-in-part", "holds in part"],
    ["fails", "fails"],
    ["not-seen-in-this-model", "not seen in this model"],
    ["undecided", "undecided"],
    ["not-computable", "not computable"],
    ["none", "not yet registered"],
  ];
  const SOURCES = [
    ["K", "K: Kamoda et al."],
    ["B", "B: Brody et al."],
    ["R", "R: residual stream"],
    ["M", "M: transformer notes"],
    ["S", "S: this book, on sub-words"],
    ["D", "D: this book, on distance"],
    ["U", "U: this book, on unselectable keys"],
    ["N", "N: this book, on normalisation"],
  ];

  // The form: made here, because without the script it would do nothing.
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const form = element("form", { className: "claims-filter" });
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Filter the claims");
  const field = (label, control) => {
    form.append(element("label", {}, element("span", { textContent: label }), control));
    return control;
  };
  const choice = (name, label, options) => {
    const select = element("select", { name });
    select.append(new Option("all", ""));
    for (const [value, shown] of options) select.append(new Option(shown, value));
    return field(label, select);
  };
  const present = (options, key) => {
    const there = new Set(rows.flatMap((one) => [one[key], ...one.chips.map((chip) => chip[key])]));
    return options.filter(([value]) => there.has(value));
  };
  const models = [...new Set(rows.flatMap((one) => one.chips.map((chip) => chip.model)))].sort();
  // As its chips call a model; "–" has none.
  const called = (name) => rows.flatMap((one) => one.chips)
    .find((one) => one.model === name).chip?.querySelector("summary").textContent.split(" · ").pop();
  const search = field("Words", element("input", { type: "search", name: "words" }));
  const from = choice("from", "Source", present(SOURCES, "from"));
  const verdict = choice("verdict", "Verdict", present(VERDICTS, "verdict"));
  const model = choice("model", "Model", models.map((name) => [name, called(name) ?? name]));
  const controls = [search, from, verdict, model];
  const reset = element("button", { type: "reset", textContent: "Show all" });
  const said = element("output", { className: "claims-shown" });
  said.setAttribute("aria-live", "polite");
  form.append(reset, said);
  place.before(form);

  // Sorting: a button in each heading that has an order.
  const RANK = VERDICTS.map(([name]) => name);
  const number = (one) => {
    const [, letter, digits] = text(one.row, 0).match(/^([A-Z])(\d+)/) || [];
    return "KBRMSDUN".indexOf(letter) * 1000 + Number(digits);
  };
  const compare = {
    claim: (a, b) => number(a) - number(b),
    verdict: (a, b) => RANK.indexOf(a.chips[0].verdict) - RANK.indexOf(b.chips[0].verdict),
  };
  let sorted = { by: "claim", down: false };
  const heads = {};
  for (const [by, column] of Object.entries(COLUMNS)) {
    const cell = table.tHead.rows[0].cells[column];
    const button = element("button", { type: "button", textContent: cell.textContent.trim() });
    button.addEventListener("click", () => {
      sorted = { by, down: sorted.by === by && !sorted.down };
      show();
    });
    cell.replaceChildren(button);
    heads[by] = cell;
  }

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const one of rows) {
      const asked = one.chips.filter(
        (chip) =>
          (!verdict.value || chip.verdict === verdict.value) &&
          (!model.value || chip.model === model.value),
      );
      for (const { chip } of one.chips) if (chip) chip.hidden = true;
      for (const { chip } of asked) if (chip) chip.hidden = false;
      const fits =
        asked.length > 0 &&
        words.every((word) => one.words.includes(word)) &&
        (!from.value || one.from === from.value);
      one.row.hidden = !fits;
      count += fits;
    }
    const way = sorted.down ? -1 : 1;
    const order = [...rows].sort(
      (a, b) => way * compare[sorted.by](a, b) || a.order - b.order,
    );
    body.append(...order.map((one) => one.row));
    for (const [by, cell] of Object.entries(heads)) {
      cell.setAttribute(
        "aria-sort",
        by !== sorted.by ? "none" : sorted.down ? "descending" : "ascending",
      );
    }
    said.textContent = `${count} of ${rows.length} claims`;
    remember();
  };

  const remember = () => {
    const kept = new URLSearchParams();
    for (const control of controls) if (control.value) kept.set(control.name, control.value);
    if (sorted.by !== "claim" || sorted.down) kept.set("sort", (sorted.down ? "-" : "") + sorted.by);
    const query = kept.toString();
    try {
      history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
    } catch {
      // Some browsers do not let a page from a file change its address; the view still changes.
    }
  };

  const asked = new URLSearchParams(location.search);
  for (const control of controls) {
    const value = asked.get(control.name);
    if (value === null) continue;
    const known = control === search || [...control.options].some((one) => one.value === value);
    if (known) control.value = value;
  }
  const by = (asked.get("sort") || "").replace("-", "");
  if (by in compare) sorted = { by, down: asked.get("sort").startsWith("-") };

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.addEventListener("reset", () => {
    sorted = { by: "claim", down: false };
    setTimeout(show);
  });
  show();
})();
