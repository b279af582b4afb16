#include "runtime/snapshot/Agreement.h"
#include "runtime/launch/Nearest.h"
#include "runtime/program/Assemble.h"
#include "runtime/snapshot/CompareMathematics.h"
#include "runtime/snapshot/Mathematics.h"
#include "runtime/snapshot/OtherWorkers.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace echelon::runtime {

namespace {

std::string textOf(const std::vector<Fingerprint> &prints, const std::string &category) {
  for (const Fingerprint &print : prints)
    if (print.category == category)
      return print.text;
  return "";
}

//===- tensors ---------------------------------------------------------------------------------------------------===//

std::string shapeOf(ElementType type, const std::vector<int64_t> &sizes) {
  std::string text = "[";
  for (const int64_t size : sizes)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "] " + (type == ElementType::UInt8 ? "u8" : namesOf(type).ir);
}

/// The names and order of a parameter's axes as the snapshot's model has them.
std::map<std::string, std::vector<std::string>> axesOf(const std::vector<Mathematics::Tensor> &tensors) {
  std::map<std::string, std::vector<std::string>> result;
  for (const Mathematics::Tensor &tensor : tensors)
    if (tensor.kind != "input")
      for (const std::string &axis : tensor.axes)
        result[tensor.name].push_back(axis.substr(1, axis.find('=') - 1));
  return result;
}

Mathematics declarationsOf(const Program &program) {
  Mathematics result;
  auto add = [&](const char *kind, const std::string &name, const std::vector<std::string> &axes) {
    result.tensors.push_back({kind, name, {}});
    for (const std::string &axis : axes)
      result.tensors.back().axes.push_back("'" + axis);
  };
  for (const Input &input : program.inputs)
    add("input", input.name, input.axes);
  for (const Stored &stored : program.stored)
    if (stored.kind == Stored::Param || stored.kind == Stored::State)
      add(stored.kind == Stored::Param ? "param" : "state", stored.path, stored.axes);
  return result;
}

std::string bracketed(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return "[" + text + "]";
}

bool fits(const SafetensorsFile::Tensor &tensor, const Stored &stored) {
  return tensor.type == stored.type && tensor.sizes == logicalSizes(stored.layout, stored.axes);
}

/// Of the optimizer or an average, which a program without them does not take over.
bool isOfUpdate(const Snapshot &snapshot, const std::string &path) {
  auto begins = [&](const char *prefix, size_t length) { return path.compare(0, length, prefix) == 0; };
  return begins("optimizer.", 10) || (begins("average.", 8) && snapshot.tensor(path.substr(8)));
}

/// What the snapshot has not, or in another shape.
std::vector<std::string> missingOfOptimizer(const Program &program, const Snapshot &snapshot) {
  std::vector<std::string> missing;
  for (const Stored &stored : program.stored)
    if (stored.kind == Stored::Optimizer) {
      const SafetensorsFile::Tensor *found = snapshot.tensor(stored.path);
      if (!found || (!fits(*found, stored) && !isOfOtherWorkers(program, snapshot, *found, stored)))
        missing.push_back(stored.path);
    }
  return missing;
}

/// What each worker has for itself, where the snapshot is of others.
void addWorkers(const Snapshot &snapshot, const Program &program, std::vector<Change> &changes) {
  std::string first, then, now;
  size_t more = 0;
  for (const Stored &stored : program.stored)
    if (const SafetensorsFile::Tensor *found = snapshot.tensor(stored.path);
        found && isOfOtherWorkers(program, snapshot, *found, stored)) {
      if (!first.empty()) {
        ++more;
        continue;
      }
      first = stored.path;
      then = shapeOf(found->type, found->sizes);
      now = shapeOf(stored.type, logicalSizes(stored.layout, stored.axes));
    }
  if (first.empty())
    return;
  const std::string all = first + (more ? " and " + std::to_string(more) + " more" : "");
  changes.push_back({"optimizer",
                     {first + " " + then},
                     {first + " " + now},
                     all + (more ? " are" : " is") + " of other workers, " + then + " then and " + now +
                         " now: each starts from their mean",
                     false});
}

//===- names and values ------------------------------------------------------------------------------------------===//

using Values = std::vector<std::pair<std::string, std::string>>;

Values valuesOf(const std::string &text) {
  Values values;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t colon = std::min(line.find(": "), line.size());
    values.emplace_back(line.substr(0, colon), colon < line.size() ? line.substr(colon + 2) : "");
    at = end + 1;
  }
  return values;
}

/// Name, value then, value now of all that differ; "none" where there is none.
std::vector<std::array<std::string, 3>> differingValues(const std::string &then, const std::string &now) {
  std::map<std::string, std::string> others;
  std::set<std::string> named;
  const Values a = valuesOf(then), b = valuesOf(now);
  others.insert(b.begin(), b.end());
  std::vector<std::array<std::string, 3>> result;
  for (const auto &[name, value] : a) {
    const auto found = others.find(name);
    const std::string other = found == others.end() ? "none" : found->second;
    if (named.insert(name).second && other != value)
      result.push_back({name, value, other});
  }
  for (const auto &[name, value] : b)
    if (named.insert(name).second)
      result.push_back({name, "none", value});
  return result;
}

