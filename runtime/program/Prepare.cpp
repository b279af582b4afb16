#include "runtime/program/Inputs.h"
#include "runtime/program/Train.h"

#include <filesystem>

namespace echelon::runtime {

namespace {

std::string openStream(const Program &program, const DataSpec &spec, const std::string &folder,
                       std::unique_ptr<DataStream> &stream) {
  DataError error;
  stream = openData(spec, inputShapes(program), program.seed, folder, error);
  return error.text;
}

/// Other data under the same name has, mostly, another size.
void describeSize(Program &program, const DataStream &data) {
  if (data.trainSize() == kUnlimited)
    return;
  for (Fingerprint &print : program.fingerprints)
    if (print.category == "data") {
      if (!print.text.empty() && print.text.back() != '\n')
        print.text += '\n';
      print.text +=
          "samples: " + std::to_string(data.trainSize()) + "\nheld out: " + std::to_string(data.heldOutSize()) + "\n";
    }
}

/// Where snapshots lie: `out` has the directory that the spec names, of one that would leave it the last name.
std::string checkpointDirectory(const std::string &named, const std::string &folder, const std::string &out) {
  if (out.empty())
    return resolvePath(named, folder);
  const std::filesystem::path path = (std::filesystem::path(named) / "").lexically_normal().parent_path();
  if (path.is_relative() && *path.begin() != "..")
    return resolvePath(path.string(), out);
  return resolvePath(path.filename() == ".." ? "" : path.filename().string(), out);
}

/// Goes on from prepared.snapshot, with word of what has changed since; or says why not.
std::string goOn(Program &program, const Options &options, Prepared &prepared) {
  Snapshot &snapshot = prepared.snapshot;
  if (const std::string difference = tensorsThatDiffer(program, snapshot); !difference.empty())
    return "--resume: snapshot \"" + snapshot.path + "\" does not have the tensors of this model\n" + difference +
           "  go on with the model that it is of, or start over in another directory (--out DIR)";
  if (snapshot.version == 1) {
    snapshot.samples = snapshot.step * program.batch;
    prepared.notes.push_back("--resume: snapshot \"" + snapshot.path +
                             "\" is of an earlier version of Echelon, which did not keep what was computed: its "
                             "tensors are those of this model, and whether the rest is the same is not known");
  }
  prepared.changes = changesSince(snapshot, program);
  std::string refused, words;
  for (const char *category : {"model", "data", "optimizer"}) {
    std::string lines;
    for (const Change &change : prepared.changes)
      if (change.isAnother && change.category == category)
        lines += linesOf(change);
    const bool accepted = options.accept.count(category);
    if (accepted)
      prepared.notes.push_back(
          lines.empty() ? std::string("--accept ") + category + ": the snapshot's is the same, so that " +
                              "there is nothing to accept"
                        : std::string(category == std::string("data") ? "--resume: other " : "--resume: another ") +
                              category + " is accepted\n" + lines.substr(0, lines.size() - 1));
    else if (!lines.empty()) {
      refused += std::string("  ") + category + " differs:\n" + lines;
      words += (words.empty() ? "" : ",") + std::string(category);
    }
  }
  if (!refused.empty())
    return "--resume: snapshot \"" + snapshot.path + "\" is of another run\n" + refused + "  --accept " + words +
           " goes on all the same; --out DIR starts over in another directory";
  for (const Change &change : prepared.changes)
    if (!change.isAnother)
      prepared.notes.push_back("--resume: " + change.category + ": " + change.text);
  takeOver(program, snapshot);
  prepared.hasSnapshot = true;
  return "";
}

} // namespace

std::string prepare(Program &program, const Options &options, bool saves, Prepared &prepared) {
  const std::string folder = options.folder.empty() ? program.folder : options.folder;
  std::string error = openStream(program, program.data, folder, prepared.data);
  if (!error.empty())
    return error;
  describeSize(program, *prepared.data);
  for (const Evaluation &evaluation : program.evaluations) {
    prepared.evaluationData.emplace_back();
    if (!evaluation.data.kind.empty() &&
        !(error = openStream(program, evaluation.data, folder, prepared.evaluationData.back())).empty())
      return "evaluate " + evaluation.name + ": " + error;
    const int64_t size =
        evaluation.data.kind.empty() ? prepared.data->heldOutSize() : prepared.evaluationData.back()->heldOutSize();
    if (size == 0 && evaluation.data.kind.empty())
      return "evaluate: the data holds no samples out";
    if (size == kUnlimited && evaluation.batches == 0)
      return "evaluate: synthetic data has no end, so say on how many batches";
  }

  if (!options.evaluateFrom.empty()) {
    if (!(error = findSnapshot(options.evaluateFrom, prepared.snapshot, prepared.notes)).empty())
      return error;
    prepared.hasSnapshot = true;
    const std::string difference = tensorsThatDiffer(program, prepared.snapshot, true);
    return difference.empty()
               ? ""
               : "snapshot \"" + prepared.snapshot.path + "\" does not have the tensors of this model\n" + difference +
                     "  evaluate it with the model that it is of";
  }
  if (!program.checkpoint.directory.empty())
    prepared.checkpointDirectory = checkpointDirectory(program.checkpoint.directory, folder, options.out);
  if (prepared.checkpointDirectory.empty()) {
    if (!options.out.empty())
      prepared.notes.push_back("--out: the spec has no checkpoint clause, so nothing is written to \"" + options.out +
                               "\"");
    return "";
  }
  if (saves && !(error = prepared.claim.take(prepared.checkpointDirectory)).empty())
    return error;
  std::vector<std::string> there;
  if (!(error = listSnapshots(prepared.checkpointDirectory, there)).empty())
    return error;
  if (!options.resume)
    return there.empty() ? ""
                         : "\"" + prepared.checkpointDirectory + "\" has snapshots of an earlier run, the newest " +
                               there.front().substr(there.front().rfind('/') + 1) +
                               ": go on from it with --resume, or empty the directory or name another one (--out DIR)";
  if (there.empty()) {
    prepared.notes.push_back("--resume: there is no snapshot in \"" + prepared.checkpointDirectory +
                             "\" yet; starting at step 0");
    return "";
  }
  if (!(error = findSnapshot(prepared.checkpointDirectory, prepared.snapshot, prepared.notes)).empty())
    return error;
  return goOn(program, options, prepared);
}

std::string prepareRestart(Program &program, const Options &options, Prepared &prepared) {
  program.course = Course();
  prepared.changes.clear();
  prepared.notes.clear();
  prepared.hasSnapshot = false;
  prepared.claim.removeUnfinished();
  std::vector<std::string> there;
  std::string error = listSnapshots(prepared.checkpointDirectory, there);
  if (!error.empty())
    return error;
  if (there.empty()) {
    prepared.notes.emplace_back("there is no snapshot yet; starting at step 0 again");
    return "";
  }
  error = findSnapshot(prepared.checkpointDirectory, prepared.snapshot, prepared.notes);
  return error.empty() ? goOn(program, options, prepared) : error;
}

} // namespace echelon::runtime
