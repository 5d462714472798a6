// Rules for the requests of htmx, on the pages for people and on the operator's desk.
(function () {
  "use strict";

  // A hidden tab requests no figures.  It gets them when it is shown again.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.detail.elt.hasAttribute("data-live")) event.preventDefault();
  });

  // Parts of the figures that did not change keep the focus and the selected text.
  document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
    if (detail.target.isEqualNode(detail.fragment.firstElementChild)) detail.shouldSwap = false;
  });

  // A list that the server does not send is loaded as a page, which shows the reason: for example,
  // the log-in has ended.  Figures stay as they are, with their time.
  function load({ boosted, pathInfo }) {
    if (boosted) location.assign(new URL(pathInfo.finalRequestPath, location.href));
  }
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { isError, pathInfo, xhr } = event.detail;
    const requested = new URL(pathInfo.finalRequestPath, location.href);
    const answered = new URL(xhr.responseURL || requested, location.href);
    if (!isError && answered.pathname === requested.pathname) return;
    event.preventDefault();
    load(event.detail);
  });
  document.addEventListener("htmx:sendError", ({ detail }) => load(detail));

  // A link to another page of a list disappears with its rows.  The list gets its focus.
  document.addEventListener("htmx:afterSettle", ({ detail }) => {
    if (detail.boosted && document.activeElement === document.body) {
      document.getElementById("list")?.focus({ preventScroll: true });
    }
  });

  // The form of the language returns to the address that is shown.
  document.addEventListener("htmx:pushedIntoHistory", () => {
    const next = document.querySelector("form.language [name=next]");
    if (next) next.value = location.pathname + location.search;
  });
})();
