// An open inbox: news arrive by server-sent events, and after a pause the browser goes on from the last one it has.
"use strict";
(() => {
  const live = document.getElementById("live"), list = document.getElementById("news");
  const said = document.getElementById("live-said"), told = document.getElementById("news-said");
  if (!live || !list || !window.EventSource) return;
  live.hidden = false;
  let count = 0;
  const title = document.title;
  const stream = new EventSource(live.dataset.live);
  stream.addEventListener("open", () => { live.classList.add("is-on"); said.textContent = "Live"; });
  stream.addEventListener("error", () => { live.classList.remove("is-on"); said.textContent = "Reconnecting…"; });
  stream.addEventListener("news", (event) => {
    const news = JSON.parse(event.data);
    if (document.getElementById(`news-${news.sequence}`)) return;
    const made = new DOMParser().parseFromString(news.html, "text/html").body.firstElementChild;
    document.getElementById("nothing").hidden = true;
    list.prepend(made);
    count += 1;
    told.textContent = `New: ${made.querySelector("h2").textContent}`;
    if (document.hidden) document.title = `(${count}) ${title}`;
  });
  addEventListener("pagehide", () => stream.close());
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { count = 0; document.title = title; } });

  const words = (seconds) => {
    for (const [size, word] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
      if (seconds >= size * .75) { const n = Math.max(1, Math.round(seconds / size)); return `${n} ${word}${n > 1 ? "s" : ""} ago`; }
    }
    return "just now";
  };
  setInterval(() => {
    for (const time of list.querySelectorAll("time")) {
      const age = (Date.now() - Date.parse(time.dateTime)) / 1000;
      if (age < 31 * 86400) time.textContent = words(age);
    }
  }, 20000);
})();
