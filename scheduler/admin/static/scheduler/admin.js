// Copies the column headers to the cells of a list; on narrow screens each row is shown as a card.

const headers = [...document.querySelectorAll("#result_list thead th")].map((th) => th.textContent.trim());
for (const row of document.querySelectorAll("#result_list tbody tr")) {
  [...row.children].forEach((cell, place) => {
    cell.dataset.label = headers[place] ?? "";
  });
}
