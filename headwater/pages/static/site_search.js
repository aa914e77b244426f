// The search page: filters that apply themselves, and the dialog that saves a search. All of it works without this, too.
"use strict";
(() => {
  const zone = (root) => { for (const field of root.querySelectorAll("[data-time-zone]")) { if (!field.value) { try { field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || ""; } catch { /* UTC, then */ } } } };
  zone(document);

  // Saved once, however often the button is pressed; it comes back with the page.
  addEventListener("submit", (event) => {
    const button = event.target.matches(".save-form") && event.target.querySelector("button.primary");
    if (!button) return;
    if (button.ariaDisabled === "true") event.preventDefault(); else button.ariaDisabled = "true";
  });
  addEventListener("pageshow", () => { for (const button of document.querySelectorAll(".save-form button.primary")) button.ariaDisabled = null; });

  // A form without what is empty: an address that can be read and sent to somebody. An empty value that was chosen is one.
  const form = document.getElementById("search");
  if (form) {
    form.addEventListener("submit", () => { for (const field of form.elements) if (field.name && !field.value && !field.name.startsWith("is.")) field.disabled = true; });
    addEventListener("pageshow", () => { for (const field of form.elements) field.disabled = false; });
    for (const field of document.querySelectorAll(".range-ends input")) field.addEventListener("change", () => form.requestSubmit());
  }
  const sort = document.getElementById("sort");
  if (sort) sort.addEventListener("change", () => sort.form.requestSubmit());

  // On a phone the filters begin closed.
  const fold = document.getElementById("filters-fold");
  if (fold && matchMedia("(max-width: 52rem)").matches) fold.open = false;

  // "/" leads to the search box, as people expect.
  const box = document.getElementById("q");
  if (box) addEventListener("keydown", (event) => { if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { event.preventDefault(); box.focus(); box.select(); } });

  const link = document.getElementById("save"), dialog = document.getElementById("save-dialog");
  if (!link || !dialog || !dialog.showModal) return;
  const body = dialog.querySelector(".dialog-body");
  dialog.addEventListener("click", (event) => { if (event.target === dialog || event.target.closest("[data-close]")) dialog.close(); });
  link.addEventListener("click", async (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const wait = document.createElement("p");
    wait.className = "dialog-wait";
    wait.textContent = "Counting what it would have told…";
    body.replaceChildren(wait);
    dialog.showModal();
    const address = new URL(link.href);
    address.searchParams.set("part", "true");
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const each of page.querySelectorAll("form")) each.action = new URL(each.getAttribute("action"), answer.url).href;
      body.replaceChildren(...page.body.childNodes);
      zone(body);
      const name = body.querySelector("#label");
      if (name) { name.focus(); name.select(); }
    } catch { location.href = link.href; } // the page of its own says what is wrong
  });
})();
