// The layout: mesh axes and their lists, what is stored over them, and whether the batch divides.
#include "frontend/resolve/Pipeline.h"
#include "frontend/resolve/Resolver.h"
#include <algorithm>
#include <set>

namespace echelon::frontend {

namespace {
const std::vector<std::string> stored = {"optimizer", "gradients", "params"};

std::string withArticle(int64_t ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }
} // namespace

// The open axis of the model.
std::string TrainResolver::batchAxis() const {
  if (settings.model)
    for (const StatementPtr &s : settings.model->body)
      if (auto *axis = dynCast<AxisStatement>(s); axis && axis->open())
        return axis->name.text;
  return "batch";
}

void TrainResolver::take(const LayoutClause &c, const Clause &clause) {
  if (hasLayout)
    return; // reported as given twice
  hasLayout = true;
  settings.layoutRange = c.meshRange;
  if (c.isAuto) {
    settings.layoutBuilt = false; // until one is chosen
    layoutOpen = true;
  }
  for (const MeshAxis &m : c.mesh) {
    MeshAxisSettings axis;
    axis.name = m.name.text;
    axis.range = m.name.range;
    if (!m.size) {
      settings.layoutBuilt = false;
      layoutOpen = true;
    } else {
      atLeastOne(*m.size, "the size of mesh axis " + m.name.text);
      layoutOpen |= !m.size->known;
      axis.size = std::max<int64_t>(m.size->value, 1);
    }
    bool twice = false;
    for (const MeshAxisSettings &other : settings.mesh)
      if (other.name == axis.name) {
        error(Code::E0301, m.name.range, "mesh axis " + quoted(axis.name) + " is declared twice")
            .note(other.range, "it is declared here first");
        twice = true;
      }
    if (!twice)
      settings.mesh.push_back(std::move(axis));
  }
  double product = 1;
  for (const MeshAxisSettings &axis : settings.mesh)
    product *= double(axis.size);
  bool onGiven = program.findCluster(program.main(), Path{{{"here", {}}}, {}}) != nullptr;
  for (const Clause &other : train.clauses)
    onGiven |= std::holds_alternative<OnClause>(other.what);
  const bool beyondCluster = onGiven && settings.clusterRanks && product > double(settings.clusterRanks);
  meshTooLarge = beyondCluster || product > double(1 << 20);
  if (beyondCluster)
    error(Code::E0302, c.meshRange,
          "the mesh has " + plain(product) + " ranks, and the cluster offers " + std::to_string(settings.clusterRanks) +
              "; the product of the sizes is at most that");
  else if (meshTooLarge)
    error(Code::E0302, c.meshRange, "the mesh has " + plain(product) + " ranks; that is more than any cluster has");
  else if (!onGiven)
    settings.clusterRanks = int64_t(product);
  for (const LayoutStatement &s : c.statements) {
    if (auto *x = std::get_if<SplitClause>(&s))
      split(*x);
    else if (auto *x = std::get_if<StoreClause>(&s))
      store(*x);
    else if (auto *x = std::get_if<OffloadClause>(&s))
      offload(*x);
    else
      collective(std::get<CollectiveClause>(s));
  }
  if (layoutOpen || train.broken)
    return;
  for (const MeshAxisSettings &axis : settings.mesh) {
    bool stores = !axis.stored.empty();
    for (const LayoutStatement &s : c.statements)
      if (auto *x = std::get_if<StoreClause>(&s))
        for (const Ident &over : x->over)
          stores |= over.text == axis.name;
    if (axis.list.empty() && !stores && !wrongMeshAxis) // else a line may have meant this one
      error(Code::E0305, axis.range,
            "mesh axis " + quoted(axis.name) + " neither splits nor stores anything, so its " + withArticle(axis.size) +
                " would do the same work; split something over it, or leave it out");
  }
}

// The mesh axes after `over`; unknown and repeated ones are reported and left out.
std::vector<MeshAxisSettings *> TrainResolver::meshAxes(const std::vector<Ident> &over) {
  std::vector<MeshAxisSettings *> out;
  std::vector<std::string> known;
  for (const MeshAxisSettings &axis : settings.mesh)
    known.push_back(axis.name);
  for (const Ident &name : over) {
    MeshAxisSettings *found = nullptr;
    for (MeshAxisSettings &axis : settings.mesh)
      if (axis.name == name.text)
        found = &axis;
    if (!found) {
      if (known.empty() && layoutOpen)
        continue; // a mesh that is left open has whatever axes it wants
      std::string hint = didYouMean(name.text, known);
      wrongMeshAxis = true;
      error(Code::E0303, name.range,
            "the mesh has no axis " + quoted(name.text) +
                (hint.empty() && !known.empty() ? "; it has " + listed(known) : hint) +
                (name.text == batchAxis()
                     ? "; " + name.text + " is an axis of the model, and these come first: split " + name.text +
                           " over " + (known.empty() ? "dp" : known.front())
                     : ""));
    } else if (std::find(out.begin(), out.end(), found) != out.end()) {
      error(Code::E0304, name.range, "mesh axis " + quoted(name.text) + " is named twice in one line");
    } else {
      out.push_back(found);
    }
  }
  return out;
}

/// The axis that an axis of the model is like, at the end of all such declarations.
static std::string likeWhich(const Body &body, std::string axis) {
  for (size_t i = 0; i < body.size(); ++i) // an axis declared by itself is refused elsewhere
    for (const StatementPtr &s : body)
      if (auto *declared = dynCast<AxisStatement>(s); declared && declared->name.text == axis && declared->like) {
        axis = declared->like->text;
        break;
      }
  return axis;
}

/// `as (7, 8, 8, 7)`, `as balanced`: what the stages of a pipeline have of its iterations.
void TrainResolver::parts(const SplitClause &c, MeshAxisSettings &axis) {
  axis.parts = c.partsRange;
  axis.balanced = c.parts == SplitClause::Balanced;
  axis.counts.clear();
  for (const Count &n : c.counts)
    if (n.known && n.value > 0)
      axis.counts.push_back(n.value);
  const int64_t wanted = axis.size * axis.chunks;
  if (!axis.balanced && !layoutOpen && int64_t(c.counts.size()) != wanted)
    error(Code::E0404, c.partsRange,
          std::to_string(c.counts.size()) + (c.counts.size() == 1 ? " part is given, and " : " parts are given, and ") +
              axis.name + " = " + std::to_string(axis.size) + " ranks take " +
              (axis.chunks > 1 ? std::to_string(axis.chunks) + " each, " + std::to_string(wanted) + " in all"
                               : "one each"));
}

void TrainResolver::split(const SplitClause &c) {
  const Method *zigzag = nullptr, *padding = nullptr, *ring = nullptr;
  std::set<std::string> seen;
  const Method *schedule = nullptr;
  int64_t chunksOfStage = 1;
  for (const Method &m : c.with) {
    if (!oneOf(m.name, {"padding", "zigzag", "ring", "gpipe", "1f1b", "interleaved", "zero_bubble"},
               "way of splitting"))
      continue;
    if (!seen.insert(m.name.text).second) {
      error(Code::E0402, m.range, "'with " + m.name.text + "' is given twice");
      continue;
    }
    bool chunks = m.name.text == "interleaved";
    Arguments args(m.name.text, m.range, m.arguments,
                   chunks ? std::vector<std::string>{"chunks"} : std::vector<std::string>(), diagnostics);
    if (chunks && args.require("chunks"))
      chunksOfStage = args.whole("chunks", {2, 1 << 20, false, false}).value_or(1);
    if (m.name.text == "padding")
      padding = &m;
    else if (m.name.text == "zigzag")
      zigzag = &m;
    else if (m.name.text == "ring")
      ring = &m;
    else if (!schedule)
      schedule = &m;
    else
      error(Code::E0402, m.range,
            "a pipeline works in one order, and " + m.name.text + " is a second one; leave " + m.name.text + " or " +
                schedule->name.text + " out")
          .note(schedule->range, "the first one is here");
  }
  if (zigzag && padding)
    error(Code::E0409, zigzag->range,
          "'with zigzag' and 'with padding' do not go together: chunks are of equal size; leave one out")
        .note(padding->range, "'with padding' is here");
  if (ring && padding)
    error(Code::E0409, ring->range,
          "'with ring' and 'with padding' do not go together: ranks send blocks of keys that are of equal size; leave "
          "one out")
        .note(padding->range, "'with padding' is here");
  for (const Count &n : c.counts)
    atLeastOne(n, "a part of a split");
  std::vector<MeshAxisSettings *> over = meshAxes(c.over);
  for (MeshAxisSettings *axis : over)
    if (ring)
      axis->ring = ring->range;
  for (MeshAxisSettings *axis : over)
    if (schedule && !axis->schedule.empty()) {
      error(Code::E0402, schedule->range,
            "the stages over " + axis->name + " work in one order, and " + axis->schedule + " is given already")
          .note(axis->scheduleRange, "it is given here");
    } else if (schedule) {
      axis->schedule = schedule->name.text;
      axis->chunks = chunksOfStage;
      axis->scheduleRange = schedule->range;
    }
  if (c.parts != SplitClause::Even)
    for (MeshAxisSettings *axis : over)
      parts(c, *axis);
  for (const std::vector<Ident> &chain : c.axes)
    for (const Ident &name : chain)
      for (MeshAxisSettings *axis : over)
        list({name.text, padding != nullptr, zigzag != nullptr, name.range, &name != &chain.front(), {}}, *axis);
}

/// One more axis that a mesh axis splits.
void TrainResolver::list(const MeshAxisSettings::Entry &entry, MeshAxisSettings &axis) {
  for (const MeshAxisSettings::Entry &known : axis.list)
    if (known.axis == entry.axis) {
      error(Code::E0304, entry.range, "axis " + quoted(entry.axis) + " is listed twice for mesh axis " + axis.name)
          .note(known.range, "it is listed here first");
      return;
    }
  if (entry.zigzag && settings.model && likeWhich(settings.model->body, entry.axis) == batchAxis())
    error(Code::E0320, entry.range,
          "'with zigzag' shares out positions, and samples, which " + entry.axis +
              " counts, have none; split it in a line of its own, without zigzag");
  axis.list.push_back(entry);
}

void TrainResolver::store(const StoreClause &c) {
  std::vector<MeshAxisSettings *> over = meshAxes(c.over);
  std::set<std::string> seen;
  for (const Ident &what : c.what) {
    if (!oneOf(what, stored, "thing to store"))
      continue;
    if (!seen.insert(what.text).second) {
      error(Code::E0307, what.range, quoted(what.text) + " is named twice in one line");
      continue;
    }
    for (MeshAxisSettings *axis : over)
      if (!axis->stored.emplace(what.text, c.range).second)
        error(Code::E0307, what.range,
              (what.text == "optimizer" ? "the optimizer is" : what.text + " are") + " stored over " +
                  quoted(axis->name) + " already");
  }
}

void TrainResolver::offload(const OffloadClause &c) {
  std::set<std::string> named;
  for (const Ident &what : c.what) {
    if (!oneOf(what, {"optimizer", "gradients", "params", "activations"}, "thing to offload"))
      continue;
    if (what.text != "optimizer" && what.text != "params")
      notBuilt(what.range, "offload " + what.text, "leave it out; optimizer and params are built");
    else if (!named.insert(what.text).second)
      error(Code::E0307, what.range, quoted(what.text) + " is named twice in one line");
  }
  const bool isOfOptimizer = named.count("optimizer"), isOfParams = named.count("params");
  if (isOfParams && !isOfOptimizer)
    notBuilt(c.range, "offload params without optimizer", "write offload optimizer, params to …");
  if (c.place && !oneOf(*c.place, {"host"}, "place"))
    return;
  if (c.folder && c.folder->empty())
    error(Code::E0404, c.placeRange, "the folder that the optimizer's state is offloaded to has no name");
  if (!isOfOptimizer)
    return;
  if (settings.offload)
    error(Code::E0307, c.range, "the optimizer is offloaded already; leave one of the lines out")
        .note(settings.offload->range, "it is offloaded here first");
  settings.offload = {c.folder.value_or(""), c.range, isOfParams};
}

void TrainResolver::collective(const CollectiveClause &c) {
  bool known = oneOf(c.what, {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"}, "collective");
  known &= oneOf(c.with.name, {"ring", "tree", "butterfly", "one_to_all", "hierarchical", "native"}, "algorithm");
  Arguments(c.with.name.text, c.with.range, c.with.arguments, {}, diagnostics);
  std::vector<MeshAxisSettings *> over = meshAxes(c.over);
  if (!known || over.empty())
    return;
  if (c.with.name.text == "hierarchical" && (c.what.text != "all_reduce" || over.size() < 2)) {
    error(Code::E0409, c.range,
          "hierarchical is a way of an all_reduce over two mesh axes or more, the last of them inside of a machine, as "
          "in "
          "collective all_reduce over (pod, dp) with hierarchical");
    return;
  }
  CollectiveSettings out{c.what.text, {}, c.with.name.text, c.range};
  for (const MeshAxisSettings &axis : settings.mesh)
    if (std::find(over.begin(), over.end(), &axis) != over.end())
      out.over.push_back(axis.name);
  for (const CollectiveSettings &other : settings.collectives)
    if (other.kind == out.kind && other.over == out.over)
      error(Code::E0409, c.range,
            "the algorithm of " + out.kind + " over " + listed(out.over) + " is given already: " + other.algorithm);
  settings.collectives.push_back(std::move(out));
}

// Without a layout, the batch is split over all ranks. Then: does the batch divide?
void TrainResolver::finishLayout() {
  std::string batch = batchAxis();
  if (!hasLayout || (settings.mesh.empty() && layoutOpen)) {
    MeshAxisSettings axis;
    axis.name = "dp";
    axis.size = hasLayout || oneRank ? 1 : std::max<int64_t>(settings.clusterRanks, 1);
    axis.range = settings.batchRange;
    axis.list.push_back({batch, false, false, settings.batchRange, false, {}});
    settings.layoutRange = hasLayout ? settings.layoutRange : settings.batchRange;
    settings.mesh.push_back(std::move(axis));
  }
  if (layoutOpen || meshTooLarge || settings.batch == 0)
    return;
  int64_t ranks = settings.batchRanks(batch);
  bool padded = false;
  for (const MeshAxisSettings &axis : settings.mesh)
    for (const MeshAxisSettings::Entry &entry : axis.list)
      padded |= entry.axis == batch && entry.padded;
  const BatchClause *clause = nullptr;
  for (const Clause &c : train.clauses)
    if (auto *b = std::get_if<BatchClause>(&c.what); b && !clause)
      clause = b;
  if (!clause || !clause->size.known || clause->size.value < 1)
    return;
  std::string over = ranks > 1 ? withArticle(ranks) : "";
  if (!clause->micro) {
    if (settings.batch % ranks != 0 && !padded && !oneRank)
      error(Code::E0308, clause->size.range,
            "a batch of " + std::to_string(settings.batch) + " does not divide over " + over + "; " +
                std::to_string(settings.batch / ranks * ranks + ranks) + " would");
    return;
  }
  int64_t micro = clause->micro->value;
  if (!clause->micro->known || micro < 1)
    return;
  int64_t pass = 0;
  auto divides = [&] { return !__builtin_mul_overflow(micro, ranks, &pass) && settings.batch % pass == 0; };
  if (oneRank && !divides()) { // else as many as the layout has, whose numbers these are
    ranks = 1;
    over.clear();
  }
  if (!divides()) {
    int64_t fits = 0;
    if (settings.batch % ranks == 0)
      for (int64_t n = std::min(micro, settings.batch / ranks), tries = 1 << 16; n > 0 && tries && !fits; --n, --tries)
        fits = settings.batch / ranks % n == 0 ? n : 0;
    std::string remedy = fits ? "; micro batches of " + std::to_string(fits) + " would"
                              : "; the batch is a multiple of " + plain(double(micro) * double(ranks));
    error(Code::E0308, join(clause->size.range, clause->micro->range),
          "a batch of " + std::to_string(settings.batch) + " does not divide into micro batches of " +
              std::to_string(micro) +
              (over.empty() ? "" : " on each of " + over + ", " + plain(double(micro) * double(ranks)) + " a pass") +
              remedy);
    return;
  }
  settings.microBatches = settings.batch / pass;
}

namespace {
/// The axes that the model declares a parameter or an input of that name with; null: it declares none.
const std::vector<Ident> *axesOf(const Body &body, const std::string &name) {
  for (const StatementPtr &s : body) {
    const std::vector<Ident> *found = nullptr;
    if (auto *param = s ? dynCast<ParamStatement>(s) : nullptr)
      found = param->name.text == name ? &param->axes : nullptr;
    else if (auto *input = s ? dynCast<InputStatement>(s) : nullptr)
      found = input->name.text == name ? &input->axes : nullptr;
    else if (auto *repeat = s ? dynCast<RepeatStatement>(s) : nullptr)
      found = axesOf(repeat->body, name);
    if (found)
      return found;
  }
  return nullptr;
}
} // namespace

void checkAxes(RunSettings &settings, const std::map<std::string, int64_t> &sizes, const std::set<std::string> &repeats,
               Diagnostics &diagnostics) {
  std::vector<std::string> known;
  for (const auto &[name, size] : sizes)
    known.push_back(name);
  for (const std::string &name : repeats)
    known.push_back(name);
  const MeshAxisSettings *pipeline = nullptr;
  for (MeshAxisSettings &mesh : settings.mesh) {
    checkPipeline(mesh, sizes, repeats, settings, diagnostics);
    for (const MeshAxisSettings::Entry &entry : mesh.list) {
      if (repeats.count(entry.axis)) {
        if (pipeline && pipeline != &mesh && mesh.size > 1) {
          settings.layoutBuilt = false;
          settings.notBuilt.push_back(
              {entry.range, "a second pipeline", "split the axis of one repeat, over one mesh axis"});
        }
        pipeline = &mesh;
      } else if (!sizes.count(entry.axis)) {
        std::string hint = didYouMean(entry.axis, known);
        if (hint.empty())
          hint = "; its axes are " + listed(known);
        if (const auto *axes = settings.model ? axesOf(settings.model->body, entry.axis) : nullptr;
            axes && !axes->empty()) {
          std::vector<std::string> names;
          for (const Ident &axis : *axes)
            names.push_back(axis.text);
          hint = ": that is a tensor, and what is split is an axis wherever it stands; " + entry.axis + " has " +
                 listed(names);
        }
        diagnostics.error(Code::E0306, entry.range, "the model has no axis " + quoted(entry.axis) + hint);
      }
    }
  }
}

} // namespace echelon::frontend
