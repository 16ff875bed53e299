/*
The search of the documentation site. It finds text exactly as it is typed: names such as --emulate-npu and
mx_driving.patcher, and Chinese words.

The search worker of the theme finds neither: "-" at the start of a word is an operator of its query language, and its
index has whole words only, which Chinese text does not separate. Browsers also start no worker for pages that are
opened as files. This class takes the place of Worker before the theme creates its worker, and answers the same messages.
*/
(function () {
  "use strict"

  // Types of the theme's messages.
  const SETUP = 0
  const READY = 1
  const QUERY = 2
  const RESULT = 3

  // Characters of a section that a result shows around the first place that was found.
  const TEASER = 180

  function plain(html) {
    return html
      .replace(/<\/?(?:p|li|ol|ul|pre)>/g, " ")
      .replace(/<[^>]+>/g, "")
      .replace(/&lt;/g, "<")
      .replace(/&gt;/g, ">")
      .replace(/&amp;/g, "&")
      .replace(/\s+/g, " ")
      .trim()
  }

  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")
  }

  function marked(text, terms) {
    const any = terms.map(term => term.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|")
    return text
      .split(new RegExp(`(${any})`, "iu"))
      .map((part, index) => (index % 2 ? `<mark data-md-highlight>${escaped(part)}</mark>` : escaped(part)))
      .join("")
  }

  function count(text, term) {
    return text.split(term).length - 1
  }

  class Sections {
    constructor(docs, language) {
      const pages = new Map()
      this.sections = docs.map(({ location, title, text }) => {
        const path = location.split("#")[0]
        const section = { location, title: plain(title), text: plain(text) }
        section.page = pages.get(path) || section
        pages.set(path, section.page)
        section.inTitle = section.title.toLowerCase()
        section.inText = section.text.toLowerCase()
        // Pages in the language of this page first, and those of docs/ before other files of the repository.
        const isOurs = /^zh\/|\.zh-CN\.html$/.test(path) === (language === "zh")
        section.weight = (isOurs ? 2 : 1) * (path.startsWith("repository/") ? 0.5 : 1)
        return section
      })
    }

    // English endings: a word that is found nowhere is looked for without its last letters ("patched", "workers").
    shortened(term) {
      if (!/^[a-z]{6,}$/.test(term)) return term
      const lengths = [0, 1, 2, 3].map(less => term.slice(0, term.length - less))
      return lengths.find(word => this.sections.some(({ inText }) => inText.includes(word))) || term
    }

    score(section, terms) {
      let score = 0
      for (const term of terms) {
        const { inTitle, inText, page } = section
        if (inTitle.includes(term)) score += inTitle === term ? 24 : 12
        if (page.inTitle.includes(term)) score += 6
        if (inText.includes(term)) score += 2 + Math.log2(count(inText, term))
      }
      return score * section.weight
    }

    // Sections with all terms; where there are none, those with most of them.
    search(query) {
      const words = query.toLowerCase().replace(/["“”]/g, " ").split(/\s+/).filter(Boolean)
      const terms = [...new Set(words)].map(word => this.shortened(word))
      if (!terms.length) return []
      const hits = this.sections
        .map(section => {
          const has = term => [section.inTitle, section.inText, section.page.inTitle].some(text => text.includes(term))
          return { section, found: terms.filter(has) }
        })
        .filter(({ section, found }) => found.some(term => (section.inTitle + section.inText).includes(term)))
      const most = Math.max(0, ...hits.map(({ found }) => found.length))
      const results = new Map()
      for (const { section, found } of hits) {
        if (found.length < most) continue
        const items = results.get(section.page) || []
        results.set(section.page, [...items, this.result(section, terms, found)])
      }
      for (const [page, items] of results) {
        items.sort((one, other) => other.score - one.score)
        // The theme shows a page with its sections, so the page itself has to be among them.
        if (!items.some(({ location }) => location === page.location)) {
          items.push({ location: page.location, title: escaped(page.title), text: "", score: 0, terms: {} })
        }
      }
      return [...results.values()].sort((one, other) => other[0].score - one[0].score)
    }

    result(section, terms, found) {
      const first = Math.max(0, Math.min(...found.map(term => (section.inText + term).indexOf(term))))
      const start = first < TEASER / 2 ? 0 : section.text.lastIndexOf(" ", first - TEASER / 3) + 1
      const text = section.text.slice(start, start + TEASER)
      const end = start + TEASER < section.text.length ? "…" : ""
      return {
        location: section.location,
        title: marked(section.title, found),
        text: (start ? "…" : "") + marked(text, found) + end,
        score: this.score(section, found),
        terms: Object.fromEntries(terms.map(term => [term, found.includes(term)])),
      }
    }
  }

  // The theme looks at the field when a key is released; pasted text, and text from an input method, come without one.
  document.addEventListener("input", ({ target }) => {
    if (target.matches("[data-md-component=search-query]")) target.dispatchEvent(new Event("keyup"))
  })

  window.Worker = class extends EventTarget {
    postMessage({ type, data }) {
      if (type === SETUP) {
        this.sections = new Sections(data.docs, document.documentElement.lang)
        this.answer(READY)
      } else if (type === QUERY) {
        this.answer(RESULT, { items: this.sections.search(data) })
      }
    }

    // Later, as a worker answers: the theme is not ready for an answer while it sends a message.
    answer(type, data) {
      setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data: { type, data } })))
    }
  }
})()
