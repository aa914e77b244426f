// The console in motion: panels come rendered from the server and are taken over node by node, so that focus, selection and
// what is open stay where they are; points go to the plots.
"use strict";
(() => {
  const current = document.querySelector(".tabs [aria-current]"), tabs = current?.closest(".tabs");
  if (tabs) tabs.scrollLeft = current.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
  const line = document.querySelector("[data-live]");
  if (!line) return;
  const linkState = document.querySelector("[data-link-state]");
  const held = new Set();

  const keyOf = (node) => node.dataset?.key;
  const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;

  // Makes `old` what `made` is, touching only what differs. What has a key (data-key) stays what it is, whatever comes and goes
  // beside it: a button under the finger never becomes another one.
  const takeOver = (old, made) => {
    const wanted = [...made.childNodes], keys = new Set(wanted.map(keyOf).filter(Boolean));
    const known = new Map([...old.children].filter(keyOf).map((node) => [keyOf(node), node]));
    let now = old.firstChild;
    const drop = () => { const gone = now; now = now.nextSibling; gone.remove(); };
    for (const node of wanted) {
      const key = keyOf(node), same = known.get(key);
      while (now && (keyOf(now) ? !keys.has(keyOf(now)) : key ? same : isElement(node) && !isElement(now))) drop();
      if (same) {
        if (now !== same) old.insertBefore(same, now);
        now = same;
      }
      if (!same && (key || !now || keyOf(now) || !isElement(node) && isElement(now))) { old.insertBefore(node, now); continue; }
      if (now.nodeName !== node.nodeName) { now.before(node); drop(); continue; }
      if (isElement(node)) change(now, node); else if (now.nodeValue !== node.nodeValue) now.nodeValue = node.nodeValue;
      now = now.nextSibling;
    }
    while (now) drop();
  };
  const STAYS = ["open", "disabled"]; // what a person opened, and a button that was pressed
  const change = (now, node) => {
    for (const { name } of [...now.attributes]) if (!node.hasAttribute(name) && !STAYS.includes(name)) now.removeAttribute(name);
    for (const { name, value } of node.attributes) if (now.getAttribute(name) !== value && !STAYS.includes(name)) now.setAttribute(name, value);
    takeOver(now, node);
  };

  const show = (name, html) => {
    if (held.has(name)) return;
    const made = new DOMParser().parseFromString(html, "text/html").body;
    for (const panel of document.querySelectorAll(`[data-panel="${CSS.escape(name)}"]`)) {
      const had = panel.contains(document.activeElement);
      takeOver(panel, made.cloneNode(true));
      if (had && !panel.contains(document.activeElement)) { panel.tabIndex = -1; panel.focus({ preventScroll: true }); } // what had it is gone
    }
  };

  const say = (text) => { if (linkState && linkState.textContent !== text) linkState.textContent = text; };

  const { live, view, root } = line.dataset;
  const asked = new URLSearchParams({ page: live || "none", view: view || "", root });
  window.headwaterListen({
    address: () => `${root}console/live?${asked}`,
    takes: { panel: ({ name, html }) => show(name, html), points: (points) => window.headwaterPlots?.add(points) },
    state: (isLive, how) => { say(how); document.body.classList.toggle("lost", !isLive); },
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  for (const button of document.querySelectorAll("[data-hold]")) {
    button.addEventListener("click", () => {
      const name = button.dataset.hold, holds = !held.has(name);
      if (holds) held.add(name); else held.delete(name);
      button.setAttribute("aria-pressed", String(holds));
      button.textContent = holds ? "Let it move" : "Hold still";
    });
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    } catch { button.textContent = "Not allowed here"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  document.addEventListener("submit", (event) => {
    const asks = event.submitter?.dataset.confirm || event.target.dataset.confirm;
    if (asks && !window.confirm(asks)) { event.preventDefault(); return; }
    if (asks) event.target.addEventListener("formdata", (made) => made.formData.set("asked", "yes"), { once: true }); // else the server asks
    // Once: the page that comes back says what became of it.
    const buttons = event.target.querySelectorAll("button:not([type=button])");
    setTimeout(() => buttons.forEach((button) => { button.disabled = true; }), 0);
  });
})();
