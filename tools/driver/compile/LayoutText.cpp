#include "tools/driver/compile/LayoutText.h"

using namespace echelon::frontend;

std::string echelon::withLayout(const SourceManager &sources, const Train &train, const std::string &layout) {
  std::string text(sources.text(train.range.file)), clause = "layout " + layout, on = "on local(ranks = 4096)";
  bool placed = false, machine = false;
  for (size_t i = train.clauses.size(); i-- > 0;) { // from the end: the places before stay where they are
    const Clause &old = train.clauses[i];
    if (std::holds_alternative<LayoutClause>(old.what)) {
      text.replace(old.range.offset, old.range.length, placed ? "" : clause);
      placed = true;
    } else if (std::holds_alternative<OnClause>(old.what)) {
      text.replace(old.range.offset, old.range.length, on);
      machine = true;
    }
  }
  std::string missing = (placed ? "" : clause + "; ") + (machine ? "" : on + "; ");
  if (!train.clauses.empty())
    text.insert(train.clauses.front().range.offset, missing);
  return text;
}

std::string echelon::layoutWith(const SourceManager &sources, const Train &train, const std::string &line) {
  for (const Clause &clause : train.clauses)
    if (std::holds_alternative<LayoutClause>(clause.what)) {
      std::string text(sources.text(clause.range).substr(clause.word.text.size()));
      size_t brace = text.rfind('}');
      return brace == std::string::npos ? "" : text.insert(brace, "; " + line + " ");
    }
  return "";
}
