// Refreshes the figures of the status page: copies the labels of /status.json into their places.
(function () {
  "use strict";
  const EVERY_MS = 5000;

  function place(status) {
    for (const spot of document.querySelectorAll("[data-count]")) {
      const label = status.labels[spot.dataset.count];
      if (label !== undefined && spot.textContent !== label) spot.textContent = label;
      const tone = status.tones[spot.dataset.count];
      if (tone !== undefined) spot.dataset.tone = tone;
    }
    for (const part of document.querySelectorAll("[data-share]")) {
      const [group, name] = part.dataset.share.split(".");
      part.style.flexGrow = status[group][name];
    }
    const readAt = document.getElementById("read-at");
    readAt.dateTime = status.read_at;
    readAt.textContent = status.read_at.slice(0, 19).replace("T", " ");
  }

  async function refresh() {
    if (document.hidden) return;
    try {
      const language = encodeURIComponent(document.documentElement.lang);
      const answer = await fetch(`/status.json?language=${language}`, { cache: "no-store" });
      if (answer.ok) place(await answer.json());
    } catch {
      // The server may be restarting; the next refresh tries again.
    }
  }

  setInterval(refresh, EVERY_MS);
  document.addEventListener("visibilitychange", refresh);
})();
