// Before the book is printed: what is wider than the paper is made smaller, once its mathematics
// is set. `zoom` shrinks the space that a thing takes too, which a transform does not.
(async () => {
  "use strict";
  await window.MathJax?.startup?.promise;
  await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
  const room = document.querySelector("main").clientWidth;
  for (const thing of document.querySelectorAll("main table, main mjx-container[display], main svg")) {
    const { left, right } = thing.getBoundingClientRect();
    const inner = thing.matches("mjx-container") ? thing.firstElementChild.scrollWidth : 0;
    const width = Math.max(right - left, thing.scrollWidth, inner);
    const free = room - Math.max(0, left - document.querySelector("main").offsetLeft);
    if (width > free) thing.style.zoom = free / width;
  }
})();
