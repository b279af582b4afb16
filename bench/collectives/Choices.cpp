// What the compiler chooses on a measured machine: choose.py beside it compares that with what is the fastest.
//
//   bench_choices MACHINE.ech < LIST    each line "COLLECTIVE BYTES RANKS"; prints the algorithm of each, "automatic"
//                                       where the transport's own way stands
#include "frontend/resolve/MachineOf.h"
#include "planner/machine/Choice.h"
#include <iostream>

using namespace echelon;
using Kind = planner::Message::Kind;

int main(int argc, char **argv) {
  std::string why = "usage: bench_choices MACHINE.ech < LIST";
  const auto here = argc == 2 ? frontend::readMachine(argv[1], why) : nullptr;
  if (!here) {
    std::cerr << why << "\n";
    return 2;
  }
  std::string name;
  double bytes = 0;
  int64_t ranks = 0;
  while (std::cin >> name >> bytes >> ranks) {
    frontend::RunSettings settings;
    settings.mesh.resize(1);
    settings.mesh[0].size = ranks;
    settings.clusterRanks = ranks;
    const planner::Machine machine = frontend::machineOf(*here, settings, here.get());
    planner::Message message;
    for (Kind kind : {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll, Kind::Broadcast})
      if (name == planner::nameOf(kind))
        message.kind = kind;
    message.bytes = bytes;
    message.group = {ranks, 1, ranks};
    const auto ways = planner::waysOf(machine, message);
    std::cout << (ways.empty() ? "automatic" : planner::nameOf(ways.front())) << "\n";
  }
  return 0;
}
