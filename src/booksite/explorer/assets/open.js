/* The explorer's model: one that comes with the page, or a reader's own checkpoint. */
"use strict";

(() => {
  const { go, make, mount, options } = lnattnExplorer;
  const NO_VIEW = { token: "", key: "", head: "", query: "" };

  // ---- Choosing ------------------------------------------------------------------------------------

  mount("model", ["model"], (place) => {
    const select = make("select", {
      id: "explorer-model", change: () => go({ ...NO_VIEW, model: select.value }, true),
    });
    const why = make("p", { class: "hint" });
    place.replaceChildren(
      make("div", { class: "controls" }, make("div", {}, make("label", { for: select.id }, "Model"), select)), why);

    return async (isLatest) => {
      const { listed, missing, one } = await lnattnModels.named();
      if (!isLatest()) return;
      options(select, listed.map(({ folder, name }) => [folder, name]), one.folder);
      why.textContent = `${missing ? "The address names a model that is not here; open it again. " : ""}${one.name}, ${one.why}: `
        + `${one.vocab.toLocaleString("en")} tokens, ${one.heads} heads.`;
    };
  });

  // ---- Opening a checkpoint ------------------------------------------------------------------------

  /** What is said of a model that was just opened. */
  function report({ file, one, seconds }) {
    const megabytes = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
    return `${one.name}: ${one.vocab.toLocaleString("en")} tokens, ${one.heads} heads; ${megabytes(file.read())} of `
      + `${megabytes(file.size)} read in ${seconds.toFixed(1)} s. All tools of this page show it.`;
  }

  /** The first table of the report. */
  function table(facts) {
    return make("table", { class: "facts" }, make("caption", {}, "What the model is"),
      make("tbody", {}, ...facts.map(([label, text]) => make("tr", {}, make("th", { scope: "row" }, label), make("td", {}, text)))));
  }

  mount("open", [], (place) => {
    const said = make("p", { class: "hint", role: "status" });
    const about = make("div", {});
    const absent = make("p", { class: "hint" });

    async function show(opening) {
      said.className = "hint";
      said.textContent = "Reading the first layer …";
      about.replaceChildren();
      const tell = (share) => (said.textContent = `Reading the first layer … ${Math.round(100 * share)} %`);
      try {
        const model = await opening(tell);
        go({ ...NO_VIEW, model: model.one.folder }, true);
        said.textContent = report(model);
        about.replaceChildren(table(model.facts));
      } catch (error) {
        said.className = "problem";
        said.textContent = error.message;
      }
    }

    const openFiles = (files) => files.length && show((tell) => lnattnModels.openFiles([...files], tell));
    const input = make("input", {
      id: "explorer-files", type: "file", multiple: "", change: () => openFiles(input.files),
    });
    const zone = make("div", {
      class: "drop",
      dragover: (event) => event.preventDefault(),
      drop: (event) => {
        event.preventDefault();
        return openFiles(event.dataTransfer.files);
      },
    },
    make("label", { for: "explorer-files" }, "Your own checkpoint: choose, or drop here, its model.safetensors (or its parts), "
      + "config.json and tokenizer.json (not needed with GPT-2's tokens)."), input,
    make("p", { class: "hint" }, "Your browser reads them; nothing leaves this machine."));
    place.replaceChildren(zone, said, about, absent);

    return async () => {
      const { all } = await lnattnModels.named();
      const reasons = all.absent.map(({ name, why }) => `${name} (${why.replace(/\.$/, "")})`);
      absent.textContent = reasons.length ? `Not shown in this edition: ${reasons.join("; ")}.` : "";
    };
  });
})();
