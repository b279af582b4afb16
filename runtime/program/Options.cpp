#include "runtime/program/Options.h"
#include "runtime/launch/LaunchedAs.h"
#include "runtime/launch/Printable.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace echelon::runtime {

namespace {

template <class T> bool read(const char *text, T &value) {
  const char *end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

std::string takes(const char *what, const char *text) {
  return std::string("takes ") + what + ", not \"" + text + "\"";
}

auto text(std::string Options::*member) {
  return [member](Options &o, const char *value) -> std::string {
    o.*member = value;
    if (optionRow(value))
      return std::string("takes a path, not the option ") + value + "; a file of that name is ./" + value;
    return *value ? "" : "takes a path";
  };
}
auto flag(bool Options::*member) {
  return [member](Options &o, const char *) -> std::string {
    o.*member = true;
    return "";
  };
}

} // namespace

const std::vector<OptionRow> &optionRows() {
  static const std::vector<OptionRow> rows = {
      {"--steps", "N", "stop after step N; the schedule stays that of the whole run",
       [](Options &o, const char *v) -> std::string {
         return read(v, o.steps) && o.steps >= 1 ? "" : takes("a number of steps from 1", v);
       }},
      {"--resume", nullptr, "go on from the newest snapshot of the checkpoint directory", flag(&Options::resume)},
      {"--accept", "WHAT", "with --resume: go on although model, data or optimizer are others; a list with commas",
       [](Options &o, const char *v) -> std::string {
         const std::string list = v;
         for (size_t at = 0; at <= list.size();) {
           const size_t end = std::min(list.find(',', at), list.size());
           const std::string word = list.substr(at, end - at);
           if (word != "model" && word != "data" && word != "optimizer")
             return takes("model, data or optimizer, or several with commas", v);
           o.accept.insert(word);
           at = end + 1;
         }
         return "";
       }},
      {"--evaluate-from", "DIR", "evaluate a snapshot (or the newest of a directory) instead of training",
       text(&Options::evaluateFrom)},
      {"--log", "FILE", "write one JSON object a step and an evaluation; with --resume append to it",
       text(&Options::log)},
      {"--trace", "FILE", "write what happened when, in ten measured steps, for ui.perfetto.dev",
       text(&Options::trace)},
      {"--replay", "FILE", "apply gradients in the order of a run's log, under the same sync policy",
       text(&Options::replay)},
      {"--out", "DIR",
       "where the checkpoint directory lies instead: one below the spec's folder as there, another by its last name",
       text(&Options::out)},
      {"--folder", "DIR", "where relative paths of the spec start, instead of the folder compiled in",
       text(&Options::folder)},
      {"--dump", "DIR", "write start values, each step's batch and random masks as npy files", text(&Options::dump)},
      {"--dump-state", nullptr, "with --dump: also stored tensors after each step", flag(&Options::dumpState)},
      {"--transport", "T",
       "shm (processes, the default), threads, mpi, or tcp (for torchrun, srun or mpirun; docs/tcp.md)",
       [](Options &o, const char *v) -> std::string {
         o.transport = v;
         return o.transport == "shm" || o.transport == "threads" || o.transport == "mpi" || o.transport == "tcp"
                    ? ""
                    : takes("shm, threads, mpi or tcp", v);
       }},
      {"--store", "HOST:PORT",
       "with --transport tcp: where the ranks meet; rank 0 listens there (MASTER_ADDR and MASTER_PORT)",
       [](Options &o, const char *v) -> std::string {
         o.store = v;
         std::string host;
         int port = 0;
         return readHostAndPort(v, host, port) ? "" : takes("HOST:PORT, as in node1:29500", v);
       }},
      {"--deadline", "S",
       "seconds after which a rank that does not come is given up (10; 60 where ranks are stages of a pipeline)",
       [](Options &o, const char *v) -> std::string {
         double &seconds = o.deadlineSeconds.emplace();
         const bool good = read(v, seconds) && seconds > 0 && std::isfinite(seconds);
         return good ? "" : takes("seconds above 0", v);
       }},
      {"--threads", "N", "threads of one rank's matrix products (1)",
       [](Options &o, const char *v) -> std::string {
         return read(v, o.threads) && o.threads >= 1 ? "" : takes("a number of threads from 1", v);
       }},
      {"--plan", nullptr, "print the plan and end", flag(&Options::plan)},
      {"--version", nullptr, "print the version and end", flag(&Options::version)},
      {"--help", nullptr, "print this text and end", flag(&Options::help)},
  };
  return rows;
}

const OptionRow *optionRow(const std::string &name) {
  for (const OptionRow &row : optionRows())
    if (name == row.name)
      return &row;
  return nullptr;
}

std::string parseOptions(const Program &program, int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const OptionRow *row = optionRow(name);
    if (!row)
      return "unknown option " + name + "; --help lists them";
    if (!row->argument && equals != std::string::npos)
      return name + " takes no value";
    if (row->argument && equals == std::string::npos && i + 1 == argc)
      return name + " needs a value";
    const char *value = !row->argument ? "" : equals != std::string::npos ? argv[i] + equals + 1 : argv[++i];
    const std::string error = row->set(options, value);
    if (!error.empty())
      return name + " " + error;
  }
  if (options.help || options.version || options.plan)
    return "";
  if (program.steps && options.steps > program.steps)
    return "--steps " + std::to_string(options.steps) + " is beyond the run's " + std::to_string(program.steps) +
           " steps";
  if (!options.store.empty() && options.transport != "tcp")
    return "--store goes with --transport tcp: it is where its ranks meet";
  if (options.resume && program.checkpoint.directory.empty())
    return "--resume needs snapshots, and the spec has no checkpoint clause";
  if (!options.accept.empty() && !options.resume)
    return "--accept goes with --resume: it says what may be another than the snapshot's";
  if (options.resume && !options.evaluateFrom.empty())
    return "--resume goes on training, --evaluate-from does not train";
  if (!options.replay.empty()) {
    if (!program.sync)
      return "--replay takes the order of workers from a log, and the spec has no sync policy: its order is always the "
             "same";
    if (!options.evaluateFrom.empty())
      return "--replay is of training, and --evaluate-from does not train";
    if (!program.checkpoint.directory.empty())
      return "--replay follows a run, and writes no snapshots: leave the checkpoint clause out of the spec";
    if (options.replay == options.log)
      return "--replay and --log name the same file";
  }
  if (options.dumpState && options.dump.empty())
    return "--dump-state goes with --dump DIR";
  if (!program.profiled.empty() && (!options.dump.empty() || !options.evaluateFrom.empty()))
    return std::string(options.dump.empty() ? "--evaluate-from" : "--dump") +
           " does not go with a program built with --profile, which measures training steps and nothing else";
  if (!options.trace.empty() && program.profiled.empty())
    return "--trace is of a program built with --profile";
  if (!options.trace.empty() && options.trace == options.log)
    return "--trace and --log name the same file";
  if (!options.evaluateFrom.empty()) {
    if (program.evaluations.empty() || !program.evaluateBatch)
      return "--evaluate-from: the spec has no evaluate clause";
    if (options.steps || !options.dump.empty())
      return "--evaluate-from does not train: --steps and --dump have no effect with it";
  }
  return "";
}

