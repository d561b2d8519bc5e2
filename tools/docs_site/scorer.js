// The order of results of a search: pages for users, then studies and pages outside of docs/, then
// decisions. All other numbers are Sphinx's own; it takes this object in place of its whole one.
var Scorer = {
  score: ([page, , , , score]) =>
    score - (/^docs\/decisions\//.test(page) ? 2000 : /^docs\/(?!study-)/.test(page) ? 0 : 1000),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
