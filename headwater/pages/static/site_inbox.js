// An open inbox: news arrive by server-sent events, and after a pause the page goes on from the last one it has.
"use strict";
(() => {
  const live = document.getElementById("live"), list = document.getElementById("news");
  const said = document.getElementById("live-said"), told = document.getElementById("news-said");
  if (!live || !list || !window.EventSource) return;
  live.hidden = false;
  const SHOWN_MAX = 200, older = document.getElementById("older");
  const title = document.title, address = new URL(live.dataset.live, location.href);
  let count = 0, last = Number(address.searchParams.get("after"));
  const show = (news) => {
    if (news.sequence <= last) return;
    last = news.sequence;
    const made = new DOMParser().parseFromString(news.html, "text/html").body.firstElementChild;
    document.getElementById("nothing").hidden = true;
    list.prepend(made);
    if (list.children.length > SHOWN_MAX) { // what goes is where older ones are
      list.lastElementChild.remove();
      older.hidden = false;
      older.querySelector("a").search = `?before=${list.lastElementChild.dataset.sequence}`;
    }
    count += 1;
    told.textContent = `New: ${made.querySelector("h2").textContent}`;
    if (document.hidden) document.title = `(${count}) ${title}`;
  };
  window.headwaterListen({
    address: () => { address.searchParams.set("after", last); return address; },
    takes: { news: show },
    state: (isLive, how) => { live.classList.toggle("is-on", isLive); said.textContent = isLive ? "Live" : how; },
    glances: true, // for the number in the title
  });
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
