// Comforts for every page: a citation, a symbol and a reference show what they stand for when they
// are pointed at, focused or tapped; an equation wider than the page is set smaller; columns of
// numbers are set to the right; a printed page is light. Without this script all of it still works.
(() => {
  "use strict";
  const LONGEST = 400; // characters of a chapter's beginning
  const PAUSE = 200; // milliseconds that a pointer rests on a link before another page is read
  const all = (query, place = document) => [...place.querySelectorAll(query)];

  // Notes, one at a time. What they show is cloned from this site's pages.
  const note = Object.assign(document.createElement("div"), {
    className: "citation-note mathjax_process", id: "citation-note", role: "tooltip", hidden: true,
  });
  document.body.append(note);
  let shown = null;
  let wanted = null;
  const hide = () => {
    shown?.removeAttribute("aria-describedby");
    shown = wanted = null;
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
  const show = async (link, parts) => {
    hide();
    shown = link;
    note.replaceChildren(...parts);
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
  // content: what the note holds, or a promise of it; by then the pointer may be elsewhere.
  const offer = (link, content) => {
    const open = async () => {
      wanted = link;
      const parts = await content();
      if (parts && wanted === link) show(link, parts);
    };
    for (const event of ["pointerenter", "focusin"]) link.addEventListener(event, open);
    for (const event of ["pointerleave", "focusout"]) link.addEventListener(event, hide);
  };
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", (event) => shown?.contains(event.target) || hide());
  document.addEventListener("scroll", () => shown && hide(), { passive: true, capture: true });

  // Citations: their links carry the reference as a title, which would show a second time.
  for (const link of all('.bd-article a[href*="bibliography.html#"][title]')) {
    const words = link.title;
    link.removeAttribute("title");
    offer(link, () => [words]);
  }
  // Symbols (see booksite.glossary).
  for (const symbol of all(".bd-article .symbol")) {
    symbol.tabIndex = 0;
    offer(symbol, () => [symbol.dataset.note]);
    symbol.addEventListener("click", () => shown === symbol || show(symbol, [symbol.dataset.note]));
  }
  // Figures and equations, of this page and of others, and how other chapters begin.
  const copied = (target, base) => {
    const picture = target?.matches("figure") && target.querySelector("img");
    const formula = target?.matches("div.math") && target;
    if (!picture && !formula) return null;
    const copy = (picture || formula.querySelector("mjx-container") || formula).cloneNode(true);
    if (picture) copy.src = new URL(picture.getAttribute("src"), base).href;
    for (const part of all(".headerlink", copy)) part.remove();
    for (const part of [copy, ...all("[id]", copy)]) part.removeAttribute("id");
    const caption = picture && target.querySelector(".caption-text");
    return caption ? [copy, caption.textContent] : [copy];
  };
  const begun = (section) => {
    const heading = section?.querySelector("h1, h2, h3, h4")?.cloneNode(true);
    if (!heading) return null;
    heading.querySelector(".headerlink")?.remove();
    const title = document.createElement("strong");
    title.textContent = `${heading.textContent.trim()}. `;
    const opening = section.querySelector(":scope > dl.chapter-opening dd");
    const words = (opening ?? section.querySelector(":scope > p"))?.textContent.trim() ?? "";
    return [title, words.length > LONGEST ? `${words.slice(0, LONGEST)}…` : words];
  };
  const pages = new Map();
  const read = (address) => {
    if (!pages.has(address)) {
      const text = fetch(address).then((answer) => (answer.ok ? answer.text() : ""));
      const page = text.then((html) => new DOMParser().parseFromString(html, "text/html"));
      pages.set(address, page.catch(() => null));
    }
    return pages.get(address);
  };
  for (const link of all(".bd-article a.reference.internal:not(:has(code, img))")) {
    const name = decodeURIComponent(link.hash.slice(1));
    if (link.getAttribute("href").startsWith("#")) {
      const target = document.getElementById(name);
      if (copied(target, location)) offer(link, () => copied(target, location));
    } else if (location.protocol !== "file:") { // where a page may read no other
      offer(link, async () => {
        await new Promise((done) => setTimeout(done, PAUSE));
        const page = wanted === link && (await read(link.href.split("#")[0]));
        const target = page && (name ? page.getElementById(name) : page.querySelector("section"));
        return target && (copied(target, link.href) ?? begun(target.closest("section")));
      });
    }
  }

  // Equations, down to two thirds of the size that MathJax gave them; wider ones scroll.
  const fit = () => {
    for (const equation of all(".bd-article mjx-container[display]")) {
      equation.dataset.size ??= equation.style.fontSize;
      equation.style.fontSize = equation.dataset.size;
      const ratio = equation.clientWidth / equation.scrollWidth;
      const size = parseFloat(getComputedStyle(equation).fontSize);
      if (ratio < 1) equation.style.fontSize = `${size * Math.max(0.66, 0.98 * ratio)}px`;
    }
  };
  addEventListener("load", () => window.MathJax?.startup?.promise?.then(fit));
  addEventListener("resize", fit);

  // Columns whose cells are numbers, with a unit or an interval, or say that there is none.
  const NUMBER = /^[–—]?$|^[(<>≤≥≈~±−–+\s-]*\d[\d\s.,e()[\]%×°±…+−–-]*[a-zµ]{0,3}$/i;
  for (const body of all(".bd-article table tbody")) {
    const width = body.rows[0]?.cells.length ?? 0;
    const column = (rows, n) => [...rows].filter((row) => row.cells.length === width).map((row) => row.cells[n]);
    for (let n = 0; n < width; n++) {
      const cells = column(body.rows, n);
      if (!cells.every((cell) => cell.tagName === "TD" && NUMBER.test(cell.textContent.trim()))) continue;
      for (const cell of cells) {
        if (!cell.childElementCount) cell.textContent = cell.textContent.replace(/-(?=\d)/g, "−");
      }
      for (const cell of column(body.parentElement.rows, n)) cell.classList.add("number");
    }
  }
  // What assistive technology calls a folded cell and a part of the contents.
  for (const part of all("details.hide > summary[aria-label]")) part.removeAttribute("aria-label");
  for (const part of all(".bd-sidebar-primary details > summary")) {
    const about = part.closest("li")?.querySelector("a")?.textContent.trim();
    part.setAttribute("aria-label", `Pages below ${about}`);
  }

  // Print: in light colours, with open what is no code.
  let opened = [];
  let theme = null;
  addEventListener("beforeprint", () => {
    hide();
    opened = all(".bd-article details:not([open], .above-input, .above-output)");
    for (const part of opened) part.open = true;
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
    document.documentElement.dataset.theme = theme;
  });

  // The link to the other edition (see booksite.editions) leads to the part that is being read.
  const other = document.querySelector("a.edition-switch");
  const aim = () => {
    const above = (part) => part.getBoundingClientRect().top < innerHeight / 3;
    other.hash = scrollY > 40 ? all(".bd-article :is(section, figure)[id]").filter(above).pop()?.id ?? "" : "";
  };
  for (const event of ["pointerdown", "focus", "click"]) other?.addEventListener(event, aim);
})();
