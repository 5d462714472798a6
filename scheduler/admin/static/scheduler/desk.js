// Updates the operator's desk every 15 seconds while it is visible, without moving the page.

const EVERY_MS = 15000;

async function update() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.pathname + location.search, { credentials: "same-origin", redirect: "error" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("desk");
    if (fresh) document.getElementById("desk").replaceWith(fresh);
  } catch {
    // The server is not reachable; the time at the end of the desk shows how old its figures are.
  }
}

setInterval(update, EVERY_MS);
