// Layout clauses: from parse tree to syntax tree.
#include "frontend/parse/AstBuilder.h"

namespace echelon::frontend {

LayoutClause AstBuilder::layout(P::LayoutBlockContext *c) {
  LayoutClause out;
  out.isAuto = c->AUTO() != nullptr;
  if (c->meshAxes()) {
    out.meshRange = join(range(c->MESH()), range(c->meshAxes()));
    for (auto *axis : c->meshAxes()->meshAxis()) {
      MeshAxis m;
      m.name = ident(axis->name());
      if (axis->count())
        m.size = count(axis->count());
      m.range = range(axis);
      out.mesh.push_back(std::move(m));
    }
  } else {
    out.meshRange = range(c->AUTO());
  }
  if (withErrors && holdsErrorNode(c))
    lost = true;
  for (auto *part : c->layoutClause()) {
    if (broken(part))
      lost = true;
    else
      out.statements.push_back(layoutStatement(part));
  }
  return out;
}

LayoutStatement AstBuilder::layoutStatement(P::LayoutClauseContext *c) {
  if (auto *n = dynamic_cast<P::SplitClauseContext *>(c))
    return split(n);
  if (auto *n = dynamic_cast<P::StoreClauseContext *>(c))
    return StoreClause{range(c), axisNames(n->axisNames()), axisNames(n->meshNames()->axisNames())};
  if (auto *n = dynamic_cast<P::CollectiveClauseContext *>(c))
    return CollectiveClause{range(c), ident(n->name()), axisNames(n->meshNames()->axisNames()), method(n->method())};
  auto *n = static_cast<P::OffloadClauseContext *>(c);
  OffloadClause out;
  out.range = range(c);
  out.what = axisNames(n->axisNames());
  if (n->name()) {
    out.place = ident(n->name());
    out.placeRange = out.place->range;
  } else {
    out.folder = stringValue(n->STRING());
    out.placeRange = range(n->STRING());
  }
  return out;
}

SplitClause AstBuilder::split(P::SplitClauseContext *c) {
  SplitClause out;
  out.range = range(c);
  for (auto *chain : c->splitAxes()->chain())
    out.axes.push_back(idents(chain->name()));
  for (auto *name : c->splitAxes()->name())
    out.axes.push_back({ident(name)});
  out.over = axisNames(c->meshNames()->axisNames());
  for (auto *option : c->splitOption()) {
    if (option->method()) {
      out.with.push_back(method(option->method()));
      continue;
    }
    if (out.parts != SplitClause::Even)
      diagnostics.error(Code::E0402, range(option), "'as' is given twice for one split");
    out.partsRange = range(option);
    out.parts = option->BALANCED() ? SplitClause::Balanced : SplitClause::Given;
    out.counts.clear();
    for (auto *n : option->count())
      out.counts.push_back(count(n));
  }
  return out;
}

std::vector<Ident> AstBuilder::axisNames(P::AxisNamesContext *c) { return idents(c->name()); }

} // namespace echelon::frontend
