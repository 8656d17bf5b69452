// Filters the table of claims by words, source, verdict and model. What is chosen goes into the
// address, so that a view can be shared. Without this script the table is all there.
(() => {
  "use strict";
  const place = document.querySelector(".claims-all");
  if (!place) return;
  const rows = [...place.querySelector("tbody").rows].map((row) => ({
    row,
    words: row.textContent.toLowerCase(),
    from: row.className.match(/from-(\w)/)[1],
    source: row.textContent.match(/\(([^,)]+)/)?.[1] ?? "",
    chips: [...row.querySelectorAll(".chip")].map((chip) => ({
      chip,
      model: chip.dataset.model,
      verdict: chip.className.match(/verdict-([\w-]+)/)[1],
      called: chip.querySelector("summary").textContent.split(" · "),
    })),
  }));
  const chips = rows.flatMap((one) => one.chips);
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
  const fields = [
    field("Words", element("input", { type: "search", name: "words" })),
    choice("from", "Source", once(rows.map((one) => [one.from, `${one.from}: ${one.source}`]))),
    choice("verdict", "Verdict", once(chips.map((c) => [c.verdict, c.called[0].slice(2)]))),
    choice("model", "Model", once(chips.map((c) => [c.model, c.called.at(-1)]))),
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
      for (const { chip, ...is } of one.chips) {
        chip.hidden = [verdict, model].some((c) => c.value && is[c.name] !== c.value);
      }
      const asked = verdict.value || model.value;
      const fits = (!asked || one.chips.some(({ chip }) => !chip.hidden)) &&
        (!from.value || one.from === from.value) && wanted.every((word) => one.words.includes(word));
      one.row.hidden = !fits;
      count += fits;
    }
    said.textContent = `${count} of ${rows.length} claims`;
    const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const query = chosen.size ? `?${chosen}` : location.pathname;
    try {
      history.replaceState(null, "", query + location.hash);
    } catch {
      // Some browsers do not let a page from a file change its address; the view still changes.
    }
  };
  for (const [name, value] of new URLSearchParams(location.search)) {
    const control = form.elements[name];
    const known = control === words || [...(control?.options ?? [])].some((o) => o.value === value);
    if (known) control.value = value;
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  show();
})();
