// Adds a search, "hide skipped" and buttons that copy commands. A page without scripts shows all of it.
(() => {
  const ITEM = "tbody tr, details.item, .targets > li";
  const main = document.querySelector("main");
  const items = [...main.querySelectorAll(ITEM)].filter((item) => !item.parentElement.closest(ITEM));
  // rows of one file begin with its name and a line; with the folder they can be searched by the whole path
  const folderOf = (item) => item.closest("[data-folder]")?.dataset.folder ?? "";
  const texts = items.map((item) => (folderOf(item) + item.textContent).toLowerCase());
  const parts = [...main.querySelectorAll("table, details:not(.item), section")];
  const around = items.map((item) => parts.filter((part) => part.contains(item)));
  const isSkipped = (item) => {
    const said = item.querySelector(":scope > summary") ?? item;
    return said.querySelector(".badge.skipped") && !said.querySelector(".badge:not(.skipped)");
  };
  const skipped = new Set(items.filter(isSkipped));

  const make = (tag, attributes, ...content) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.append(...content);
    return element;
  };
  const search = make("input", { type: "search", placeholder: "Search names, reasons, files", id: "search" });
  search.setAttribute("aria-label", "Search");
  const hide = make("input", { type: "checkbox", checked: true });
  const shown = make("output", {});
  const nothing = make("p", { className: "nothing", hidden: true });
  const opened = new Set();

  const update = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    let hiddenSkipped = 0;
    items.forEach((item, i) => {
      const found = words.every((word) => texts[i].includes(word));
      const isHidden = hide.checked && skipped.has(item);
      item.hidden = !found || isHidden;
      count += !item.hidden;
      hiddenSkipped += found && isHidden;
    });
    nothing.hidden = count > 0;
    nothing.textContent = `Nothing is found for “${search.value.trim()}”.`
      + (hiddenSkipped ? ` ${hiddenSkipped} of what is hidden has it: clear “hide skipped”.` : "");
    const kept = new Set(items.flatMap((item, i) => (item.hidden ? [] : around[i])));
    for (const part of new Set(around.flat())) {
      const isSection = part.tagName === "SECTION";
      part.hidden = !kept.has(part) && (!isSection || words.length > 0);
      // what is found is unfolded; what was unfolded for a search is folded again after it
      if (part.tagName !== "DETAILS") continue;
      if (words.length && kept.has(part) && !part.open) { part.open = true; opened.add(part); }
      if (!words.length && opened.delete(part)) part.open = false;
    }
    shown.value = `${count} of ${items.length} shown`;
  };

  if (items.length > 1) {
    const bar = make("form", { className: "tools" }, search);
    bar.setAttribute("role", "search");
    if (skipped.size) bar.append(make("label", {}, hide, ` hide skipped (${skipped.size})`));
    bar.append(shown);
    bar.addEventListener("submit", (event) => event.preventDefault());
    search.addEventListener("input", update);
    hide.addEventListener("change", update);
    document.querySelector("nav").after(bar, nothing);
    update();
    // a link to what is hidden shows it
    const reveal = () => {
      const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target || !target.closest("[hidden]")) return;
      search.value = "";
      hide.checked = false;
      update();
      for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
      target.scrollIntoView();
    };
    addEventListener("hashchange", reveal);
    document.addEventListener("click", (event) => event.target.closest('a[href^="#"]') && setTimeout(reveal));
    reveal();
  }

  for (const command of document.querySelectorAll("code.command")) {
    const button = make("button", { type: "button", className: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      const text = command.textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        getSelection().selectAllChildren(command);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    command.after(" ", button);
  }
})();
