// Three comforts for every page: a citation shows its reference when it is pointed at or focused, a
// printed page is light and has its folded parts open, and the link to the book's other edition
// leads to the place that is being read. Without this script, all still work: the browser shows the
// reference as a plain title, folded parts print folded, and the link leads to the top of the page.
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
