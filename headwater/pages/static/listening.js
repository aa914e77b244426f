// Server-sent events for as long as a page is open. A stream that breaks is the browser's to mend; one that is refused, as by a
// proxy whose server starts anew, would be over for good: it is asked for again, from where the page is by then.
"use strict";
(() => {
  const AGAIN_MS = 5000, REFUSED_MAX = 2;

  // `address` says where to listen from now on, `takes` what becomes of each kind of event, `state` is told whether it is live,
  // and if not, how it stands.
  window.headwaterListen = ({ address, takes, state }) => {
    let stream = null, timer = 0, lost = 0; // over all streams: one that is refused is followed by another
    const later = (what, ms) => { clearTimeout(timer); timer = setTimeout(what, ms); };
    const close = () => { clearTimeout(timer); stream?.close(); };
    const isOver = () => stream.readyState === EventSource.CLOSED;
    const open = () => {
      close();
      stream = new EventSource(address());
      for (const [name, take] of Object.entries(takes)) stream.addEventListener(name, (event) => take(JSON.parse(event.data)));
      stream.addEventListener("open", () => { lost = 0; state(true, ""); });
      stream.addEventListener("error", () => {
        lost += 1;
        state(false, lost > REFUSED_MAX && isOver() ? "Signed out or gone: load the page again" : "Connection lost, trying again");
        if (isOver()) later(open, AGAIN_MS);
      });
    };
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => { if (event.persisted) open(); });
    open();
  };
})();
