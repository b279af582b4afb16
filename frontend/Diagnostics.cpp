#include "frontend/Diagnostics.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <unistd.h>

namespace echelon::frontend {

namespace {
constexpr size_t maximalErrors = 100;

bool isError(const Diagnostic &d) { return d.severity == Severity::Error; }

const char *word(Severity severity) {
  switch (severity) {
  case Severity::Error:
    return "error";
  case Severity::Warning:
    return "warning";
  case Severity::Note:
    return "note";
  }
  return "";
}

// One column of a source line: a whole character, or '?' for what must not reach a terminal.
struct Column {
  std::string_view text;
  bool tab;
};

std::vector<Column> columns(std::string_view line) {
  std::vector<Column> out;
  for (size_t i = 0; i < line.size();) {
    std::string_view own = line.substr(i, runtime::characterAt(line, i).bytes);
    bool tab = own == "\t";
    out.push_back({tab || printable(own) == own ? own : "?", tab});
    i += own.size();
  }
  return out;
}

// The source line and the caret below it; of a very long line, the part around the caret.
void printLine(const SourceRange &range, const SourceManager &sources, std::ostream &os, const char *caret,
               const char *plain) {
  constexpr size_t widest = 160, before = 60;
  std::vector<Column> line = columns(sources.line(range.file, range.line));
  size_t at = std::min<size_t>(range.column ? range.column - 1 : 0, line.size());
  size_t from = 0, to = line.size();
  if (line.size() > widest) {
    from = at > before ? at - before : 0;
    to = std::min(line.size(), from + widest);
  }
  std::string_view text = sources.text(range);
  size_t length = columns(text.substr(0, text.find('\n'))).size();
  while (length > 1 && at + length > line.size())
    --length;
  if (from)
    os << "…";
  for (size_t i = from; i < to; ++i)
    os << line[i].text;
  os << (to < line.size() ? "…\n" : "\n");
  if (from)
    os << ' ';
  for (size_t i = from; i < at; ++i)
    os << (line[i].tab ? '\t' : ' ');
  os << caret << '^';
  for (size_t i = 1; i < length && at + i < to; ++i)
    os << '~';
  os << plain << '\n';
}
} // namespace

const std::vector<CodeEntry> &diagnosticCodes() {
  static const std::vector<CodeEntry> table = {
#define DIAGNOSTIC(NUMBER, NAME, TEXT) {Code::E##NUMBER, NAME, TEXT},
#include "frontend/DiagnosticCodes.def"
#undef DIAGNOSTIC
  };
  return table;
}

std::string spell(Code code, Severity severity) {
  char text[8];
  std::snprintf(text, sizeof text, "%c%04u", severity == Severity::Error ? 'E' : 'W', unsigned(code) % 10000u);
  return text;
}

Diagnostic &Diagnostics::report(Code code, Severity severity, SourceRange range, std::string message) {
  list.push_back({code, severity, range, std::move(message), {}});
  return list.back();
}

size_t Diagnostics::errorCount() const { return size_t(std::count_if(list.begin(), list.end(), isError)); }

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> all(list.begin(), list.end());
  std::stable_sort(all.begin(), all.end(), [](const Diagnostic &a, const Diagnostic &b) {
    return std::make_pair(a.range.file, a.range.offset) < std::make_pair(b.range.file, b.range.offset);
  });
  std::vector<Diagnostic> out;
  size_t errors = 0;
  for (Diagnostic &d : all) {
    bool told = false;
    for (auto it = out.rbegin();
         it != out.rend() && it->range.file == d.range.file && it->range.offset == d.range.offset; ++it)
      told |= it->code == d.code && (d.range.valid() || it->message == d.message);
    if (told || (isError(d) && ++errors > maximalErrors))
      continue;
    out.push_back(std::move(d));
  }
  if (errors > maximalErrors)
    out.push_back({Code::E0705,
                   Severity::Error,
                   {},
                   "too many errors; " + std::to_string(errors - maximalErrors) + " more are not shown",
                   {}});
  return out;
}

void print(const Diagnostic &d, const SourceManager &sources, std::ostream &os, bool colours) {
  const char *bold = colours ? "\x1b[1m" : "", *plain = colours ? "\x1b[0m" : "", *green = colours ? "\x1b[1;32m" : "";
  const char *paint = !colours                          ? ""
                      : d.severity == Severity::Error   ? "\x1b[1;31m"
                      : d.severity == Severity::Warning ? "\x1b[1;35m"
                                                        : "\x1b[1;36m";
  auto place = [&](const SourceRange &r) {
    return sources.name(r.file) + ":" + std::to_string(r.line) + ":" + std::to_string(r.column) + ": ";
  };
  os << bold;
  if (d.range.valid())
    os << place(d.range);
  os << plain << paint << word(d.severity) << '[' << spell(d.code, d.severity) << "]: " << plain << bold
     << printable(d.message, Lines::Indented) << plain << '\n';
  if (d.range.valid())
    printLine(d.range, sources, os, green, plain);
  for (const DiagnosticNote &note : d.notes) {
    os << (colours ? "\x1b[1;36m" : "") << "note: " << plain;
    if (note.range.valid())
      os << place(note.range);
    os << printable(note.message, Lines::Indented) << '\n';
  }
}

void Diagnostics::print(std::ostream &os, bool colours) const {
  for (const Diagnostic &d : sorted())
    frontend::print(d, sources, os, colours);
}

std::string Diagnostics::text() const {
  std::ostringstream os;
  print(os, false);
  return os.str();
}

bool wantsColours(int fileDescriptor) {
  const char *no = std::getenv("NO_COLOR");
  return isatty(fileDescriptor) && !(no && *no);
}

} // namespace echelon::frontend
