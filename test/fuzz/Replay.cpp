// The main of a target where there is no libFuzzer: runs the files, and those in the folders, that it is given.
// usage: TARGET [--every N] FILE-OR-FOLDER …      N: each N-th of the files, by name; 1 unless told
#include "test/fuzz/Input.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

namespace fs = std::filesystem;

int main(int argc, char **argv) {
  std::vector<std::string> files;
  const bool isSample = argc > 2 && std::strcmp(argv[1], "--every") == 0;
  const size_t every = isSample ? std::max(1, std::atoi(argv[2])) : 1;
  for (int i = isSample ? 3 : 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.push_back(argv[i]);
      continue;
    }
    for (const fs::directory_entry &entry : fs::directory_iterator(argv[i]))
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  size_t tried = 0;
  for (size_t i = 0; i < files.size(); i += every, ++tried) {
    const std::string &file = files[i];
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 1;
    }
    std::printf("%s\n", file.c_str()); // the last one told is the one that ends the process
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", tried);
  return files.empty();
}
