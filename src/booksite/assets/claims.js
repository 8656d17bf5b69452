// Filters the claims by words, source, verdict and model, and opens the one that the address names.
// What is chosen goes into the address, so that a view can be shared. Without this script the
// matrix is all there, and its rows unfold.
(() => {
  "use strict";
  const place = document.querySelector(".claims-all");
  if (!place) return;
  const rows = [...place.querySelectorAll(".claim")].map((row) => ({
    row,
    words: row.textContent.toLowerCase(),
    from: row.className.match(/from-(\w)/)[1],
    found: [...row.querySelectorAll(".found")].map((one) => ({
      one,
      model: one.dataset.model,
      verdict: one.dataset.verdict,
      called: one.querySelector(".verdict").textContent.split(" · ").at(-1).replace(/ \(.*\)$/, ""),
    })),
  }));
  const found = rows.flatMap((one) => one.found);
  const groups = [...place.querySelectorAll(".claims-group")];
  const once = (pairs) => [...new Map(pairs)].sort(([, a], [, b]) => a.localeCompare(b));

  // The form: made here, because without the script it would do nothing.
  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const field = (label, control) => [control, element("label", {}, label, control)];
  const choice = (name, label, options) => {
    const shown = [["", "all"], ...options].map(([value, text]) => new Option(text, value));
    return field(label, element("select", { name }, ...shown));
  };
  const sources = rows.map(({ from, row }) => [from, `${from}: ${row.dataset.source}`]);
  const fields = [
    field("Words", element("input", { type: "search", name: "words" })),
    choice("from", "Source", once(sources)),
    choice("verdict", "Verdict", once(found.map((one) => [one.verdict, one.verdict]))),
    choice("model", "Model", once(found.map((one) => [one.model, one.called]))),
  ];
  const [words, from, verdict, model] = fields.map(([control]) => control);
  const said = element("output", { className: "claims-shown", ariaLive: "polite" });
  const reset = element("button", { type: "reset", textContent: "Show all" });
  const form = element("form", { className: "claims-filter", role: "search" });
  form.ariaLabel = "Filter the claims";
  form.append(...fields.map(([, label]) => label), reset, said);
  place.before(form);

  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    let count = 0;
    for (const one of rows) {
      for (const { one: part, ...is } of one.found) {
        part.hidden = [verdict, model].some((c) => c.value && is[c.name] !== c.value);
      }
      const asked = verdict.value || model.value;
      const fits = (!asked || one.found.some(({ one: part }) => !part.hidden)) &&
        (!from.value || one.from === from.value) && wanted.every((word) => one.words.includes(word));
      one.row.hidden = !fits;
      count += fits;
    }
    const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    for (const group of groups) {
      group.hidden = !group.querySelector(".claim:not([hidden])");
      if (chosen.size) group.open = true;
    }
    said.textContent = `${count} of ${rows.length} claims`;
    address(chosen.size ? `?${chosen}` : "", location.hash);
  };
  /** Put a view into the address, so that it can be shared. */
  const address = (query, hash) => {
    try {
      history.replaceState(null, "", `${query || location.pathname}${hash}`);
    } catch {
      // Some browsers do not let a page from a file change its address; the view still changes.
    }
  };
  for (const { row } of rows) {
    row.addEventListener("toggle", () => {
      const own = `#${row.id}`;
      if (row.open) address(location.search, own);
      else if (location.hash === own) address(location.search, "");
    });
  }
  for (const [name, value] of new URLSearchParams(location.search)) {
    const control = form.elements[name];
    const known = control === words || [...(control?.options ?? [])].some((o) => o.value === value);
    if (known) control.value = value;
  }
  const unfold = () => {
    const named = rows.find(({ row }) => `#${row.id}` === location.hash)?.row;
    if (!named) return;
    named.open = true;
    named.closest(".claims-group")?.setAttribute("open", "");
    named.scrollIntoView();
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  addEventListener("hashchange", unfold);
  show();
  unfold();
})();
