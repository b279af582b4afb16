// All that a generated program includes.
#pragma once

#include "runtime/collectives/Collectives.h"
#include "runtime/kernels/Kernels.h"
#include "runtime/program/Offload.h"
#include "runtime/program/Program.h"
#include "runtime/program/Rank.h"
#include "runtime/program/Turns.h"
#include "runtime/random/Philox.h"
#include "runtime/ring/RingAttention.h"
