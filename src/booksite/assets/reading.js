// Comforts for every page: a citation, a symbol and a reference to an equation of the same page show
// what they stand for when they are pointed at, focused or tapped; columns of numbers are set to the
// right; a printed page is light. Without this script all of it still works.
(() => {
  "use strict";
  const all = (query, place = document) => [...place.querySelectorAll(query)];

  // Notes, one at a time. What they show is cloned from this site's pages.
  const note = Object.assign(document.createElement("div"), {
    className: "citation-note mathjax_process", id: "citation-note", role: "tooltip", hidden: true,
  });
  document.body.append(note);
  let shown = null;
  const hide = () => {
    shown?.removeAttribute("aria-describedby");
    shown = null;
    note.hidden = true;
  };
  const place = (link) => {
    const box = link.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const width = Math.min(420, room - 16);
    const fits = box.bottom + 6 + note.offsetHeight < innerHeight;
    const top = fits ? box.bottom + 6 : Math.max(4, box.top - note.offsetHeight - 6);
    const left = Math.max(8, Math.min(box.left, room - width - 8));
    Object.assign(note.style, { width: `${width}px`, left: `${left}px`, top: `${top}px` });
  };
  const show = async (link, content) => {
    hide();
    shown = link;
    note.replaceChildren(content);
    note.hidden = false;
    link.setAttribute("aria-describedby", note.id);
    const isRaw = /\\[([]/.test(note.textContent);
    note.style.visibility = isRaw ? "hidden" : ""; // until it is typeset
    place(link);
    if (!isRaw) return;
    await window.MathJax?.startup?.promise;
    await window.MathJax?.typesetPromise?.([note]);
    note.style.visibility = "";
    if (shown === link) place(link);
  };
  const offer = (link, content) => {
    for (const event of ["pointerenter", "focusin"]) link.addEventListener(event, () => show(link, content()));
    for (const event of ["pointerleave", "focusout"]) link.addEventListener(event, hide);
  };
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", (event) => shown?.contains(event.target) || hide());
  document.addEventListener("scroll", () => shown && hide(), { passive: true, capture: true });

  // Citations: their links carry the reference as a title, which would show a second time.
  for (const link of all('.bd-article a[href*="bibliography.html#"][title]')) {
    const words = link.title;
    link.removeAttribute("title");
    offer(link, () => words);
  }
  // Symbols (see booksite.glossary).
  for (const symbol of all(".bd-article .symbol")) {
    symbol.tabIndex = 0;
    offer(symbol, () => symbol.dataset.note);
    symbol.addEventListener("click", () => shown === symbol || show(symbol, symbol.dataset.note));
  }
  // Equations of this page.
  for (const link of all('.bd-article a.reference.internal[href^="#"]:not(:has(code, img))')) {
    const target = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!target?.matches("div.math")) continue;
    offer(link, () => target.querySelector("mjx-container")?.cloneNode(true) ?? target.textContent);
  }

  // Columns whose cells are numbers, with a unit or an interval, or say that there is none.
  const NUMBER = /^[–—]?$|^[(<>≤≥≈~±−–+\s-]*\d[\d\s.,e()[\]%×°±…+−–-]*[a-zµ]{0,3}$/i;
  /** The cells of each column of some rows, also where cells span rows and columns: those count in none. */
  function columnsOf(rows) {
    const columns = [];
    const taken = [];
    [...rows].forEach((row, r) => {
      let n = 0;
      for (const cell of row.cells) {
        while (taken[r]?.[n]) n++;
        for (let i = r; i < r + cell.rowSpan; i++) {
          taken[i] ??= [];
          for (let k = n; k < n + cell.colSpan; k++) taken[i][k] = true;
        }
        if (cell.colSpan === 1) {
          columns[n] ??= [];
          columns[n].push(cell);
        }
        n += cell.colSpan;
      }
    });
    return columns;
  }
  for (const body of all(".bd-article table tbody")) {
    const heads = columnsOf(body.parentElement.tHead?.rows ?? []);
    columnsOf(body.rows).forEach((cells, n) => {
      if (!cells.every((cell) => cell.tagName === "TD" && NUMBER.test(cell.textContent.trim()))) return;
      for (const cell of [...cells, ...(heads[n] ?? [])]) cell.classList.add("number");
    });
  }
  // A table that is wider than its place shows at which edge it goes on.
  const wide = all(".bd-article :is(.cell_output, .output, .pst-scrollable-table-container):has(table)");
  const showEdges = () => {
    for (const box of wide) {
      const rest = box.scrollWidth - box.clientWidth;
      box.classList.toggle("goes-on", rest - box.scrollLeft > 1);
      box.classList.toggle("came-from", rest > 1 && box.scrollLeft > 1);
    }
  };
  for (const box of wide) box.addEventListener("scroll", showEdges, { passive: true });
  for (const event of ["load", "resize"]) addEventListener(event, showEdges);
  document.addEventListener("toggle", showEdges, true);
  // What assistive technology calls a folded cell and a part of the contents.
  for (const part of all("details.hide > summary[aria-label]")) part.removeAttribute("aria-label");
  for (const part of all(".bd-sidebar-primary details > summary")) {
    const about = part.closest("li")?.querySelector("a")?.textContent.trim();
    part.setAttribute("aria-label", `Pages below ${about}`);
  }

  // A formula that scrolls sideways can be reached by keyboard (the theme sees to code and tables).
  function letFormulasBeReached() {
    for (const formula of all(".bd-article mjx-container")) {
      const isCut = formula.scrollWidth > formula.clientWidth || formula.scrollHeight > formula.clientHeight;
      if (isCut) formula.tabIndex = 0;
    }
  }
  addEventListener("load", () => window.MathJax?.startup?.promise?.then(letFormulasBeReached));
  addEventListener("resize", letFormulasBeReached);
  document.addEventListener("toggle", letFormulasBeReached, true);

  // Print: in light colours.
  let theme = null;
  addEventListener("beforeprint", () => {
    hide();
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
  });
  addEventListener("afterprint", () => (document.documentElement.dataset.theme = theme));
})();
