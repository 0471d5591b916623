// What the theme leaves out for screen readers: the search has a name.
for (const search of document.querySelectorAll(".md-search[role=dialog]")) {
  search.setAttribute("aria-label", "Search");
}
