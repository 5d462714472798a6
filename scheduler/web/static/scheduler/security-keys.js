// Shows the page's message if a security key is not used: it is missing, or its owner cancels.
document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  document.getElementById("key-problem").hidden = false;
});
