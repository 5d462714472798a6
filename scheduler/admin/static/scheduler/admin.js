// Gives each cell of a list the header of its column: on narrow screens a row is a card.

const headers = [...document.querySelectorAll("#result_list thead th")].map((th) => th.textContent.trim());
for (const row of document.querySelectorAll("#result_list tbody tr")) {
  [...row.children].forEach((cell, place) => {
    cell.dataset.label = headers[place] ?? "";
  });
}
