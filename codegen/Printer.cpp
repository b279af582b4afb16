// Lines of functions.
#include "codegen/Printer.h"
#include "codegen/Calls.h"
#include "codegen/Kernels.h"
#include "codegen/Target.h"
#include "codegen/Text.h"
#include "ir/ech/SourcePlace.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

//===- the user's lines ------------------------------------------------------------------------------------------===//

namespace {
/// The line of the library that an operation comes from; null where the spec's own line makes it.
FileLineColLoc libraryPlaceOf(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return libraryPlaceOf(named.getChildLoc());
  auto fused = dyn_cast<FusedLoc>(loc);
  if (!fused)
    return {};
  if (auto place = dyn_cast_or_null<FileLineColLoc>(fused.getMetadata()))
    return place;
  for (Location part : fused.getLocations())
    if (ech::sourceLine(part))
      return libraryPlaceOf(part);
  return {};
}
} // namespace

std::string SourceLines::of(Location loc) const {
  FileLineColLoc place = ech::sourceLine(loc);
  if (!place)
    return "";
  std::string text = ech::sourcePlace(loc);
  if (FileLineColLoc library = libraryPlaceOf(loc)) {
    text = ech::sourcePlace(library) + " at " + text;
    place = library;
  }
  for (size_t f = 0; f < sources.size(); ++f)
    if (sources.name(static_cast<int>(f)) == place.getFilename().getValue()) {
      StringRef line(sources.line(static_cast<int>(f), place.getLine()).data(),
                     sources.line(static_cast<int>(f), place.getLine()).size());
      line = line.trim();
      if (!line.empty())
        text += ("  " + line).str();
      break; // a file that was read twice says it once
    }
  return text;
}

//===- lines -----------------------------------------------------------------------------------------------------===//

std::string codegen::filled(StringRef head, ArrayRef<std::string> parts, StringRef end, size_t indent) {
  std::string text(indent, ' ');
  text += head;
  size_t column = text.size(), continued = column;
  for (auto [i, part] : llvm::enumerate(parts)) {
    bool last = i + 1 == parts.size();
    size_t needs = part.size() + (last ? end.size() : 1);
    if (i > 0) {
      if (column + 1 + needs > kLineLength) {
        text += "\n" + std::string(continued, ' ');
        column = continued;
      } else {
        text += " ";
        ++column;
      }
    }
    text += part;
    column += part.size();
    if (!last) {
      text += ",";
      ++column;
    }
  }
  return text + end.str();
}

void Printer::write(size_t column, StringRef text) {
  written.append(column, ' ');
  written += text;
  written += '\n';
}
void Printer::line(const Twine &text) {
  std::string s = text.str();
  write(s[0] == '#' ? 0 : 2 * scopes.size(), s);
  count(s[0] == '#' ? 0 : StringRef(s).starts_with("//") ? 2 : 1);
}
void Printer::open(const Twine &head) {
  line(head);
  lastSource.clear();
  scopes.emplace_back();
  scopes.back().brace = written.size() - 3; // " {"
}
void Printer::close(StringRef behind) {
  Scope scope = scopes.pop_back_val();
  for (Value v : scope.values)
    declared.erase(v);
  lastSource.clear();
  if (scope.statements == 1 && !scopes.empty() && behind.empty()) { // a loop over one statement
    written.erase(scope.brace, 2);
    return;
  }
  write(2 * scopes.size(), ("}" + behind).str());
}

void Printer::function(const Twine &head, llvm::function_ref<void()> body) {
  used.clear();
  heads.clear();
  open(head);
  const size_t begin = written.size();
  body();
  std::string structs;
  for (const Group &group : groups())
    if (used.contains(group.type))
      structs += ("  const " + group.type + " " + ownTarget.variableOf(group) + "{r};\n").str();
  for (const std::string &head : heads)
    structs += "  " + head + "\n";
  written.insert(begin, structs);
  close();
}

void Printer::call(Operation *op, StringRef head, ArrayRef<std::string> arguments, StringRef remark) {
  std::string text = filled((head + "(").str(), arguments, ");", 2 * scopes.size());
  if (remark.empty())
    comment({sourceLines.of(op->getLoc())});
  else
    wrap(remark);
  write(0, text);
  count(1);
}

