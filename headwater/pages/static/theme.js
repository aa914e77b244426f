// Light, dark, or as the system says. Loaded before the page is drawn, so that it never flashes in the wrong colours.
"use strict";
(() => {
  const KEY = "headwater.theme", ORDER = ["system", "light", "dark"];
  const said = { system: "as the system", light: "light", dark: "dark" };
  const read = () => { try { const kept = localStorage.getItem(KEY); return ORDER.includes(kept) ? kept : "system"; } catch { return "system"; } };
  const apply = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      button.setAttribute("aria-label", `Colours: ${said[theme]}`);
      button.title = `Colours: ${said[theme]}`;
    }
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    apply(read());
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      button.addEventListener("click", () => {
        const next = ORDER[(ORDER.indexOf(read()) + 1) % ORDER.length];
        try { localStorage.setItem(KEY, next); } catch { /* a private window: it holds for this page */ }
        apply(next);
      });
    }
  });
})();
