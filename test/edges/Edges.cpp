// Every function and block on inputs at its edges, against references with derived bounds.
//
//   edges [--family NAME] [--case NAME] [--layout TEXT] [--transport NAME] [--show]
//   edges --coverage FAMILY...    what no case calls, and families that are not named
#include "test/edges/Program.h"

#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <iostream>

using namespace echelon::edges;

std::vector<Family> echelon::edges::allFamilies() {
  return {elementwise(true), elementwise(false), reductions(), longSums(),   softmaxes(), norms(),
          contractions(),    places(),           windows(),    attentions(), blocks()};
}

namespace {

int coverage(const std::vector<std::string> &named) {
  std::vector<std::string> lacking = notCovered(allFamilies());
  for (const std::string &each : lacking)
    std::cout << "no case has " << each << "\n";
  for (const Family &family : allFamilies())
    if (std::find(named.begin(), named.end(), family.name) == named.end()) {
      std::cout << "no test runs the family " << family.name << "\n";
      lacking.push_back(family.name);
    }
  return !lacking.empty();
}

/// A folder for as long as this lives.
struct Folder {
  llvm::SmallString<64> path;
  Folder() {
    if (llvm::sys::fs::createUniqueDirectory("edges", path)) {
      std::cerr << "edges: cannot make a temporary folder\n";
      std::exit(1);
    }
  }
  ~Folder() { llvm::sys::fs::remove_directories(path); }
};

} // namespace

int main(int argc, char **argv) {
  std::string family, name, layout, transport = "threads";
  bool shows = false;
  if (argc > 1 && std::string(argv[1]) == "--coverage")
    return coverage({argv + 2, argv + argc});
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    std::string *text = option == "--family"      ? &family
                        : option == "--case"      ? &name
                        : option == "--layout"    ? &layout
                        : option == "--transport" ? &transport
                                                  : nullptr;
    if (text && i + 1 < argc)
      *text = argv[++i];
    else if (option == "--show")
      shows = true;
    else {
      std::cerr << "edges: unknown argument " << option << "\n";
      return 2;
    }
  }
  int64_t wrong = 0, ran = 0;
  for (Family &each : allFamilies()) {
    if (!family.empty() && each.name != family)
      continue;
    if (!name.empty())
      each.cases.erase(
          std::remove_if(each.cases.begin(), each.cases.end(), [&](const Case &c) { return c.name != name; }),
          each.cases.end());
    if (each.cases.empty())
      continue;
    std::vector<std::string> layouts = {""};
    layouts.insert(layouts.end(), each.layouts.begin(), each.layouts.end());
    if (!layout.empty())
      layouts = {layout == "none" ? "" : layout};
    for (const std::string &one : layouts) {
      const Folder folder;
      const Tally t = check(each, one, folder.path.str().str(), transport, std::cout, shows);
      std::cout << each.name << (one.empty() ? ", one rank" : ", " + one) << ": " << t.compared << " compared, "
                << t.wrong << " wrong, " << t.loose << " with a loose bound, worst " << double(t.worst)
                << " of its bound" << std::endl;
      wrong += t.wrong;
      ++ran;
    }
  }
  if (ran == 0)
    std::cerr << "edges: no such family or case\n";
  return wrong != 0 || ran == 0;
}
