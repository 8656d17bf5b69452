// How Sphinx's search orders what it finds, and what it shows of it. It is loaded before Sphinx's own
// searchtools.js, which takes `Scorer` from here.

// TeX as plain text: \(\sigma_{i} T^{ee}\) is sigma_i T^ee.
const withoutTeX = (text) =>
  text.replace(/\\(?:begin|end)\{\w+\*?\}|\\[()[\],;:!\\]|[{}$&]/g, "").replace(/\\(?=[A-Za-z])/g, " ").replace(/ +/g, " ");

// biome-ignore lint/correctness/noUnusedVariables: Sphinx's search reads it
var Scorer = {
  // The same weights as Sphinx's own.
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  // The main path, then the other pages, then the API reference; among pages of a kind by Sphinx's score.
  score: (result) => {
    const [page, title, , , score] = result;
    result[1] = withoutTeX(title); // before it is shown
    const last = /^(book\/(api|how-to)|genindex|py-modindex)/;
    return score + 1000 * (/^notebooks\/(?!0[014]-)\d/.test(page) ? 2 : last.test(page) ? 0 : 1);
  },
};

// What is shown of a page is cut from its text: without buttons and folded code.
addEventListener("DOMContentLoaded", () => {
  const { htmlToText: textOf, _parseQuery: parse } = Search;
  Search._parseQuery = (query) => parse(query.replace(/\blayer norm/i, "layernorm")); // as it is written here
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".bd-header-article, .prev-next-footer, details.hide").forEach((one) => {
      one.remove();
    });
    return withoutTeX(textOf(page.documentElement.outerHTML, anchor));
  };
}, true); // before the search begins
