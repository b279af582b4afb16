// All that a generated program for GPUs includes.
#pragma once

#include "runtime/cuda/Calls.h"
#include "runtime/cuda/Copy.h"
#include "runtime/cuda/CrossEntropy.h"
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Normalize.h"
#include "runtime/cuda/Offload.h"
#include "runtime/cuda/Orthogonalize.h"
#include "runtime/cuda/Pack.h"
#include "runtime/cuda/Pool.h"
#include "runtime/cuda/Range.h"
#include "runtime/cuda/Reduce.h"
#include "runtime/cuda/RingAttention.h"
#include "runtime/cuda/Scan.h"
#include "runtime/cuda/Softmax.h"
#include "runtime/cuda/Tensors.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/program/Program.h"
#include "runtime/program/Turns.h"

#ifdef __CUDACC__
#pragma nv_diag_suppress 177 // a size that comments alone name
#endif

namespace echelon::cuda {
namespace math = runtime::math;
namespace gpu = echelon::cuda; // what a size of the model may be called, too

// What describes a program.
using runtime::average_decay;
using runtime::Delay;
using runtime::Distribution;
using runtime::ElementType;
using runtime::Init;
using runtime::OnNan;
using runtime::ProfiledOp;
using runtime::Program;
using runtime::run_program;
using runtime::Scalar;
using runtime::Stored;
using runtime::SyncPolicy;
using runtime::Until;

// In which order a stage of a pipeline works.
using runtime::gpipe;
using runtime::interleaved;
using runtime::one_f_one_b;
using runtime::Turn;
using runtime::zero_bubble;
} // namespace echelon::cuda
