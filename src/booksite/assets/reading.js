// Two comforts for every page: a citation shows its reference when it is pointed at or focused, and
// a printed page is light and has its folded parts open. Without this script, both still work: the
// browser shows the reference as a plain title, and folded parts print folded.
(() => {
  "use strict";

  // Citations. Their links carry the reference as a title (see sphinxcontrib-bibtex).
  const note = document.createElement("div");
  note.className = "citation-note";
  note.id = "citation-note";
  note.setAttribute("role", "tooltip");
  note.hidden = true;
  document.body.append(note);
  let shown = null;

  const hide = () => {
    if (shown) shown.removeAttribute("aria-describedby");
    shown = null;
    note.hidden = true;
  };
  const show = (link) => {
    shown = link;
    note.textContent = link.dataset.reference;
    note.hidden = false;
    link.setAttribute("aria-describedby", note.id);
    const place = link.getBoundingClientRect();
    const width = Math.min(420, document.documentElement.clientWidth - 16);
    note.style.width = `${width}px`;
    const left = Math.min(place.left, document.documentElement.clientWidth - width - 8);
    note.style.left = `${Math.max(8, left)}px`;
    const below = place.bottom + 6;
    const fits = below + note.offsetHeight < window.innerHeight;
    note.style.top = `${fits ? below : place.top - note.offsetHeight - 6}px`;
  };
  for (const link of document.querySelectorAll('.bd-article a[href*="bibliography.html#"][title]')) {
    link.dataset.reference = link.title;
    link.removeAttribute("title"); // or the browser would show it a second time
    link.addEventListener("pointerenter", () => show(link));
    link.addEventListener("pointerleave", hide);
    link.addEventListener("focus", () => show(link));
    link.addEventListener("blur", hide);
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("scroll", () => shown && hide(), { passive: true, capture: true });

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
})();