std::string helpText(const Program &program, const std::string &executable) {
  std::string text = executable + ": trains " + program.name + " of " + printable(program.spec) + " on " +
                     std::to_string(meshSize(program.mesh)) + (meshSize(program.mesh) == 1 ? " rank" : " ranks");
  for (size_t m = 0; m < program.mesh.size(); ++m)
    text += (m ? ", " : " (") + program.mesh[m].name + " = " + std::to_string(program.mesh[m].size);
  text += program.mesh.empty() ? "\n\n" : ")\n\n";
  for (const OptionRow &row : optionRows()) {
    std::string left = std::string("  ") + row.name + (row.argument ? std::string(" ") + row.argument : "");
    left.resize(std::max<size_t>(left.size() + 2, 24), ' ');
    text += left + row.help + "\n";
  }
  text += "\nexamples:\n  " + executable + " --log run.jsonl\n  " + executable + " --steps 100 --transport threads\n";
  if (!program.checkpoint.directory.empty())
    text += "  " + executable + " --resume\n  " + executable + " --evaluate-from " +
            printable(program.checkpoint.directory) + "\n";
  if (!program.profiled.empty())
    text += "\nbuilt with --profile: prints at its end where the time of a step went\n";
  return text + "\n" + kSignalsHelp + "\nends with 0: fine, 2: usage, 4: the run failed\n";
}

} // namespace echelon::runtime
