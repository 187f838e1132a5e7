// How the search orders pages that hold all words: what answers a question stands before the reference.
var Scorer = {
  score: ([page, , , , score, , kind]) => {
    if (kind === "object") return score;
    if (/^(generated|auto_gallery)\//.test(page)) return score - 12;
    return /^(add-|schema|index$)/.test(page) ? score - 11 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
