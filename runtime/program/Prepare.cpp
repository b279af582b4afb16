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
          "samples " + std::to_string(data.trainSize()) + ", held out " + std::to_string(data.heldOutSize()) + "\n";
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
    const std::string difference = differences(program, prepared.snapshot, {"model"});
    return difference.empty() ? "" : "snapshot \"" + prepared.snapshot.path + "\" is of another model\n" + difference;
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
  prepared.hasSnapshot = true;
  const std::string difference = differences(program, prepared.snapshot, {"model", "data", "seed", "optimizer"});
  if (!difference.empty())
    return "--resume: snapshot \"" + prepared.snapshot.path + "\" is of another run\n" + difference +
           "  a changed layout, length, evaluation or checkpoint clause would be fine; go on with what the snapshot "
           "was "
           "made by, or start anew in another directory (--out DIR)";
  return "";
}

std::string prepareRestart(Prepared &prepared) {
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
  prepared.hasSnapshot = error.empty();
  return error;
}

} // namespace echelon::runtime
