// Steps asked again and again, of machines whose constants change: what bench/plan/fit.py moves them by.
//
//   bench_plan_times write < LIST    each line "SPEC FILE": compiles a spec and writes what its step does
//   bench_plan_times plan < LIST     each line "SPEC": prints seconds, bytes of a rank and whether they fit, as
//   `echelon
//                                    plan` says them, also where it would refuse; "-" where a spec does not compile
//   bench_plan_times ask LIST        each line of LIST "FILE MACHINE NODES RANKS_OF_A_NODE"; then from standard input
//                                    "set MACHINE KEY FIGURE" (SI units), "clear MACHINE", and "go", which prints a
//                                    line of seconds, one of each line of LIST
#include "frontend/resolve/MachineOf.h"
#include "passes/cost/StepProgram.h"
#include "planner/timeline/Timeline.h"
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/compile/StepCost.h"
#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace echelon;
using namespace echelon::planner;

namespace {

// ---- a step as text: words and numbers, in the order of its members

std::string word(const std::string &text) { // without spaces
  std::string made = text.empty() ? "-" : text;
  std::replace(made.begin(), made.end(), ' ', '_');
  return made;
}

void write(std::ostream &out, const Actions &actions) {
  out << actions.size() << "\n";
  for (const Action &a : actions) {
    out << int(a.kind) << " " << a.what << " " << a.term << " " << a.calls << " " << a.ticket << " " << a.all << " "
        << a.joins << " " << a.peer << " " << a.trips << "\n";
    if (a.kind == Action::Kind::Loop) {
      write(out, a.body);
      write(out, a.ahead);
    }
    if (a.kind == Action::Kind::Turns) {
      out << a.turns->bodies.size() << "\n";
      for (const Actions &body : a.turns->bodies)
        write(out, body);
      out << a.turns->order.size();
      for (size_t place : a.turns->order)
        out << " " << place;
      out << "\n";
    }
  }
}

Actions readActions(std::istream &in) {
  size_t count = 0;
  in >> count;
  Actions actions(count);
  for (Action &a : actions) {
    int kind = 0;
    in >> kind >> a.what >> a.term >> a.calls >> a.ticket >> a.all >> a.joins >> a.peer >> a.trips;
    a.kind = Action::Kind(kind);
    if (a.kind == Action::Kind::Loop) {
      a.body = readActions(in);
      a.ahead = readActions(in);
    }
    if (a.kind == Action::Kind::Turns) {
      auto turns = std::make_shared<Turns>();
      in >> count;
      for (size_t i = 0, bodies = count; i < bodies; ++i)
        turns->bodies.push_back(readActions(in));
      in >> count;
      turns->order.resize(count);
      for (size_t &place : turns->order)
        in >> place;
      a.turns = turns;
    }
  }
  return actions;
}

void write(std::ostream &out, const Step &step) {
  out.precision(17);
  out << step.terms.size();
  for (const std::string &term : step.terms)
    out << " " << word(term);
  out << "\n" << step.works.size() << "\n";
  for (const Work &w : step.works)
    out << int(w.kind) << " " << word(w.kernel) << " " << int(w.precision) << " " << w.flops << " " << w.bytes << " "
        << w.added << " " << w.m << " " << w.n << " " << w.k << " " << w.batch << "\n";
  out << step.messages.size() << "\n";
  for (const Message &m : step.messages)
    out << int(m.kind) << " " << m.bytes << " " << m.group.ranks << " " << m.group.nodes << " " << m.group.perNode
        << " " << m.group.beside << " " << m.group.apart << " " << m.isOfUpdate << " " << word(m.algorithm) << "\n";
  out << step.stages.size() << "\n";
  for (const Actions &stage : step.stages)
    write(out, stage);
}

Step readStep(std::istream &in) {
  Step step;
  size_t count = 0;
  int number = 0;
  in >> count;
  step.terms.resize(count);
  for (std::string &term : step.terms)
    in >> term;
  in >> count;
  step.works.resize(count);
  for (Work &w : step.works) {
    in >> number >> w.kernel;
    w.kind = Work::Kind(number);
    w.kernel = w.kernel == "-" ? "" : w.kernel;
    in >> number >> w.flops >> w.bytes >> w.added >> w.m >> w.n >> w.k >> w.batch;
    w.precision = Precision(number);
  }
  in >> count;
  step.messages.resize(count);
  for (Message &m : step.messages) {
    in >> number >> m.bytes >> m.group.ranks >> m.group.nodes >> m.group.perNode >> m.group.beside >> m.group.apart >>
        m.isOfUpdate >> m.algorithm;
    m.kind = Message::Kind(number);
    m.algorithm = m.algorithm == "-" ? "" : m.algorithm;
  }
  in >> count;
  for (size_t i = 0, stages = count; i < stages; ++i)
    step.stages.push_back(readActions(in));
  return step;
}

// ---- commands

/// A row is planned on its cluster, whether or not it has room there.
CompileOptions optionsOf(const std::string &spec) {
  CompileOptions options;
  options.spec = spec;
  options.anyMemory = true;
  options.warns = false;
  options.ofCluster = true;
  return options;
}

int writeSteps() {
  std::string line;
  bool good = true;
  while (std::getline(std::cin, line)) {
    std::string spec, file;
    std::istringstream(line) >> spec >> file;
    Compilation compilation(optionsOf(spec));
    if (!compilation.parse() || !compilation.resolve() || !compilation.elaborate() ||
        !compilation.lower(Stage::Shaped)) {
      compilation.printDiagnostics();
      good = false;
      continue;
    }
    std::ofstream out(file);
    const int64_t perNode = frontend::machineOf(*compilation.program, compilation.settings).perNode;
    write(out, stepOf(*compilation.module, {perNode, false}));
  }
  return good ? 0 : 1;
}

int planSpecs() {
  std::string spec;
  while (std::getline(std::cin, spec)) {
    Compilation compilation(optionsOf(spec));
    double forward = 0;
    bool good = compilation.parse() && compilation.resolve() && compilation.elaborate();
    if (good) {
      forward = stepProducts(*compilation.module);
      good = compilation.lower(Stage::Shaped);
    }
    if (!good) {
      compilation.printDiagnostics();
      std::cout << "-" << std::endl;
      continue;
    }
    ProgramCost cost = programCost(*compilation.module, false);
    const StepCost step = stepCost(compilation, forward, cost);
    std::cout << step.time.seconds << " " << cost.memory.total << " " << step.fits(cost.memory.total).value_or(true)
              << std::endl;
  }
  return 0;
}

/// "device.KEY": bandwidth, peak, efficiency.KERNEL, passes.KERNEL, else a constant of the response.
void set(planner::Machine &machine, const std::string &key, double figure) {
  const size_t dot = key.find('.');
  const std::string of = key.substr(0, dot), rest = key.substr(dot + 1);
  auto startsWith = [&](const char *text) { return rest.rfind(text, 0) == 0; };
  if (of == "device") {
    if (rest == "bandwidth")
      machine.device.bandwidth = figure;
    else if (rest == "peak")
      machine.device.peaks[Precision::Bf16] = figure;
    else if (rest == "peak_fp32")
      machine.device.peaks[Precision::Fp32] = figure;
    else if (startsWith("efficiency."))
      machine.device.efficiency[rest.substr(11)] = figure;
    else if (startsWith("passes."))
      machine.device.passes[rest.substr(7)] = figure;
    else
      machine.device.costs[rest] = figure;
    return;
  }
  if (of == "network" && !machine.network)
    machine.network.emplace();
  Link &link = of == "network" ? *machine.network : machine.link;
  const size_t next = rest.find('.');
  if (rest == "bandwidth") {
    link.bandwidth = figure;
  } else if (rest == "latency") {
    link.latency = figure;
  } else if (rest == "lanes") {
    link.lanes = int64_t(figure);
  } else if (next == std::string::npos) {
    link.costs[rest] = figure;
  } else {
    const std::string name = rest.substr(0, next), what = rest.substr(next + 1);
    auto protocol = std::find_if(link.protocols.begin(), link.protocols.end(), [&](auto &p) { return p.name == name; });
    if (protocol == link.protocols.end()) {
      link.protocols.emplace_back();
      protocol = link.protocols.end() - 1;
      protocol->name = name;
    }
    double *place = what == "start"     ? &protocol->start
                    : what == "rank"    ? &protocol->rank
                    : what == "rate"    ? &protocol->rate
                    : what == "few"     ? &protocol->few
                    : what == "network" ? &protocol->network
                    : what == "limit"   ? &protocol->limit
                                        : nullptr;
    if (place)
      *place = figure;
    else if (what == "in_switch")
      protocol->sumsInSwitch = figure != 0;
  }
}

int ask(const char *list) {
  struct Row {
    std::string machine;
    int64_t nodes, perNode;
    const Step *step;
  };
  std::map<std::string, Step> steps;
  std::vector<Row> rows;
  std::ifstream lines(list);
  std::string file;
  for (Row row; lines >> file >> row.machine >> row.nodes >> row.perNode;) {
    auto [at, isNew] = steps.try_emplace(file);
    if (isNew) {
      std::ifstream in(file);
      at->second = readStep(in);
    }
    row.step = &at->second;
    rows.push_back(row);
  }
  std::map<std::string, planner::Machine> machines;
  std::string command, name, key;
  while (std::cin >> command) {
    if (command == "clear") {
      std::cin >> name;
      machines.erase(name);
    } else if (command == "set") {
      double figure = 0;
      std::cin >> name >> key >> figure;
      set(machines[name], key, figure);
    } else if (command == "go") {
      for (const Row &row : rows) {
        planner::Machine machine = machines[row.machine];
        machine.nodes = row.nodes;
        machine.perNode = row.perNode;
        std::cout << timeOf(*row.step, machine, Issue{true, 1}).seconds << " ";
      }
      std::cout << std::endl;
    } else {
      std::cerr << "unknown command " << command << "\n";
      return 2;
    }
  }
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "write" && argc == 2)
    return writeSteps();
  if (command == "plan" && argc == 2)
    return planSpecs();
  if (command == "ask" && argc == 3)
    return ask(argv[2]);
  std::cerr << "usage: bench_plan_times write < LIST, plan < LIST, or ask LIST\n";
  return 2;
}
