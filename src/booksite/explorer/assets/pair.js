/* The explorer's pairs: what every head thinks of a query and a key of the reader's choice. */
"use strict";

(() => {
  const { go, make, model, mount, number, tokenElement } = lnattnExplorer;
  const { asked, combobox, factsOf, mainRanks, scores } = lnattnTokens;

  /** Score and rank of a key in one head: numbers, or null where the data do not say. */
  function judged(facts, key, head) {
    const place = facts.keys?.[head].findIndex(({ id }) => id === key) ?? -1;
    const isMain = facts.mainRank && facts.before[0][0] === key;
    return {
      score: place >= 0 ? facts.keys[head][place].score : null,
      rank: isMain ? facts.mainRank[head] : place >= 0 ? place + 1 : null,
      most: facts.keys?.[head].length ?? 0,
    };
  }

  function table(index, names, rows) {
    const best = Math.min(...rows.map(({ rank }) => rank ?? Infinity));
    return make(
      "table", {},
      make("caption", {}, `Of ${index.vocab.toLocaleString("en")} keys; 1 is the best`),
      make("thead", {}, make("tr", {}, ...["Head", "Score", "Rank", "Usual predecessor's rank"].map(
        (text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows.map(({ score, rank, most, main }, head) => make(
        "tr", { class: rank !== null && rank === best ? "best" : null },
        make("th", { scope: "row" }, String(head)),
        make("td", {}, score === null ? "–" : number(score, 1)),
        make("td", {}, rank !== null ? rank.toLocaleString("en") : most ? `beyond ${most}` : "–"),
        make("td", {}, main ? main.toLocaleString("en") : "–")))),
    );
  }

  mount("pair", ["model", "token", "key"], (place) => {
    let shown = null;
    const vocabulary = () => shown.part("tokens");
    const queries = combobox("explorer-query", "Query", vocabulary,
      (id) => go({ model: shown.one.folder, token: id, key: shown.key }, true));
    const keys = combobox("explorer-key", "Key", vocabulary,
      (id) => go({ model: shown.one.folder, token: shown.query, key: id }, true));
    const words = make("p", { "aria-live": "polite" });
    const numbers = make("div", {
      class: "numbers", role: "region", tabindex: "0", "aria-label": "The pair in every head",
    });
    place.replaceChildren(
      make("div", { class: "controls" }, queries.element, keys.element), words, numbers);

    return async (isLatest) => {
      const { one, index, part } = await model();
      if (!one) return;
      const query = await asked("token", index, part, index.start);
      const facts = await factsOf(index, part, query);
      const key = await asked("key", index, part, facts.before[0]?.[0] ?? query);
      let names = index.names;
      if (query !== index.start || !(key in names)) names = await part("tokens");
      if (!isLatest()) return;
      const all = one.computed ? await scores(one, part, index.vocab) : null;
      if (all) facts.mainRank = mainRanks(index, facts, all);
      const rows = index.auroc.map((_, head) => ({
        ...(all ? { score: all.of(query, key, head), rank: all.rank(head, query, key) }
          : judged(facts, key, head)),
        main: facts.mainRank?.[head],
      }));
      const note = all ? "" : " A score is known where the key is among those listed above.";
      if (!isLatest()) return;
      const other = one !== shown?.one;
      shown = { one, part, query, key };
      queries.set(names[query], other);
      keys.set(names[key], other);
      const count = new Map(facts.before).get(key);
      const times = count !== undefined ? `${count.toLocaleString("en")} times`
        : facts.kinds === 0 ? "never" : `fewer than ${index.listedFrom} times`;
      const usual = facts.mainRank && facts.before[0];
      words.replaceChildren(
        "In the text, ", tokenElement(names[key]), " stands directly before ",
        tokenElement(names[query]), ` ${times}`,
        ...(usual && usual[0] !== key
          ? ["; its usual predecessor is ", tokenElement(names[usual[0]]), ` (${usual[1]} times).`]
          : usual ? ["; it is the usual predecessor."] : ["; nothing does so often."]), note);
      numbers.replaceChildren(table(index, names, rows));
    };
  });
})();
