// How Sphinx's search orders what it finds, and what it shows of it. It is loaded before Sphinx's own
// searchtools.js, which takes `Scorer` from here.

// TeX as plain text: \(\sigma_{i} T^{ee}\) is sigma_i T^ee.
const withoutTeX = (text) =>
  text.replace(/\\(?:begin|end)\{\w+\*?\}|\\[()[\],;:!\\]|[{}$&]/g, "").replace(/\\(?=[A-Za-z])/g, " ").replace(/ +/g, " ");

// Where a person is led who asks for what pages say in other words, or say everywhere: a page and a
// place in it.
const MEANT = [
  [/^(how (to|do i) )?(re-?)?(run|execute|install)\b/, "book/how-to-re-execute", ""],
  [/\bcit(e|ing|ation)\b/, "book/index", "#how-to-cite"],
  [/\b(rope|rotary)\b/, "notebooks/12-rotary", ""],
  [/^(the )?switch$|\blook(s|ing)? back\b|\b(every|worst) text|\bguarantee/, "notebooks/13-for-every-text", ""],
  [/\b(layers? above|(later|deeper) layers?)\b/, "notebooks/layers-above", ""],
  [/^variances?$/, "notebooks/07-variance", ""],
  [/^(the )?(claims?|verdicts?)$/, "book/claims", ""],
  [/\bown (model|checkpoint|sentence|text)\b/, "book/token-explorer", ""],
  [/\bbook-?(gpt-?2|llama)\b/, "notebooks/book-model", ""],
];

// A name as Python spells it, which is no word of a sentence, leads to its docstring.
const NAME = /^[\w.]*(?:[_.]|[a-z][A-Z])[\w.]*$/;
const isOf = (name, [page, title]) => page.startsWith("book/api/") && `.${title}`.endsWith(`.${name}`);

// biome-ignore lint/correctness/noUnusedVariables: Sphinx's search reads it
var Scorer = {
  // The same weights as Sphinx's own.
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  // The main path, then the other pages, then the API reference; among pages of a kind by Sphinx's
  // score, and of chapters that score alike the first in the book first.
  score: (result) => {
    const [page, title, , , score] = result;
    result[1] = withoutTeX(title); // before it is shown
    const chapter = Number(/^notebooks\/(\d+)/.exec(page)?.[1] ?? 0);
    const last = /^(book\/(api|how-to)|genindex|py-modindex)/;
    return score + (chapter ? 2000 - chapter / 100 : last.test(page) ? 0 : 1000);
  },
};

// What is shown of a page is cut from its text: without buttons and folded code.
addEventListener("DOMContentLoaded", () => {
  const { htmlToText: textOf, _parseQuery: parse, _performSearch: perform } = Search;
  Search._parseQuery = (query) => parse(query.replace(/\blayer norm/i, "layernorm")); // as it is written here
  Search._performSearch = (query, ...terms) => {
    const results = perform(query, ...terms); // the best one is the last
    const asked = query.trim();
    if (NAME.test(asked)) results.sort((one, other) => isOf(asked, one) - isOf(asked, other));
    for (const [words, page, place] of MEANT) {
      const file = Search._index.docnames.indexOf(page);
      if (file < 0 || !words.test(query.toLowerCase().trim())) continue;
      const title = withoutTeX(Search._index.titles[file]);
      results.push([page, title, place, null, Infinity, Search._index.filenames[file]]);
    }
    return results;
  };
  const { makeSearchSummary: summaryOf } = Search;
  Search.makeSearchSummary = (...asked) => {
    const summary = summaryOf(...asked);
    // Sphinx cuts anywhere; a snippet begins with a whole word.
    if (summary) summary.textContent = summary.textContent.replace(/^\.\.\.\S*[^\w'‘“(–-]+/, "…");
    return summary;
  };
  // The page's own text, without its title and what only leads somewhere.
  const ASIDE = "h1, button, .check-note, .checks-switch, .figure-files, details.hide";
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article.bd-article");
    if (article) page.querySelector('[role="main"]')?.replaceChildren(article);
    page.querySelectorAll(ASIDE).forEach((one) => {
      one.remove();
    });
    return withoutTeX(textOf(page.documentElement.outerHTML, anchor));
  };
}, true); // before the search begins
