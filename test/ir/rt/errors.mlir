// RUN: echelon-opt %s -split-input-file -verify-diagnostics

// A call has as many places for operands among its arguments as operands.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{names operands that it has}}
  rt.call "fill"(%x, 2, "0.0f") writes [1] reads [] : !rt.buffer<[a=2], f32>
}

// -----

// Rows of a collective lie in two or more runs of one length, where it takes such rows.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=8], f32>
  %y = rt.alloc work : !rt.buffer<[a=4], f32>
  // expected-error @+1 {{has rows of 4 elements in 3 runs: there are two or more, equally long}}
  rt.collective "all_gather" %y, %x count 4 runs 3 over [0] ranks 2 "dp" with "ring" why "t" : !rt.buffer<[a=4], f32>, !rt.buffer<[a=8], f32>
}

// -----

rt.function @train {
  %y = rt.alloc work : !rt.buffer<[a=4], f32>
  // expected-error @+1 {{has rows in runs, which all_gather and reduce_scatter take alone}}
  rt.collective "all_reduce" %y, %y count 4 runs 2 "Sum" over [0] ranks 2 "dp" with "ring" why "t" : !rt.buffer<[a=4], f32>, !rt.buffer<[a=4], f32>
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

// -----

// A position is one along a loop of the nest.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], i32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%v: i32):
    // expected-error @+1 {{asks for the position along b, which the nest does not walk}}
    %p = rt.along "b" : i32
    rt.yield %p : i32
  } : (!rt.buffer<[a=2], i32>) -> (!rt.buffer<[a=2], i32>)
}

// -----

// Functions are those of ech.map.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%v: f32):
    // expected-error @+1 {{knows no function twice}}
    %y = rt.compute "twice" %v : (f32) -> f32
    rt.yield %y : f32
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

// A group yields what it results in.
ech.step @train {
  %x = ech.constant 0.0 : !ech.tensor<[a=2], f32>
  // expected-error @+1 {{yields one value for each output, of its type}}
  %y:2 = rt.group(%x) {
  ^bb0(%v: !ech.tensor<[a=2], f32>):
    rt.yield %v : !ech.tensor<[a=2], f32>
  } : (!ech.tensor<[a=2], f32>) -> (!ech.tensor<[a=2], f32>, !ech.tensor<[a=2], f32>)
}

// -----

// Memory is shared by pairs.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{shares memory between pairs of operands}}
  rt.call "cumsum"(%x, %x, 1, 2, 1) writes [0] reads [1] share [0] : !rt.buffer<[a=2], f32>, !rt.buffer<[a=2], f32>
}

// -----

// Tickets of a loop are kept at its position.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  %each = rt.tickets 3
  rt.for "layer" = 3 {
  ^bb0(%i: index):
    rt.for "inner" = 3 {
    ^bb0(%j: index):
      // expected-error @+1 {{keeps its ticket at the position of the loop that it stands in}}
      rt.collective "all_reduce" %x, %x count 2 "Sum" over [0] ranks 2 "dp" with "ring" why "" keeps %each[%i] : !rt.buffer<[a=2], f32>, !rt.buffer<[a=2], f32>
    }
  }
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  %each = rt.tickets 2
  rt.for "layer" = 3 {
  ^bb0(%i: index):
    // expected-error @+1 {{keeps 3 tickets, which one rt.tickets has room for}}
    rt.collective "all_reduce" %x, %x count 2 "Sum" over [0] ranks 2 "dp" with "ring" why "" keeps %each[%i] : !rt.buffer<[a=2], f32>, !rt.buffer<[a=2], f32>
  }
}

// -----

rt.function @train {
  // expected-error @+1 {{has room for a ticket or more, which one collective keeps there}}
  %each = rt.tickets 3
  rt.wait %each
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{invokes adamw, which is no function of the module}}
  rt.invoke @adamw(%x) count 2 writes [0] : !rt.buffer<[a=2], f32>
}

// -----

rt.function @sgd {
^bb0(%w: !rt.buffer<[n=?], f32>, %n: index, %lr: f32):
}
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{has 1 operands, and sgd takes 2}}
  rt.invoke @sgd(%x) count 2 writes [0] : !rt.buffer<[a=2], f32>
}

// -----

rt.function @sgd {
^bb0(%w: !rt.buffer<[n=?], f32>, %n: index, %lr: f32):
}
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{gives '!rt.buffer<[a=2], f32>' where sgd takes 'f32'}}
  rt.invoke @sgd(%x, %x) count 2 writes [0] : !rt.buffer<[a=2], f32>, !rt.buffer<[a=2], f32>
}
