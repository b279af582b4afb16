// usage: runtime_cuda_test [--mutants EVERY]     without: the tests, with gtest's own options
#include "Mutants.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::string(argv[1]) == "--mutants")
    return echelon::cuda::runMutants(std::max(1, std::atoi(argv[2])));
  return RUN_ALL_TESTS();
}
