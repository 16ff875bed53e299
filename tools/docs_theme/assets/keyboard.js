/* The buttons of the theme that are labels of hidden check boxes, menu and search, get the focus and are pressed by key. */
for (const label of document.querySelectorAll("label.md-header__button[for=__drawer], label.md-header__button[for=__search]")) {
  label.tabIndex = 0
  label.setAttribute("role", "button")
  label.setAttribute("aria-label", label.htmlFor === "__drawer" ? "Menu" : "Search")
  label.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return
    event.preventDefault()
    event.stopPropagation()
    label.click()
  })
}