std::string Printer::place(Operation *op) {
  std::string label = ech::sourcePlace(op->getLoc());
  return label.empty() ? "" : quoted(label);
}

/// Above the statement, and not again where the statements before came from the same lines, remarks of messages between
/// them or not: after it, the column would depend on numbers.
void Printer::comment(ArrayRef<std::string> texts) {
  std::string all = llvm::join(texts, "\n");
  if (all == lastSource)
    return;
  lastSource = all;
  for (StringRef text : texts)
    wrap(text);
}

/// A comment, broken at the last space that fits.
void Printer::wrap(StringRef text) {
  std::string rest = commented(text);
  const size_t length = kLineLength - 3 - 2 * scopes.size();
  for (std::string indent; !rest.empty(); indent = "    ") {
    size_t end = rest.size() + indent.size() <= length ? rest.size() : rest.rfind(' ', length - indent.size());
    if (end == std::string::npos || end == 0)
      end = std::min(rest.find(' '), rest.size());
    line("// " + indent + commented(StringRef(rest).take_front(end)));
    rest = StringRef(rest).drop_front(end).ltrim().str();
  }
}

void Printer::assign(StringRef target, StringRef op, StringRef expression) {
  const size_t column = 2 * scopes.size();
  std::string text = (target + " " + op + " " + expression + ";").str();
  if (column + text.size() <= kLineLength) {
    line(text);
    return;
  }
  count(1);
  if (column + 4 + expression.size() + 1 <= kLineLength) { // whole on a line of its own
    write(column, (target + " " + op).str());
    write(column + 4, (expression + ";").str());
    return;
  }
  // break before the limit, behind an operator or a comma, at the outermost bracket possible
  std::string rest = text;
  size_t indent = column;
  while (indent + rest.size() > kLineLength) {
    size_t limit = kLineLength - indent, at = 0;
    int level = 0, best = INT_MAX;
    for (size_t i = 0; i + 1 < rest.size() && i < limit; ++i) {
      level += rest[i] == '(' || rest[i] == '[' ? 1 : rest[i] == ')' || rest[i] == ']' ? -1 : 0;
      bool behind = rest[i + 1] == ' ' && StringRef("=+-*/,?:&|<>").contains(rest[i]);
      if (behind && i > limit / 3 && level <= best) {
        best = level;
        at = i + 1;
      }
    }
    if (!at)
      break;
    write(indent, StringRef(rest).take_front(at));
    rest = rest.substr(at + 1);
    indent = column + 4;
  }
  write(indent, rest);
}

void Printer::from(ArrayRef<Operation *> ops, function_ref<void()> body) {
  SmallVector<std::string> texts;
  for (Operation *op : ops) {
    std::string text = sourceLines.of(op->getLoc());
    if (!text.empty() && !llvm::is_contained(texts, text))
      texts.push_back(text);
  }
  if (texts.size() > 4) {
    std::string more = "and " + std::to_string(texts.size() - 3) + " lines more";
    texts.resize(3);
    texts.push_back(more);
  }
  comment(texts);
  const std::string sources = lastSource;
  body();
  lastSource = sources;
}

//===- values ----------------------------------------------------------------------------------------------------===//

std::string codegen::shape(rt::Buffer type, SizeTable &sizes) {
  std::string text = "[";
  for (const ech::Axis &axis : type.getAxes()) {
    std::string name = sizes.of(axis);
    text += (text.size() > 1 ? ", " : "") + (name.empty() ? axis.name.str() + "=" + std::to_string(axis.size) : name);
  }
  return text + "]";
}

/// "p.wq", or of a stack a place of it, "p.wq[l]", or all of it, "p.wq.all".
std::string Printer::member(Operation *op) {
  auto parts = op->getAttrOfType<ArrayAttr>(rt::kMember);
  StringRef type = cast<StringAttr>(parts[0]).getValue();
  if (type == "Messages")
    return "messages." + cast<StringAttr>(parts[1]).str();
  used.insert(type);
  std::string text = (ownTarget.variableOf(groupOf(type)) + "." + Structs::path(parts)).str();
  auto view = dyn_cast<rt::ViewOp>(op);
  auto position = op->getAttrOfType<IntegerAttr>(rt::kPosition);
  if (!view || !position)
    return structs.isStack(parts) ? text + ".all" : text;
  std::string index = view.getIndices().empty() ? "" : name(view.getIndices()[0]);
  if (index.empty() || position.getInt() != 0)
    index += (index.empty() ? "" : " + ") + std::to_string(position.getInt());
  return text + "[" + index + "]";
}

