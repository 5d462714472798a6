// Shows the API's schema with ReDoc.
(function () {
  "use strict";
  const container = document.getElementById("redoc-container");
  const font = "system-ui, sans-serif";
  const options = { theme: { typography: { fontFamily: font, headings: { fontFamily: font } } } };
  Redoc.init(container.dataset.schema, options, container);
})();
