// RUN: echelon-translate %s --rt-to-cpp --split-input-file --verify-diagnostics
// What a program is printed from has been through all passes.

// expected-error @+1 {{has no run.train; a program needs one}}
module {
}

// -----

module {
  run.train "t" of "M" in "m.ech" folder "." batch 1 steps 1 seed 0
  // expected-error @+1 {{has a rule 'lion' that passes/update does not have}}
  run.optimize "lion" all on ["*"] with {} rate <kind = constant, peak = 0.1>
}

// -----

module {
  run.train "t" of "M" in "m.ech" folder "." batch 1 steps 1 seed 0
  // expected-error @+1 {{needs a run.data and a run.mathematics: a snapshot keeps what they say}}
  run.checkpoint "kept" steps 1 seconds 0.0 keep 1
}

// -----

module {
  run.train "t" of "M" in "m.ech" folder "." batch 1 steps 1 seed 0
  rt.function @train {
    %x = rt.alloc work : !rt.buffer<[a=2], f32>
    // expected-error @+1 {{has no loops to print; run rt-make-loops}}
    rt.fused ["a"] = [2](%x) -> ["store"](%x) {
    ^bb0(%e: f32):
      rt.yield %e : f32
    } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
  }
}

// -----

module {
  run.train "t" of "M" in "m.ech" folder "." batch 1 steps 1 seed 0
  rt.function @train {
    %c = rt.alloc work : !rt.buffer<[m=2, n=2], f32>
    %a = rt.alloc work : !rt.buffer<[m=2, k=2], f32>
    %b = rt.alloc work : !rt.buffer<[k=2, n=2], f32>
    // expected-error @+1 {{has no library to call; run rt-select-kernels}}
    rt.gemm %c, %a, %b m <m=2> n <n=2> k <k=2> ld <k=2> <n=2> <n=2> : !rt.buffer<[m=2, n=2], f32>, !rt.buffer<[m=2, k=2], f32>, !rt.buffer<[k=2, n=2], f32>
  }
}

// -----

module {
  run.train "t" of "M" in "m.ech" folder "." batch 1 steps 1 seed 0
  // expected-error @+1 {{is no function yet; run dist-lower-to-rt}}
  ech.step @train {
  }
}

// -----

module {
  run.train "t" of "M" in "m.ech" folder "." batch 1 steps 1 seed 0
  // expected-error @+1 {{has no place in memory; run rt-plan-arenas}}
  ech.input @x 0 : !ech.tensor<[batch=2], f32> below 0
}
