// What of the language no case calls: the compiler's own list of functions, the library's of blocks, each argument.
#include "test/edges/Case.h"

#include "frontend/Parse.h"
#include "frontend/elaborate/Elaborate.h"

#include <cctype>
#include <set>

namespace echelon::edges {

namespace {

using Signatures = std::map<std::string, std::vector<std::string>>;

bool isOfName(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

/// Functions and blocks, the latter as `nn.NAME`.
Signatures callables() {
  Signatures all = frontend::builtInFunctions();
  frontend::SourceManager sources;
  frontend::Diagnostics diagnostics(sources);
  auto program = frontend::parseProgram(sources, sources.add("library.ech", "import nn\n"), diagnostics);
  for (const auto &file : program->files)
    for (const frontend::Block &block : file->blocks)
      for (const frontend::Formal &formal : block.formals)
        all["nn." + block.name.text].push_back(formal.name.text);
  return all;
}

/// The arguments of the call whose bracket opens at `open`, as written.
std::vector<std::string> argumentsAt(const std::string &text, size_t open) {
  std::vector<std::string> all(1);
  int depth = 0;
  for (size_t at = open + 1; at < text.size() && depth >= 0; ++at) {
    const char c = text[at];
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      all.emplace_back();
    else if (c != ' ')
      all.back() += c;
  }
  return all;
}

/// "NAME" of "NAME=value", but not of "a==b".
std::string nameOf(const std::string &argument) {
  size_t end = 0;
  while (end < argument.size() && isOfName(argument[end]))
    ++end;
  return argument.compare(end, 1, "=") == 0 && argument.compare(end, 2, "==") != 0 ? argument.substr(0, end) : "";
}

/// "NAME" of each call in `text`, and "NAME(argument)" of what is given to it.
void collectCalls(const std::string &text, const Signatures &known, std::set<std::string> &called) {
  for (size_t open = text.find('('); open != std::string::npos; open = text.find('(', open + 1)) {
    size_t start = open;
    while (start > 0 && isOfName(text[start - 1]))
      --start;
    const auto found = known.find(text.substr(start, open - start));
    if (found == known.end())
      continue;
    called.insert(found->first);
    size_t place = 0;
    for (const std::string &argument : argumentsAt(text, open)) {
      std::string name = nameOf(argument);
      if (name.empty() && place < found->second.size())
        name = found->second[place];
      ++place;
      called.insert(found->first + "(" + name + ")");
    }
  }
}

} // namespace

std::vector<std::string> notCovered(const std::vector<Family> &families) {
  const Signatures known = callables();
  std::set<std::string> called;
  for (const Family &family : families)
    for (const Case &c : family.cases)
      collectCalls(c.text, known, called);
  std::vector<std::string> lacking;
  for (const auto &[name, arguments] : known) {
    if (!called.count(name)) {
      lacking.push_back(name);
      continue;
    }
    for (const std::string &argument : arguments)
      if (!called.count(name + "(" + argument + ")"))
        lacking.push_back(name + "(" + argument + " = ...)");
  }
  return lacking;
}

} // namespace echelon::edges
