// How Sphinx's search orders what it finds, and what it shows of it (see booksite.search).
// It is loaded before Sphinx's own searchtools.js, which takes `Scorer` from here.
const SIGNS = {
  alpha: "α", beta: "β", gamma: "γ", Delta: "Δ", delta: "δ", epsilon: "ε", varepsilon: "ε",
  kappa: "κ", lambda: "λ", mu: "μ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", theta: "θ", phi: "φ",
  varphi: "φ", psi: "ψ", omega: "ω", cdot: "·", times: "×", approx: "≈", neq: "≠", le: "≤",
  leq: "≤", ge: "≥", geq: "≥", to: "→", top: "ᵀ", infty: "∞", sum: "Σ", sqrt: "√", in: "∈",
  pm: "±", odot: "⊙", lVert: "‖", rVert: "‖", dots: "…", ldots: "…", quad: " ", qquad: " ",
};

// Operators, which are said by their names.
const NAMES = new Set("Cov Var LN cos diag exp log max min softmax".split(" "));

// What of a page is not its text: buttons, links to other pages, and code that is folded.
const ASIDE = ".bd-header-article, .prev-next-footer, details.hide, style, script";

// TeX as one would say it in plain text: \(T^{ee}\) is T^ee.
const withoutTeX = (text) =>
  text
    .replace(/\\[()[\],;:!]|\\\\|[$&]/g, " ")
    .replace(/\\(?:begin|end)\{\w+\*?\}|\\label\{[^}]*\}/g, " ")
    .replace(/\\([A-Za-z]+)/g, (_, name) => SIGNS[name] ?? (NAMES.has(name) ? name : ""))
    .replace(/[{}\\]/g, "")
    .replace(/ +/g, " ");

var Scorer = {
  // The same weights as Sphinx's own.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  // Chapters, then the other pages, then the API reference; among pages of a kind by Sphinx's
  // score, then by number. Called once for each result, before they are shown: so the title's
  // mathematics is made readable here.
  score: (result) => {
    const [page, title, , , score] = result;
    result[1] = withoutTeX(title);
    const last = /^(book\/(api|how-to)|genindex|py-modindex)/;
    const kind = /^notebooks\/\d/.test(page) ? 2 : last.test(page) ? 0 : 1;
    return 1000 * kind + score;
  },
};

// What is shown of a page is cut from its text, where mathematics is TeX still.
document.addEventListener("DOMContentLoaded", () => {
  const textOf = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(ASIDE).forEach((one) => one.remove());
    page.querySelectorAll(".math").forEach((one) => {
      one.textContent = withoutTeX(one.textContent).trim();
    });
    return textOf(page.documentElement.outerHTML, anchor);
  };
});
