/* Widgets in chapters. Each stands in for a figure, whose picture stays for print and where scripts do not run.
 * Nothing of a widget is loaded before its figure comes near.
 */
"use strict";

globalThis.lnattnChapter = (() => {
  const base = new URL(".", document.currentScript.src);

  /** Style sheet and scripts of a widget, in their order. */
  function load({ dataset }) {
    const [style, ...scripts] = dataset.scripts.split(" ");
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = new URL(style, base);
    sheet.onload = () => {
      for (const name of scripts) {
        const script = document.createElement("script");
        script.async = false;
        script.src = new URL(name, base);
        document.head.append(script);
      }
    };
    document.head.append(sheet);
  }

  /** What a widget shows, in the caption of its figure and in place of what is said of the picture. */
  function caption(place, ...words) {
    const of = place.closest("figure");
    const told = of.querySelector(".of-widget") ?? document.createElement("span");
    told.className = "of-widget";
    told.replaceChildren(...words);
    of.querySelector(".caption-text").before(told);
  }

  for (const place of document.querySelectorAll(".token-explorer[data-figure]")) {
    const figure = document.getElementById(place.dataset.figure);
    figure.querySelector("figcaption").before(place);
    const near = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      near.disconnect();
      load(place);
    }, { rootMargin: "300px" });
    near.observe(figure);
  }

  return { caption };
})();
