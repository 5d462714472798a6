// Copies the column headers to the cells of a list; on narrow screens each row is shown as a card.
// Names what Django's widgets leave without a name for screen readers.

const headers = [...document.querySelectorAll("#result_list thead th")].map((th) => th.textContent.trim());
for (const row of document.querySelectorAll("#result_list tbody tr")) {
  [...row.children].forEach((cell, place) => {
    cell.dataset.label = headers[place] ?? "";
  });
}

addEventListener("load", () => {
  for (const tip of document.querySelectorAll("span.help-tooltip")) tip.setAttribute("role", "img");
});
