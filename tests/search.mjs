// Prints, for each query, the pages that a built site's own search finds, best first, as one JSON object.
import fs from "node:fs";
import vm from "node:vm";

const [site, ...queries] = process.argv.slice(2);
const read = (name) => fs.readFileSync(`${site}/${name}`, "utf8");
const element = () => ({ appendChild() {}, removeChild() {}, lastChild: null, dataset: {} });
const browser = {
  document: { getElementById: element, createElement: element, addEventListener() {}, documentElement: element() },
  window: {},
  localStorage: { setItem() {} },
  SPHINX_HIGHLIGHT_ENABLED: false,
  DOCUMENTATION_OPTIONS: {},
  _: (text) => text,
  _ready() {},
};
vm.createContext(browser);
const scripts = [read("_static/language_data.js"), "var Stemmer = window.Stemmer;", read("_static/searchtools.js")];
vm.runInContext([...scripts, "this.Search = Search;", read("searchindex.js")].join("\n"), browser);
const pages = (query) => {
  const results = browser.Search._performSearch(...browser.Search._parseQuery(query));
  return [...new Set(results.reverse().map((result) => result[0]))];
};
console.log(JSON.stringify(Object.fromEntries(queries.map((query) => [query, pages(query)]))));
