"""A page in a browser: what it asks for and complains about, what sticks out, what is hard to read or out of reach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

__all__ = ["HEIGHT", "View"]

HEIGHT = 900

#: The smallest contrast of a text with what is behind it (WCAG 2.2, 1.4.3), here for large letters, too.
_CONTRAST = """async () => {
  const contrastRatio = {normal: {expected: 4.5}, large: {expected: 4.5}};
  axe.configure({checks: [{id: "color-contrast", options: {contrastRatio}}]});
  const {violations} = await axe.run({runOnly: ["color-contrast"], resultTypes: ["violations"]});
  const faint = {};
  for (const {target, any: [{data}]} of violations.flatMap(each => each.nodes))
    faint[`${data.fgColor} on ${data.bgColor}: ${data.contrastRatio}`] = target.join(" ");
  return faint;
}"""

#: What axe finds besides: names of controls, languages, roles. Browsers themselves give the focus to what scrolls.
_FAULTS = """async () => (await axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
  rules: {"color-contrast": {enabled: false}, "scrollable-region-focusable": {enabled: false}},
  resultTypes: ["violations"]}))
  .violations.map(each => `${each.id}: ${each.nodes.map(node => node.target.join(" ")).slice(0, 3).join(", ")}`)"""

#: Elements to the right of the window. What scrolls by itself, as code does, may be wider.
_OUTSIDE = """() => {
  const scrolls = e => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  return [...document.querySelectorAll("body *")].filter(e => e.checkVisibility({visibilityProperty: true}) &&
    !scrolls(e.parentElement) && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 200));
}"""

#: Gives each element that can be used a number, and remembers how it looks without the focus.
_NUMBER = """() => {
  const wanted = "a[href], button, input, select, textarea, summary, [tabindex]";
  const seen = e => e.type === "radio" ? e.nextElementSibling : e;  // of a hidden one its label shows the focus
  window.looks = e => { const s = getComputedStyle(seen(e));
    return [s.outlineStyle, s.outlineWidth, s.boxShadow, s.backgroundColor, s.color, s.borderColor].join(); };
  window.stops = [...document.querySelectorAll(wanted)].filter(e => !e.disabled && e.tabIndex >= 0 && !e.inert &&
    !e.closest("[hidden]") && !(e.type === "radio" && !e.checked) &&
    e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length);
  window.before = window.stops.map(window.looks);
  return window.stops.map(e => e.outerHTML.slice(0, 120));
}"""

#: The number of the element that has the focus, and what is wrong with how that is shown.
_FOCUSED = """() => {
  const e = document.activeElement, number = window.stops.indexOf(e);
  if (number < 0) return [number, ""];
  if (window.looks(e) === window.before[number]) return [number, "looks as without the focus"];
  const box = e.getClientRects()[0];
  const [x, y] = [box.left + Math.min(box.width, 8) / 2, box.top + Math.min(box.height, 16) / 2];
  if (x < 0 || y < 0 || x > innerWidth || y > innerHeight) return [number, "is outside of the window"];
  const top = document.elementFromPoint(x, y);
  return [number, e.contains(top) || top.contains(e) ? "" : `is behind ${top.outerHTML.slice(0, 80)}`];
}"""


class View:
    """A page that is open in a browser.

    Args:
        browser: shows it.
        where: address of the page, or its file.
        width: of the window, pixels.
        dark: whether the user prefers dark colours.
        scripts: whether the page may run JavaScript.
    """

    def __init__(
        self, browser: Browser, where: str | Path, *, width: int, dark: bool = False, scripts: bool = True
    ) -> None:
        self.where = where.as_uri() if isinstance(where, Path) else where
        self._context = browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        self.page: Page = self._context.new_page()
        #: Addresses that the page has asked for.
        self.requests: list[str] = []
        #: Errors and other messages on the console, and addresses that did not answer.
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", self._failed)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(self.where)

    def close(self) -> None:
        """Close the page."""
        self._context.close()

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, or of a function without parameters, in the page."""
        return self.page.evaluate(expression)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the elements that are shown."""
        texts: list[str] = self.page.eval_on_selector_all(
            selector, "all => all.filter(e => e.checkVisibility()).map(e => e.textContent)"
        )
        return texts

    def open_all(self) -> None:
        """Unfold what is folded."""
        self.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")

    def elements_outside(self) -> list[str]:
        """Return what makes the page wider than the window, or ``[]``."""
        width = self.evaluate("innerWidth")
        found: list[str] = self.evaluate(_OUTSIDE)
        if self.evaluate("document.documentElement.scrollWidth") > width and not found:
            return ["something that has no element of its own"]
        return found

    def faint_texts(self) -> dict[str, str]:
        """Return texts with a contrast below 4.5 to 1, by colours."""
        self._load_axe()
        faint: dict[str, str] = self.evaluate(_CONTRAST)
        return faint

    def faults(self) -> list[str]:
        """Return breaches of WCAG 2.1, level AA, contrast aside."""
        self._load_axe()
        found: list[str] = self.evaluate(_FAULTS)
        return found

    def faults_of_focus(self) -> list[str]:
        """Go through the page by Tab; return what it does not reach, and what does not show that it has the focus."""
        stops: list[str] = self.evaluate(_NUMBER)
        assert stops
        wrong, reached = [], set()
        for _ in range(len(stops) + 3):
            self.page.keyboard.press("Tab")
            number, fault = self.evaluate(_FOCUSED)
            if number in reached:
                break
            for _ in range(30):  # the site slides its search in, and Chromium scrolls to what is below the window
                if not fault:
                    break
                self.page.wait_for_timeout(100)
                number, fault = self.evaluate(_FOCUSED)
            reached.add(number)
            if fault:
                wrong.append(f"{stops[number]} {fault}")
        return wrong + [f"{stop} is not reached" for number, stop in enumerate(stops) if number not in reached]

    def press_tab_until(self, selector: str) -> None:
        """Press Tab until the element has the focus."""
        for _ in range(100):
            self.page.keyboard.press("Tab")
            if self.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        raise AssertionError(f"100 times Tab, and {selector} does not have the focus")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # by going to another page before it was there
            self.complaints.append(f"{request.url}: {request.failure}")

    def _load_axe(self) -> None:
        if not self.evaluate("typeof axe === 'object'"):
            self.evaluate(_axe())


def _axe() -> str:
    import axe_playwright_python

    (folder,) = axe_playwright_python.__path__
    return Path(folder, "axe.min.js").read_text(encoding="utf-8")
