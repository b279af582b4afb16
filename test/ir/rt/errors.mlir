// RUN: echelon-opt %s -split-input-file -verify-diagnostics

// A call has as many places for operands among its arguments as operands.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{names operands that it has}}
  rt.call "fill"(%x, 2, "0.0f") writes [1] reads [] : !rt.buffer<[a=2], f32>
}

// -----

// A loop nest walks its buffers' axes at their sizes.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{walks the axis "a" of its buffers at its size}}
  rt.fused ["a"] = [3](%x) -> ["store"](%x) {
  ^bb0(%v: f32):
    rt.yield %v : f32
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

// An output is stored, summed or added to.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{stores, sums or adds, not 'max'}}
  rt.fused ["a"] = [2](%x) -> ["max"](%x) {
  ^bb0(%v: f32):
    rt.yield %v : f32
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

// A view shows what its operand holds.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{keeps the element type}}
  %y = rt.view %x from 0 : !rt.buffer<[a=2], f32> -> !rt.buffer<[a=2], f64>
}
