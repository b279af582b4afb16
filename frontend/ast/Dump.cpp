#include "frontend/ast/Dump.h"
#include "frontend/Diagnostics.h"
#include <sstream>

namespace echelon::frontend {

namespace {

std::string words(const std::vector<Ident> &names) {
  std::string s;
  for (const Ident &name : names)
    s += (s.empty() ? "" : ", ") + name.text;
  return s;
}

std::string dump(const Argument &a) {
  std::string s = a.name ? a.name->text + "=" : "";
  if (a.weight)
    s += std::to_string(a.weight->value) + " of ";
  s += a.value ? dump(*a.value) : "";
  return a.high ? s + ".." + dump(*a.high) : s;
}

std::string dump(const std::vector<Argument> &list) {
  std::string s;
  for (const Argument &a : list)
    s += " " + dump(a);
  return s;
}

std::string dump(const Place &p) {
  switch (p.kind) {
  case Place::At:
    return "(at " + words(p.from) + " " + dump(*p.value) + ")";
  case Place::Slice:
    return "(slice " + words(p.from) + " " + dump(*p.value) + " " + dump(*p.high) + ")";
  case Place::Rename:
  case Place::Split:
  case Place::Merge:
    return "(relabel [" + words(p.from) + "] [" + words(p.to) + "])";
  case Place::Expand:
    return "(expand " + words(p.to) + (p.value ? " " + dump(*p.value) : "") + ")";
  }
  return "";
}

std::string list(const char *head, std::initializer_list<const Expr *> operands) {
  std::string s = std::string("(") + head;
  for (const Expr *e : operands)
    s += " " + dump(*e);
  return s + ")";
}

std::string dump(const Setting &s) {
  std::ostringstream text;
  text << s.name.text << (s.precision ? " " + s.precision->text : "") << " " << s.value.value;
  return text.str();
}

std::string dump(const std::vector<Setting> &settings) {
  std::string s;
  for (const Setting &setting : settings)
    s += (s.empty() ? " " : ", ") + dump(setting);
  return s;
}

std::string dump(const Curve &c) {
  std::ostringstream text;
  text << "curve " << c.name.text << (c.ranks ? " over " + std::to_string(c.ranks) : "");
  for (const Curve::Point &point : c.points)
    text << " (" << point.size.value << " " << point.value.value << ")";
  return text.str();
}

class Printer {
public:
  explicit Printer(const SourceManager &sources) : sources(sources) {}
  std::string text;

  void settings(const std::string &head, const std::vector<Setting> &list) {
    ++depth;
    if (!list.empty())
      line(list.front().name.range, head + dump(list));
    --depth;
  }

  void measured(const std::vector<Curve> &curves, const std::optional<Measurement> &measured) {
    ++depth;
    for (const Curve &curve : curves)
      line(curve.range, dump(curve));
    if (measured)
      line(measured->range, "measured " + measured->date + " on " + measured->place + dump(measured->settings));
    --depth;
  }

  void body(const Body &statements) {
    ++depth;
    for (const StatementPtr &s : statements)
      statement(*s);
    --depth;
  }
  void formals(const char *word, const Ident &name, const std::vector<Formal> &list) {
    std::string head = std::string(word) + " " + name.text;
    for (const Formal &f : list)
      head += " (" + f.name.text + (f.isAxis ? ": axis" : "") + (f.value ? " " + dump(*f.value) : "") + ")";
    line(name.range, head);
  }
  void clause(const Clause &c) {
    // A clause is flat: its words are its structure. White space and comments inside it are folded.
    std::string flat;
    bool comment = false;
    for (char letter : sources.text(c.range)) {
      comment = letter == '#' || (comment && letter != '\n');
      bool space = comment || letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r';
      if (!space)
        flat += letter;
      else if (!flat.empty() && flat.back() != ' ')
        flat += ' ';
    }
    ++depth;
    line(c.range, "clause " + printable(flat));
    --depth;
  }
  void line(SourceRange at, const std::string &what) {
    text += std::string(size_t(depth) * 2, ' ') + what + "  # " + std::to_string(at.line) + ":" +
            std::to_string(at.column) + "\n";
  }

private:
  const SourceManager &sources;
  int depth = 0;

