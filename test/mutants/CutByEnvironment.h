// Put before the text of a program for emulated GPUs by mutants.py: the program then lacks what is at the site
// ECHELON_CUT, and writes the sites it reaches to the file ECHELON_SITES, "MATTERS SITE" a line. Other programs know
// neither.
#include "runtime/cuda/host/Cuts.h"

#include <cstdlib>
#include <fstream>

namespace {
const bool isCut = [] {
  using namespace echelon::cuda::host;
  if (const char *site = std::getenv("ECHELON_CUT"))
    cutOut(site);
  if (std::getenv("ECHELON_SITES")) {
    listSites();
    std::atexit([] {
      std::ofstream file(std::getenv("ECHELON_SITES"));
      for (const auto &[site, matters] : takeSites())
        file << matters << " " << site << "\n";
    });
  }
  return true;
}();
} // namespace
