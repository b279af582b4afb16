// What `echelon calibrate` runs: kernels and collectives of the runtime, on all ranks at once, on buffers used again
// and again. Rank 0 prints a line a figure, which the command reads:
//   NAME SIZE… SECONDS       (product 64 256 64 3.1e-05; memory 131072 4e-06; all_reduce 65536 2e-05)
// A figure is measured in several rounds, all figures in turns, and there is a line for each round.
#pragma once

namespace echelon::runtime {

/// --ranks N, --transport shm, threads or mpi; --seconds S: how long the measuring may take, about; --few 1: coarser
/// grids; --what: kernels, memory or collectives, a list with commas. Returns the program's exit code.
int calibrate(int argc, char **argv);

} // namespace echelon::runtime