Change changeOf(const std::string &category, const std::array<std::string, 3> &difference, bool isAnother) {
  const auto &[name, then, now] = difference;
  return {category, {name + " " + then}, {name + " " + now}, name + " " + then + " is now " + now, isAnother};
}

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

//===- categories ------------------------------------------------------------------------------------------------===//

void addModel(const std::string &then, const std::string &now, std::vector<Change> &changes) {
  for (const ModelDifference &difference : compareMathematics(then, now)) {
    Change change = {"model", difference.then, difference.now, "", difference.kind == ModelDifference::Structure};
    const std::string line = !difference.now.empty()    ? difference.now.front() + ": "
                             : !difference.then.empty() ? difference.then.front() + ": "
                                                        : "";
    const std::string what = difference.what.empty() ? "" : difference.what + " ";
    if (difference.kind == ModelDifference::Number)
      change.text = line + what + difference.from + " is now " + difference.to;
    else if (difference.kind == ModelDifference::Site)
      change.text = line + what + "draws as " + difference.to + ", and drew as " + difference.from +
                    ": its random values are others";
    changes.push_back(std::move(change));
  }
}

/// An input under another name is the one that it was.
std::string renamedInputs(const std::string &list, const std::map<std::string, std::string> &names) {
  std::string result;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(", ", at), list.size());
    const std::string name = list.substr(at, end - at);
    const auto found = names.find(name);
    result += (result.empty() ? "" : ", ") + (found == names.end() ? name : found->second);
    at = end + 2;
  }
  return result;
}

void addData(const Snapshot &snapshot, const Program &program, std::vector<Change> &changes) {
  Mathematics then, now;
  Renaming renaming;
  if (readMathematics(textOf(snapshot.fingerprints, "model"), {}, then).empty() &&
      readMathematics(textOf(program.fingerprints, "model"), {}, now).empty())
    renaming = renamingOf(then, now);
  for (const auto &difference :
       differingValues(textOf(snapshot.fingerprints, "data"), textOf(program.fingerprints, "data"))) {
    const std::string &name = difference[0];
    if (name == "fills" && renamedInputs(difference[1], renaming.inputs) == difference[2])
      continue;
    Change change = changeOf("data", difference, name == "source" || name == "fills" || name == "samples");
    if (name == "batch")
      change.text += ": the data goes on after the " + std::to_string(snapshot.samples) + " samples seen";
    changes.push_back(std::move(change));
  }
}

void addOptimizer(const Snapshot &snapshot, const Program &program, std::vector<Change> &changes) {
  const auto differences =
      differingValues(textOf(snapshot.fingerprints, "optimizer"), textOf(program.fingerprints, "optimizer"));
  const std::vector<std::string> missing = missingOfOptimizer(program, snapshot);
  const bool decays = std::none_of(differences.begin(), differences.end(), [](const auto &difference) {
    return difference[0] == "decay" || endsWith(difference[0], " decay");
  });
  bool another = false;
  for (const auto &difference : differences) {
    const auto &[name, then, now] = difference;
    if (name.compare(0, 9, "decay of ") == 0) {
      const std::string path = name.substr(9);
      if (decays) // else all of it follows from the decay that is another
        changes.push_back({"optimizer",
                           {(then == "none" ? "no decay of " : "decay of ") + path},
                           {(now == "none" ? "no decay of " : "decay of ") + path},
                           now == "none" ? "decay does not take " + path + " any more" : "decay now takes " + path,
                           false});
      continue;
    }
    const bool isKind = (name == "kind" || endsWith(name, " kind")) && then != "none" && now != "none";
    another |= isKind;
    changes.push_back(changeOf("optimizer", difference, isKind));
  }
  if (missing.empty())
    return;
  const std::string more = missing.size() > 1 ? " and " + std::to_string(missing.size() - 1) + " more" : "";
  const char *start = more.empty() ? " starts at zero" : " start at zero";
  if (another) { // one thing: what another optimizer keeps is another
    for (Change &change : changes)
      if (change.category == "optimizer" && change.isAnother) {
        change.now.back() += "; " + missing.front() + more + start;
        break;
      }
    return;
  }
  changes.push_back({"optimizer", {"no " + missing.front() + more}, {missing.front() + more + start}, "", true});
}

} // namespace

