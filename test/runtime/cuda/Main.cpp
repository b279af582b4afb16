// usage: runtime_cuda_test [--mutants EVERY [SITE]]     SITE: part of its name. Without: the tests, and gtest's options
#include "Mutants.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if ((argc == 3 || argc == 4) && std::string(argv[1]) == "--mutants")
    return echelon::cuda::runMutants(std::max(1, std::atoi(argv[2])), argc == 4 ? argv[3] : "");
  return RUN_ALL_TESTS();
}
