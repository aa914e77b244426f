// Server-sent events for as long as somebody looks. A stream that breaks is the browser's to mend; one that is refused, as by a
// proxy whose server starts anew, would be over for good: it is asked for again, from where the page is by then. A browser has six
// connections for a server over HTTP/1.1, and each stream holds one: a page that is out of sight lets its own go.
"use strict";
(() => {
  const AGAIN_MS = 5000, REFUSED_MAX = 2, HIDDEN_MS = 5000, GLANCE_MS = 60000;

  // `address` says where to listen from now on, `takes` what becomes of each kind of event, `state` is told whether it is live,
  // and if not, how it stands. Who `glances` looks once a minute for what came, out of sight, too.
  window.headwaterListen = ({ address, takes, state, glances = false }) => {
    let stream = null, timer = 0, lost = 0; // lost: over all streams, as one that is refused is followed by another
    const later = (what, ms) => { clearTimeout(timer); timer = setTimeout(what, ms); };
    const close = () => { clearTimeout(timer); stream?.close(); };
    const isOver = () => !stream || stream.readyState === EventSource.CLOSED;
    const open = () => {
      close();
      stream = new EventSource(address());
      for (const [name, take] of Object.entries(takes)) stream.addEventListener(name, (event) => take(JSON.parse(event.data)));
      stream.addEventListener("open", () => { lost = 0; state(true, ""); });
      stream.addEventListener("error", () => {
        lost += 1;
        state(false, lost > REFUSED_MAX && isOver() ? "Signed out or gone: load the page again" : "Connection lost, trying again");
        if (isOver()) later(document.hidden ? rest : open, AGAIN_MS);
      });
    };
    const rest = () => { close(); if (glances) later(glance, GLANCE_MS); };
    const glance = () => { open(); later(rest, HIDDEN_MS); };
    const look = () => {
      if (document.hidden) later(rest, HIDDEN_MS); else if (isOver()) open(); else clearTimeout(timer);
    };
    document.addEventListener("visibilitychange", look);
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => { if (event.persisted) look(); });
    look();
  };
})();
