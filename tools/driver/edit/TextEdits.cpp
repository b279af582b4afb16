#include "tools/driver/edit/TextEdits.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace echelon {

TextEdit replacement(frontend::SourceRange range, const std::string &text) {
  return {range.offset, range.length, text, "", "", "", ""};
}

TextEdit addedArgument(uint32_t offset, const std::string &before, const std::string &text, const std::string &after) {
  return {offset, 0, text, before, after, ", ", ""};
}

/// Whether `inner` changes a part of what `outer` replaces.
static bool holds(const TextEdit &outer, const TextEdit &inner) {
  const uint32_t end = outer.offset + outer.length;
  return inner.length
             ? outer.length > inner.length && outer.offset <= inner.offset && inner.offset + inner.length <= end
             : outer.offset < inner.offset && inner.offset < end;
}

std::string combine(std::vector<TextEdit> &edits, TextEdit edit) {
  for (const TextEdit &other : edits) {
    if (holds(other, edit))
      return other.path + ", which this is a part of, is set, too; set one of the two";
    if (holds(edit, other))
      return other.path + ", a part of it, is set, too; set one of the two";
  }
  auto same = llvm::find_if(edits, [&](const TextEdit &e) {
    return e.path == edit.path || (e.length && e.offset == edit.offset && e.length == edit.length);
  });
  if (same == edits.end())
    edits.push_back(std::move(edit));
  else
    same->text = edit.text;
  return "";
}

std::string edited(std::string text, std::vector<TextEdit> edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const TextEdit &a, const TextEdit &b) { return a.offset < b.offset; });
  for (size_t end = edits.size(), begin; end > 0; end = begin) {
    const TextEdit &last = edits[end - 1];
    std::string whole = last.text;
    for (begin = end - 1; begin > 0 && edits[begin - 1].offset == last.offset; --begin)
      whole = edits[begin - 1].text + last.between + whole;
    text.replace(last.offset, last.length, last.before + whole + last.after);
  }
  return text;
}

} // namespace echelon
