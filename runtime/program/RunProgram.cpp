#include "runtime/data/File.h"
#include "runtime/kernels/cpu/Threads.h"
#include "runtime/launch/Descriptors.h"
#include "runtime/launch/Fail.h"
#include "runtime/launch/Launch.h"
#include "runtime/program/Memory.h"
#include "runtime/program/Offload.h"
#include "runtime/program/Opening.h"
#include "runtime/program/Options.h"
#include "runtime/program/Train.h"

#include <csignal>
#include <cstdio>

namespace echelon::runtime {

/// Without memory for copies of the state snapshots are written, but within the step. State that lies in a file has
/// none: it is there for the memory.
static void lookForRoom(const Program &program, const Options &options, int ranksHere, Prepared &prepared) {
  const bool saves = options.evaluateFrom.empty();
  if (const std::string note = noteOfOffload(program.offload); !note.empty())
    prepared.notes.push_back(note);
  if (program.offload.isInFile()) {
    prepared.hasRoomForCopies = false;
    if (!prepared.checkpointDirectory.empty())
      prepared.notes.push_back("offload: training waits until a snapshot is written");
    return;
  }
  prepared.hasRoomForCopies = saves && hasRoomForCopies(program, ranksHere);
  if (saves && !prepared.hasRoomForCopies)
    prepared.notes.push_back("this machine has no memory for a second copy of parameters and optimizer: training waits "
                             "until a snapshot is written");
}

/// Where the file is, and all that is offloaded: what the optimizers of several workers of a rank keep comes last.
static void completeOffload(Program &program, const std::string &folder) {
  Offload &offload = program.offload;
  program.stateBytes = (program.stateBytes + kOffloadAlignment - 1) / kOffloadAlignment * kOffloadAlignment;
  offload.bytes = program.stateBytes - offload.from;
  if (offload.isInFile())
    offload.directory = resolvePath(offload.directory, folder);
  else
    offload.resident = offload.bytes;
}

int run_program(const Program &compiled, int argc, char **argv) {
  Program program = compiled; // what its data turns out to be is added
  const std::string path = argc > 0 ? argv[0] : "program", executable = path.substr(path.rfind('/') + 1);
  Options options;
  const std::string wrong = parseOptions(program, argc, argv, options);
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s: %s\n", printable(executable).c_str(), printable(wrong).c_str());
    return 2;
  }
  if (options.help) {
    std::fputs(helpText(program, printable(executable)).c_str(), stdout);
    return 0;
  }
  if (options.version) {
    std::printf("%s, built by echelon %s from %s\n", printable(executable).c_str(), program.version.c_str(),
                printable(program.spec).c_str());
    return 0;
  }
  if (options.plan) {
    std::fputs(printable(program.plan, Lines::Kept).c_str(), stdout);
    return 0;
  }
  if (program.offload)
    completeOffload(program, options.folder.empty() ? program.folder : options.folder);
  openStandardDescriptors();
  set_threads(options.threads);
  std::signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error of the write, which says which file
  // Ranks on one machine are started from this process: what is opened before is read once and shared. Over mpi
  // and tcp every rank opens for itself, and only the first that fails speaks.
  const bool shared = options.transport != "mpi" && options.transport != "tcp";
  Prepared prepared;
  if (shared) {
    std::string error = refuseBeyondMachine(program, meshSize(program.mesh));
    if (error.empty())
      error = prepare(program, options, true, prepared);
    if (!error.empty()) {
      complain(error);
      return 4;
    }
    lookForRoom(program, options, meshSize(program.mesh), prepared);
  }
  std::fflush(stdout); // before ranks are forked, or each would print it
  LaunchOptions launchOptions;
  launchOptions.transport = options.transport;
  launchOptions.ranks = meshSize(program.mesh);
  launchOptions.deadlineSeconds = options.deadlineSeconds.value_or(program.takesTurns() ? 60 : 10);
  launchOptions.store = options.store;
  launchOptions.identity = program.version + "\n" + program.name + "\n" + program.plan;
  launchOptions.sharedBytesPerRank = arenaBytes(program) + (prepared.hasRoomForCopies ? copyBytes(program) : 0);
  if (options.evaluateFrom.empty())
    launchOptions.lastWords = "ended at once by a second signal: " + whatIsLost(program);
  if (program.restarts && options.evaluateFrom.empty()) {
    launchOptions.restarts = program.restarts;
    launchOptions.beforeRestart = [&] {
      options.resume = true; // the log goes on, too
      return prepareRestart(program, options, prepared);
    };
    if (options.transport != "shm")
      prepared.notes.push_back("restart: over " + options.transport +
                               " a lost rank ends the whole run; go on with --resume");
  }
  return launch(launchOptions, [&](Transport &transport) {
    if (!shared) {
      const int ranksHere = transport.ranksHere();
      std::string error = refuseBeyondMachine(program, ranksHere);
      if (error.empty())
        error = prepare(program, options, transport.rank() == 0, prepared);
      if (!error.empty())
        fail(error);
      lookForRoom(program, options, ranksHere, prepared);
    }
    Rank rank(program, transport);
    return trainRank(rank, options, prepared);
  });
}

} // namespace echelon::runtime