void Printer::keep(Value value) {
  declared.insert(value);
  if (!scopes.empty())
    scopes.back().values.push_back(value);
}

void Printer::declare(Value value) {
  const std::string own = nameOf(value);
  const bool isKnown = llvm::any_of(scopes, [&](const Scope &scope) {
    return llvm::any_of(scope.values, [&](Value other) { return nameOf(other) == own; });
  });
  keep(value);
  if (isKnown) // the same memory, seen with other axes or as another value
    return;
  Operation *op = value.getDefiningOp();
  if (auto alloc = dyn_cast<rt::AllocOp>(op)) {
    std::string type = rt::storedAs(rt::buffer(value).getElement()).str();
    line(type + " *" + own + " = r." + rt::stringifyArena(alloc.getArena()) + "<" + type + ">(" +
         Twine(alloc.getOffset().value_or(0)) + "); // " + shape(rt::buffer(value), sizes));
  } else if (auto view = dyn_cast<rt::ViewOp>(op)) {
    bool constant = rt::allocOf(view.getBase()).getArena() == rt::Arena::Input;
    std::string text = name(view.getBase());
    if (view.getOffset())
      text += " + " + std::to_string(view.getOffset());
    for (auto [index, factor] : llvm::zip(view.getIndices(), view.getFactors())) {
      const std::string at = index.getDefiningOp<rt::SlotOp>() ? "(" + name(index) + ")" : name(index);
      text += " + " + at + (factor == 1 ? "" : " * " + std::to_string(factor));
    }
    line((constant ? "const " : "") + rt::storedAs(rt::buffer(value).getElement()) + " *" + own + " = " + text + ";");
  } else if (auto number = dyn_cast<rt::NumberOp>(op)) {
    line((number.getType().isF64() ? "const double " : "const int64_t ") + own + " = " + textOf(number) + ";");
  }
}

std::string Printer::name(Value value) {
  if (isa<BlockArgument>(value))
    return nameOf(value);
  Operation *op = value.getDefiningOp();
  if (op->hasAttr(rt::kMember))
    return member(op);
  if (auto number = dyn_cast<rt::NumberOp>(op); number && isInline(number))
    return textOf(number);
  if (auto slot = dyn_cast<rt::SlotOp>(op))
    return name(slot.getPosition()) + " % 2";
  if (auto view = dyn_cast<rt::ViewOp>(op); view && view.getOffset() == 0 && view.getIndices().empty())
    return name(view.getBase());
  if (declared.contains(value) || op->hasAttr(rt::kVariable))
    return nameOf(value);
  if (auto offset = dyn_cast<rt::OffsetOp>(op)) { // its own line names it
    keep(value);
    spell(offset, *this);
    return nameOf(value);
  }
  declare(value);
  return nameOf(value);
}

std::string Printer::element(Value buffer) { return isVariable(buffer) ? nameOf(buffer) : name(buffer) + "[0]"; }

bool Printer::isVariable(Value buffer) {
  return buffer.getDefiningOp() && buffer.getDefiningOp()->hasAttr(rt::kVariable);
}

std::string Printer::define(Value ticket) {
  if (ticket.getDefiningOp()->hasAttr(rt::kMember))
    return member(ticket.getDefiningOp());
  keep(ticket);
  return "Ticket " + nameOf(ticket);
}

void Printer::tickets(Value array, int64_t count) {
  if (!array.getDefiningOp()->hasAttr(rt::kMember))
    line(define(array) + "[" + Twine(count) + "];");
}

void Printer::operation(Operation &op) {
  if (rt::isDeclaration(op))
    return; // declared where they are first used
  spell(&op, *this);
  if (std::string lap = probes ? probes->behind(op) : ""; !lap.empty())
    line(lap);
}

void Printer::block(Block &block) {
  for (Operation &op : block)
    operation(op);
}