  void statement(const Statement &s) {
    auto value = [](const ExprPtr &e) { return e ? " " + dump(*e) : std::string(); };
    auto declared = [](const Ident &name, const std::vector<Ident> &axes) {
      return name.text + "[" + words(axes) + "]";
    };
    auto method = [](const Method &m) { return " (" + m.name.text + dump(m.arguments) + ")"; };
    switch (s.kind) {
    case StatementKind::Axis: {
      const auto &a = cast<AxisStatement>(s);
      return line(s.range, "axis " + a.name.text + (a.like ? " like " + a.like->text : value(a.size)));
    }
    case StatementKind::Input: {
      const auto &i = cast<InputStatement>(s);
      const char *types[] = {"float", "bool", "int"};
      return line(s.range, "input " + declared(i.name, i.axes) + " " + types[i.element] +
                               (i.below ? " below " + i.below->text : ""));
    }
    case StatementKind::Param: {
      const auto &p = cast<ParamStatement>(s);
      return line(s.range, "param " + declared(p.name, p.axes) + method(p.start));
    }
    case StatementKind::State: {
      const auto &p = cast<StateStatement>(s);
      return line(s.range, "state " + declared(p.name, p.axes) + value(p.value));
    }
    case StatementKind::Next:
      return line(s.range, "next " + cast<NextStatement>(s).name.text + value(cast<NextStatement>(s).value));
    case StatementKind::Random: {
      const auto &r = cast<RandomStatement>(s);
      return line(s.range, "random " + declared(r.name, r.axes) + method(r.distribution));
    }
    case StatementKind::Repeat: {
      const auto &r = cast<RepeatStatement>(s);
      line(s.range, "repeat " + r.axis.text + value(r.count));
      return body(r.body);
    }
    case StatementKind::RepeatAlong:
      line(s.range, "repeat along " + cast<RepeatAlongStatement>(s).axis.text);
      return body(cast<RepeatAlongStatement>(s).body);
    case StatementKind::If: {
      const auto &c = cast<IfStatement>(s);
      for (const IfStatement::Branch &branch : c.branches) {
        line(s.range, (&branch == &c.branches.front() ? "if" : "else if") + value(branch.condition));
        body(branch.body);
      }
      if (c.otherwise) {
        line(s.range, "else");
        body(*c.otherwise);
      }
      return;
    }
    case StatementKind::Loss: {
      const auto &l = cast<LossStatement>(s);
      return line(s.range, "loss" + (l.name ? " " + l.name->text : "") + value(l.value));
    }
    case StatementKind::Metric:
      return line(s.range, "metric " + cast<MetricStatement>(s).name.text + value(cast<MetricStatement>(s).value));
    case StatementKind::Return:
      return line(s.range, "return" + value(cast<ReturnStatement>(s).value));
    case StatementKind::Assign:
      return line(s.range, cast<AssignStatement>(s).name.text + " =" + value(cast<AssignStatement>(s).value));
    }
  }
};

} // namespace

std::string dump(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Number:
    return cast<NumberExpr>(expr).spelling;
  case ExprKind::Quantity: {
    const Quantity &q = cast<QuantityExpr>(expr).quantity;
    return std::to_string(q.value) + " " + q.unit;
  }
  case ExprKind::String:
    return "\"" + escaped(cast<StringExpr>(expr).value) + "\"";
  case ExprKind::Bool:
    return cast<BoolExpr>(expr).value ? "true" : "false";
  case ExprKind::Path:
    return cast<PathExpr>(expr).path.text();
  case ExprKind::Call: {
    const auto &c = cast<CallExpr>(expr);
    std::string s = "(call " + c.callee.text() + dump(c.arguments);
    if (c.as)
      s += " as " + c.as->text;
    if (c.with)
      s += " with " + c.with->text();
    return s + ")";
  }
  case ExprKind::Negate:
    return list("-", {cast<NegateExpr>(expr).operand.get()});
  case ExprKind::Not:
    return list("not", {cast<NotExpr>(expr).operand.get()});
  case ExprKind::Arithmetic: {
    const auto &a = cast<ArithmeticExpr>(expr);
    std::string s = dump(*a.first);
    for (const ArithmeticExpr::Rest &r : a.rest)
      s = std::string("(") + r.op + " " + s + " " + dump(*r.operand) + ")";
    return s;
  }
  case ExprKind::Power:
    return list("^", {cast<PowerExpr>(expr).base.get(), cast<PowerExpr>(expr).exponent.get()});
  case ExprKind::Compare: {
    static constexpr const char *kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
    const auto &c = cast<CompareExpr>(expr);
    return list(kSigns[c.op], {c.left.get(), c.right.get()});
  }
  case ExprKind::Logic: {
    const auto &l = cast<LogicExpr>(expr);
    std::string s = l.isAnd ? "(and" : "(or";
    for (const ExprPtr &e : l.operands)
      s += " " + dump(*e);
    return s + ")";
  }
  case ExprKind::Tuple: {
    std::string s = "(tuple";
    for (const ExprPtr &e : cast<TupleExpr>(expr).elements)
      s += " " + dump(*e);
    return s + ")";
  }
  case ExprKind::Index: {
    const auto &i = cast<IndexExpr>(expr);
    std::string s = dump(*i.base);
    for (const IndexExpr::Bracket &bracket : i.brackets) {
      s = "(places " + s;
      for (const Place &p : bracket.places)
        s += " " + dump(p);
      s += ")";
    }
    return s;
  }
  }
  return "";
}

std::string dump(const Program &program, const SourceManager &sources) {
  Printer printer(sources);
  for (const auto &file : program.files) {
    if (file->isLibrary)
      continue;
    printer.text += "file " + sources.name(file->id) + "\n";
    for (const Import &i : file->imports)
      printer.line(i.range, "import " + i.name);
    for (const Block &b : file->blocks) {
      printer.formals("block", b.name, b.formals);
      printer.body(b.body);
    }
    for (const Model &m : file->models) {
      printer.formals("model", m.name, m.formals);
      printer.body(m.body);
    }
    for (const Device &d : file->devices) {
      printer.line(d.range, "device " + d.name.text + (d.base ? " = " + d.base->text() : ""));
      printer.settings("efficiency", d.efficiency);
      printer.settings("passes", d.passes);
      printer.settings("response", d.response);
      printer.measured(d.curves, d.measured);
    }
    for (const Link &l : file->links) {
      printer.line(l.range, "link " + l.name.text + (l.channel.named ? " = " + l.channel.named->text() : ""));
      printer.settings("response", l.response);
      for (const Protocol &protocol : l.protocols)
        printer.settings("protocol " + protocol.name.text, protocol.settings);
      printer.measured(l.curves, l.measured);
    }
    for (const Cluster &c : file->clusters)
      printer.line(c.range, "cluster " + c.name.text);
    for (const Train &t : file->trains) {
      printer.line(t.range, "train " + t.name.text);
      for (const Clause &c : t.clauses)
        printer.clause(c);
    }
  }
  return printer.text;
}

} // namespace echelon::frontend