std::string tensorsThatDiffer(const Program &program, const Snapshot &snapshot, bool withAverages) {
  constexpr size_t most = 6;
  std::vector<std::string> lines, missing, extra;
  std::set<std::string> known;
  Mathematics then;
  const bool isKnown = readMathematics(textOf(snapshot.fingerprints, "model"), {}, then).empty();
  const bool isRenamed = isKnown && !renamingOf(then, declarationsOf(program)).axes.empty();
  const auto axes = axesOf(then.tensors);
  for (const Stored &stored : program.stored) {
    if (stored.kind == Stored::Optimizer || (stored.kind == Stored::Average && !withAverages))
      continue;
    known.insert(stored.path);
    const SafetensorsFile::Tensor *found = snapshot.tensor(stored.path);
    if (!found) {
      missing.push_back(stored.path);
      continue;
    }
    if (!fits(*found, stored)) {
      lines.push_back(stored.path + " is " + shapeOf(found->type, found->sizes) + " in the snapshot, and " +
                      shapeOf(stored.type, logicalSizes(stored.layout, stored.axes)) + " now");
      continue;
    }
    const auto named = axes.find(stored.path);
    if (isRenamed || named == axes.end() || named->second == stored.axes ||
        !std::is_permutation(named->second.begin(), named->second.end(), stored.axes.begin(), stored.axes.end()))
      continue;
    lines.push_back(stored.path + " is " + bracketed(named->second) + " in the snapshot, and " +
                    bracketed(stored.axes) + " now");
  }
  for (const SafetensorsFile &file : snapshot.files)
    for (const auto &[path, tensor] : file.tensors())
      if (!known.count(path) && !isOfUpdate(snapshot, path))
        extra.push_back(path);
  for (const std::string &path : missing) {
    std::string other = lines.size() < most ? nearest(path, extra) : "";
    if (other.empty() && !extra.empty())
      other = extra.front();
    lines.push_back(path + " is not in the snapshot" +
                    (other.empty() ? "" : "; it has " + other + ", which is not there now"));
  }
  if (missing.empty())
    for (const std::string &path : extra)
      lines.push_back(path + " is in the snapshot, and not there now");
  std::string text;
  for (size_t i = 0; i < lines.size() && i < most; ++i)
    text += "  " + lines[i] + "\n";
  return text + (lines.size() > most ? "  and " + std::to_string(lines.size() - most) + " more\n" : "");
}

std::vector<Change> changesSince(const Snapshot &snapshot, const Program &program) {
  std::vector<Change> changes;
  if (snapshot.version == 1) { // nothing in it can be compared, but what the optimizer keeps
    if (const std::vector<std::string> missing = missingOfOptimizer(program, snapshot); !missing.empty())
      changes.push_back({"optimizer", {"no " + missing.front()}, {missing.front() + " starts at zero"}, "", true});
    return changes;
  }
  addModel(textOf(snapshot.fingerprints, "model"), textOf(program.fingerprints, "model"), changes);
  addData(snapshot, program, changes);
  for (const auto &difference :
       differingValues(textOf(snapshot.fingerprints, "seed"), textOf(program.fingerprints, "seed"))) {
    changes.push_back(changeOf("seed", difference, false));
    changes.back().text = difference[1] + " is now " + difference[2] +
                          ": the order of the data and random values are others from here on";
  }
  addOptimizer(snapshot, program, changes);
  addWorkers(snapshot, program, changes);
  return changes;
}

std::string linesOf(const Change &change) {
  constexpr size_t most = 6;
  auto side = [](const char *name, const std::vector<std::string> &lines) {
    std::string text;
    for (size_t i = 0; i < lines.size() && i < most; ++i)
      text += name + lines[i] + "\n";
    if (lines.size() > most)
      text += name + ("and " + std::to_string(lines.size() - most)) + " more lines\n";
    return lines.empty() ? name + std::string("nothing\n") : text;
  };
  return side("    snapshot: ", change.then) + side("    now:      ", change.now);
}

void takeOver(Program &program, Snapshot &snapshot) {
  program.course = {};
  program.course.step = snapshot.step;
  program.course.samples = snapshot.samples;
  program.course.momentsFrom = snapshot.momentsFrom;
  program.course.averagesFrom = snapshot.averagesFrom;
  if (program.lossScale.isDynamic) {
    program.course.lossScale = snapshot.lossScale;
    program.course.goodSteps = snapshot.goodSteps;
  }
  if (program.sync) { // tickets of another size: on behind all samples seen
    const int64_t mini = program.miniBatch();
    if (snapshot.miniBatch == mini)
      program.course.tickets = snapshot.tickets;
    else
      program.course.tickets = {(snapshot.samples + mini - 1) / mini, {}, snapshot.tickets.time};
  }
  for (const Stored &stored : program.stored)
    if (stored.kind == Stored::Average && !snapshot.tensor(stored.path))
      program.course.averagesFrom = snapshot.step; // they start as the parameters are: loadSnapshot
  const std::vector<std::string> missing = missingOfOptimizer(program, snapshot);
  snapshot.startsAtZero = {missing.begin(), missing.end()};
  // Adam's moments share one correction of their bias, so that they start together.
  auto isMoment = [](const std::string &path) {
    return path.compare(0, 12, "optimizer.m.") == 0 || path.compare(0, 12, "optimizer.v.") == 0;
  };
  if (std::none_of(missing.begin(), missing.end(), isMoment))
    return;
  program.course.momentsFrom = snapshot.step;
  for (const Stored &stored : program.stored)
    if (stored.kind == Stored::Optimizer && isMoment(stored.path))
      snapshot.startsAtZero.insert(stored.path);
}

} // namespace echelon::runtime
