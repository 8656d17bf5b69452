// Comforts for every page: a citation, a symbol and a reference to a figure, an equation or another
// chapter show what they stand for when they are pointed at, focused or tapped; a display equation that is
// wider than the page is set smaller; a printed page is light and has its folded parts open; the link
// to the book's other edition leads to the place that is being read. Without this script, all still
// work: the browser shows a citation as a plain title, links lead to what they name, wide equations
// have a scroll bar, folded parts print folded, and the other edition opens at its top.
(() => {
  "use strict";
  const LONGEST = 400; // characters of a chapter's beginning
  const PAUSE = 200; // milliseconds that a pointer rests on a link before another page is read
  const MATHJAX = new URL("../mathjax/tex-chtml.js", document.currentScript.src);

  // Notes, one at a time. What they show is cloned from this page or is text of the site's own.
  const note = document.createElement("div");
  note.className = "citation-note mathjax_process";
  note.id = "citation-note";
  note.setAttribute("role", "tooltip");
  note.hidden = true;
  document.body.append(note);
  let shown = null;
  let wanted = null;

  const hide = () => {
    wanted = null;
    if (shown) shown.removeAttribute("aria-describedby");
    shown = null;
    note.hidden = true;
  };
  const place = (link) => {
    const box = link.getBoundingClientRect();
    const width = Math.min(420, document.documentElement.clientWidth - 16);
    note.style.width = `${width}px`;
    const left = Math.min(box.left, document.documentElement.clientWidth - width - 8);
    note.style.left = `${Math.max(8, left)}px`;
    const below = box.bottom + 6;
    const fits = below + note.offsetHeight < window.innerHeight;
    note.style.top = `${fits ? below : Math.max(4, box.top - note.offsetHeight - 6)}px`;
  };
  // A page without formulas comes without MathJax (see booksite.light); the first note with one brings it.
  let brought = null;
  const mathjax = async () => {
    brought ??= document.querySelector('script[src*="/mathjax/"]') ?? new Promise((done) => {
      const script = document.createElement("script");
      script.src = MATHJAX;
      script.onload = script.onerror = done;
      document.head.append(script);
    });
    await brought;
    await window.MathJax?.startup?.promise;
  };
  const show = async (link, ...content) => {
    hide();
    shown = link;
    note.replaceChildren(...content);
    note.hidden = false;
    link.setAttribute("aria-describedby", note.id);
    place(link);
    const isRaw = /\\[([]/.test(note.textContent);
    note.style.visibility = isRaw ? "hidden" : ""; // until it is typeset
    if (!isRaw) return;
    await mathjax();
    if (shown !== link) return;
    await window.MathJax?.typesetPromise?.([note]);
    for (const formula of note.querySelectorAll("[tabindex]")) formula.removeAttribute("tabindex");
    if (shown !== link) return;
    note.style.visibility = "";
    place(link);
  };
  // content: what the note holds, or a promise of it; by then the pointer may be elsewhere.
  const offer = (link, content) => {
    const open = async () => {
      wanted = link;
      const parts = await content();
      if (parts && wanted === link) show(link, ...parts);
    };
    link.addEventListener("pointerenter", open);
    link.addEventListener("pointerleave", hide);
    link.addEventListener("focusin", open);
    link.addEventListener("focusout", hide);
  };

  // Citations. Their links carry the reference as a title (see sphinxcontrib-bibtex).
  for (const link of document.querySelectorAll('.bd-article a[href*="bibliography.html#"][title]')) {
    link.dataset.reference = link.title;
    link.removeAttribute("title"); // or the browser would show it a second time
    offer(link, () => [link.dataset.reference]);
  }

  // Symbols (see booksite.glossary). MathJax lets the keyboard reach formulas, those that are text are
  // made to be reached; a tap shows the note, too, and a second one, or one elsewhere, hides it.
  for (const symbol of document.querySelectorAll(".bd-article .symbol")) {
    if (symbol.querySelector(".formula")) symbol.tabIndex = 0;
    offer(symbol, () => [symbol.dataset.note]);
    symbol.addEventListener("click", () => shown === symbol || show(symbol, symbol.dataset.note));
  }

  // Figures and equations, of this page and of others, and how other chapters begin.
  const copied = (target, base) => {
    const picture = target?.matches("figure, div.figure") && target.querySelector("img");
    const formula = target?.matches("div.math") && target;
    if (!picture && !formula) return null;
    const copy = (picture || formula.querySelector("mjx-container") || formula).cloneNode(true);
    if (picture) copy.src = new URL(picture.getAttribute("src"), base).href;
    for (const part of copy.querySelectorAll(".headerlink")) part.remove();
    for (const part of [copy, ...copy.querySelectorAll("[id], [tabindex]")]) {
      part.removeAttribute("id");
      part.removeAttribute("tabindex");
    }
    const caption = picture && target.querySelector("figcaption .caption-text, .caption-text");
    return caption ? [copy, caption.textContent] : [copy];
  };
  const begun = (section) => {
    const heading = section?.querySelector("h1, h2, h3, h4, h5")?.cloneNode(true);
    if (!heading) return null;
    heading.querySelector(".headerlink")?.remove();
    const title = document.createElement("strong");
    title.textContent = `${heading.textContent.trim()}. `;
    const opening = section.querySelector(":scope > dl.chapter-opening dd:nth-of-type(2)");
    const words = (opening ?? section.querySelector(":scope > p"))?.textContent.trim() ?? "";
    return [title, words.length > LONGEST ? `${words.slice(0, LONGEST)}…` : words];
  };
  for (const link of document.querySelectorAll('.bd-article a.reference.internal[href^="#"]')) {
    const target = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (copied(target, location)) offer(link, () => copied(target, location));
  }
  // A page that is opened as a file may not read others; there, links only lead to them.
  const pages = new Map();
  const read = (address) => {
    if (!pages.has(address)) {
      const text = fetch(address).then((answer) => (answer.ok ? answer.text() : ""));
      const parsed = text.then((html) => new DOMParser().parseFromString(html, "text/html"));
      pages.set(address, parsed.catch(() => null));
    }
    return pages.get(address);
  };
  const others = '.bd-article a.reference.internal:not([href^="#"]):not(:has(code, img))';
  for (const link of location.protocol === "file:" ? [] : document.querySelectorAll(others)) {
    offer(link, async () => {
      await new Promise((done) => setTimeout(done, PAUSE));
      const page = wanted === link && (await read(link.href.split("#")[0]));
      const name = decodeURIComponent(link.hash.slice(1));
      const target = page && (name ? page.getElementById(name) : page.querySelector("section"));
      return target && (copied(target, link.href) ?? begun(target.closest("section")));
    });
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", (event) => shown?.contains(event.target) || hide());
  document.addEventListener("scroll", () => shown && hide(), { passive: true, capture: true });

  // Equations, down to two thirds of their size; what is wider still keeps its scroll bar.
  const SMALLEST = 0.66;
  const fit = () => {
    for (const equation of document.querySelectorAll(".bd-article mjx-container[display]")) {
      equation.style.fontSize = "";
      const ratio = equation.clientWidth / equation.scrollWidth;
      if (ratio < 1) {
        const size = parseFloat(getComputedStyle(equation).fontSize);
        equation.style.fontSize = `${size * Math.max(SMALLEST, 0.98 * ratio)}px`;
      }
    }
  };
  window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(fit));
  window.addEventListener("resize", fit);

  // Print.
  let opened = [];
  let theme = null;
  window.addEventListener("beforeprint", () => {
    hide();
    opened = [...document.querySelectorAll(".bd-article details:not([open])")];
    for (const part of opened) part.open = true;
    theme = document.documentElement.dataset.theme ?? null;
    if (theme !== null) document.documentElement.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
    if (theme !== null) document.documentElement.dataset.theme = theme;
  });

  // The other edition (see booksite.editions). The last part of the page that begins in the upper
  // third of the window, or above it, is the one being read.
  const other = document.querySelector("a.edition-switch");
  if (other) {
    const page = other.href;
    const aim = () => {
      let place = "";
      if (window.scrollY > 40) {
        for (const part of document.querySelectorAll(".bd-article section[id], .bd-article figure[id]")) {
          if (part.getBoundingClientRect().top < window.innerHeight / 3) place = `#${part.id}`;
        }
      }
      other.href = page + place;
    };
    for (const event of ["pointerdown", "focus", "click"]) other.addEventListener(event, aim);
  }
})();
