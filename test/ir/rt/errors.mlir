// RUN: echelon-opt %s -split-input-file -verify-diagnostics

// What a kernel makes has as many elements as its sizes say.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2, b=3], f32>
  %y = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{makes 3 of 6 elements, not 2 of 6}}
  rt.reduce sum %y, %x of <> <a=2> <b=3> : !rt.buffer<[a=2], f32>, !rt.buffer<[a=2, b=3], f32>
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2, b=3], f32>
  // expected-error @+1 {{makes 4 elements, and c has 6}}
  rt.gemm %x, %x, %x m <a=2> n <a=2> k <b=3> ld <b=3> <a=2> <a=2> with tiled : !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, b=3], f32>
}

// -----

// A point of a product's batch is a size and where it lies in each matrix.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2, b=3], f32>
  // expected-error @+1 {{has four numbers a dimension of its batch: a size, and strides in c, a and b}}
  rt.gemm %x, %x, %x m <a=2> n <b=3> k <a=2> ld <a=2> <b=3> <b=3> batch [2, 6, 4] : !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, b=3], f32>
}

// -----

// A product adds one number to each of its columns.
rt.function @train {
  %c = rt.alloc work : !rt.buffer<[a=2, b=3], f32>
  %x = rt.alloc work : !rt.buffer<[a=2, k=2], f32>
  %w = rt.alloc work : !rt.buffer<[k=2, b=3], f32>
  %rows = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{adds a dense bias of 3 elements, not '!rt.buffer<[a=2], f32>'}}
  rt.gemm %c, %x, %w bias %rows : !rt.buffer<[a=2], f32> m <a=2> n <b=3> k <k=2> ld <k=2> <b=3> <b=3> : !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, k=2], f32>, !rt.buffer<[k=2, b=3], f32>
}

// -----

rt.function @train {
  %c = rt.alloc work : !rt.buffer<[a=2, b=3], f32>
  %x = rt.alloc work : !rt.buffer<[a=2, k=2], f32>
  %w = rt.alloc work : !rt.buffer<[k=2, b=3], f32>
  %column = rt.view %w from 0 : !rt.buffer<[k=2, b=3], f32> -> !rt.buffer<[b=3], f32, [2]>
  // expected-error @+1 {{adds a dense bias of 3 elements, not '!rt.buffer<[b=3], f32, [2]>'}}
  rt.gemm %c, %x, %w bias %column : !rt.buffer<[b=3], f32, [2]> m <a=2> n <b=3> k <k=2> ld <k=2> <b=3> <b=3> : !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, k=2], f32>, !rt.buffer<[k=2, b=3], f32>
}

// -----

// What is added to a sum, or to one of several products, would be added more than once.
rt.function @train {
  %c = rt.alloc work : !rt.buffer<[a=2, b=3], f32>
  %x = rt.alloc work : !rt.buffer<[a=2, k=2], f32>
  %w = rt.alloc work : !rt.buffer<[k=2, b=3], f32>
  %b = rt.alloc work : !rt.buffer<[b=3], f32>
  // expected-error @+1 {{adds a bias to one whole product}}
  rt.gemm %c, %x, %w bias %b : !rt.buffer<[b=3], f32> m <a=2> n <b=3> k <k=2> ld <k=2> <b=3> <b=3> adds : !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, k=2], f32>, !rt.buffer<[k=2, b=3], f32>
}

// -----

rt.function @train {
  %c = rt.alloc work : !rt.buffer<[a=2, b=3], f32>
  %x = rt.alloc work : !rt.buffer<[a=2, k=2], f32>
  %w = rt.alloc work : !rt.buffer<[k=2, b=3], f32>
  %b = rt.alloc work : !rt.buffer<[b=3], f32>
  // expected-error @+1 {{adds a bias to one whole product}}
  rt.gemm %c, %x, %w bias %b : !rt.buffer<[b=3], f32> m <> n <b=3> k <k=2> ld <k=2> <b=3> <b=3> batch [2, 3, 2, 0] : !rt.buffer<[a=2, b=3], f32>, !rt.buffer<[a=2, k=2], f32>, !rt.buffer<[k=2, b=3], f32>
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

// Ranks combine f32 and f64; two bytes travel as they are.
rt.function @train {
  %y = rt.alloc work : !rt.buffer<[a=4], bf16>
  // expected-error @+1 {{combines elements of type 'bf16': what is combined travels in f32 or f64}}
  rt.collective "all_reduce" %y, %y count 4 "Sum" over [0] ranks 2 "dp" with "ring" why "t" : !rt.buffer<[a=4], bf16>, !rt.buffer<[a=4], bf16>
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

// A kind has its numbers of results, operands and sizes.
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{of sum_exp makes 1 of 2 by 3 sizes, not 1 of 1 by 1}}
  rt.partial sum_exp(%x) -> (%x) of [#rt.size<a=2>] : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{of normalize_grad makes 1 of 4 by 2 sizes, not 1 of 1 by 2}}
  rt.combine normalize_grad(%x) -> (%x) of [#rt.size<>, #rt.size<a=2>] : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  %i = rt.alloc work : !rt.buffer<[], i32>
  // expected-error @+1 {{has a first position and an end for each axis that is bounded}}
  rt.gather %x, %x[["a"] = %i] of [2] bounded [true] moves 8 : !rt.buffer<[a=2], f32>, !rt.buffer<[a=2], f32>, !rt.buffer<[], i32>
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
      // expected-error @+1 {{keeps its ticket at the position of the loop that it is in}}
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

// -----

rt.function @train {
  // expected-error @+1 {{has an attribute rt.member that is not [struct, member], on a buffer or a ticket}}
  %x = rt.alloc work {rt.member = ["Params"]} : !rt.buffer<[a=2], f32>
}

// -----

rt.function @train {
  // expected-error @+1 {{has an attribute rt.variable that is not a mark, on a buffer of one element}}
  %x = rt.alloc work {rt.variable} : !rt.buffer<[a=2], f32>
}

// -----

rt.function @train {
  // expected-error @+1 {{has an attribute rt.stack that is not a number, on a member of a struct}}
  %x = rt.alloc work {rt.stack = 4} : !rt.buffer<[a=2], f32>
}

// -----

rt.function @train {
  // expected-error @+1 {{has an attribute rt.name that is not a name, or those of the arguments of a function, a kernel or stages}}
  %x = rt.alloc work {rt.name = 3} : !rt.buffer<[a=2], f32>
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{yields one value, and has one mode, for each output}}
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  // expected-error @+1 {{has an attribute rt.speed, which no pass says (ir/rt/Rt.h)}}
  %x = rt.alloc work {rt.speed = 3} : !rt.buffer<[a=2], f32>
}

// -----

// expected-error @+1 {{has an attribute rt.sizes that is not a list of dictionaries, on the module}}
module attributes {rt.sizes = 3} {
}

// -----

rt.function @train {
  // expected-error @+1 {{has an attribute rt.group that is not a place in rt.groups, on a message}}
  %x = rt.alloc work {rt.group = 0} : !rt.buffer<[a=2], f32>
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    rt.loop innermost <a=2> {
    ^bb0(%i: index):
      // expected-error @+1 {{has one stride an index}}
      %v = rt.load %x[%i] by [] : !rt.buffer<[a=2], f32> -> f32
    }
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    // expected-error @+1 {{has one block argument, its position}}
    rt.loop innermost <a=2> {
    ^bb0(%i: index, %j: index):
    }
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    rt.loop <a=2> step 1 {
    ^bb0(%i: index):
      // expected-error @+1 {{ends at an rt.block_end}}
      rt.loop innermost <a=2> from %i to %i {
      ^bb0(%j: index):
      }
    }
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    // expected-error @+1 {{says of each loop whether it is summed over}}
    rt.kernel "x_kernel" [#rt.size<a=2>] summed [] (%x) {
    ^bb0(%i: index, %to: !rt.buffer<[a=2], f32>):
    } : !rt.buffer<[a=2], f32>
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    // expected-error @+1 {{has one block argument for each loop, each buffer and each number}}
    rt.kernel "x_kernel" [#rt.size<a=2>] summed [false] (%x) {
    ^bb0(%i: index):
    } : !rt.buffer<[a=2], f32>
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    // expected-error @+1 {{has positions, then what it is given, as block arguments}}
    rt.kernel "x_kernel" [#rt.size<a=2>] summed [false] (%x) {
    ^bb0(%i: index, %to: !rt.buffer<[a=3], f32>):
    } : !rt.buffer<[a=2], f32>
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  rt.fused ["a"] = [2](%x) -> ["store"](%x) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    // expected-error @+1 {{sums over no loop}}
    rt.kernel "x_kernel" [#rt.size<a=2>] summed [false] (%x) {
    ^bb0(%i: index, %to: !rt.buffer<[a=2], f32>):
      %e = rt.load %to[%i] by [1] : !rt.buffer<[a=2], f32> -> f32
      rt.sum %e to %to[%i] by [1] : f32, !rt.buffer<[a=2], f32>
    } : !rt.buffer<[a=2], f32>
  } : (!rt.buffer<[a=2], f32>) -> (!rt.buffer<[a=2], f32>)
}

// -----

rt.function @sgd {
^bb0(%w: !rt.buffer<[n=?], f32>, %n: index, %lr: f64):
}
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  %lr = rt.number learning_rate : f64
  %step = rt.number step : f64
  // expected-error @+1 {{has one rule, with the same numbers for all}}
  rt.together {
    rt.invoke @sgd(%x, %lr) count 2 writes [0] : !rt.buffer<[a=2], f32>, f64
    rt.invoke @sgd(%x, %step) count 2 writes [0] : !rt.buffer<[a=2], f32>, f64
  }
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  %s = rt.alloc work : !rt.buffer<[], f64>
  // expected-error @+1 {{has one sum of squares, of elements of one type that name their parameters}}
  rt.together {
    rt.add_squares %s, %x watch "x" : !rt.buffer<[], f64>, !rt.buffer<[a=2], f32>
    rt.add_squares %s, %x : !rt.buffer<[], f64>, !rt.buffer<[a=2], f32>
  }
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  // expected-error @+1 {{has rules or sums of squares}}
  rt.together {
    rt.fill %x with 0.0 : !rt.buffer<[a=2], f32>
  }
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  %s = rt.alloc work : !rt.buffer<[], f64>
  %other = rt.alloc work : !rt.buffer<[], f64>
  // expected-error @+1 {{has one sum of squares, of elements of one type that name their parameters}}
  rt.together {
    rt.add_squares %s, %x watch "x" : !rt.buffer<[], f64>, !rt.buffer<[a=2], f32>
    rt.add_squares %other, %x watch "x" : !rt.buffer<[], f64>, !rt.buffer<[a=2], f32>
  }
}

// -----

rt.function @train {
  // expected-error @+1 {{has operations}}
  rt.together {
  }
}

// -----

// Neighbours of a thread are elements that it makes alone.
rt.function @train {
  // expected-error @+1 {{has an attribute rt.pack that is not a number of elements, on a kernel that sums over nothing}}
  %x = rt.alloc work {rt.pack = 4} : !rt.buffer<[a=8], f32>
}

// -----

rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=8], f32>
  %y = rt.alloc work : !rt.buffer<[], f32>
  rt.fused ["a"] = [8](%x) -> ["sum"](%y) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } loops {
    // expected-error @+1 {{has an attribute rt.pack that is not a number of elements, on a kernel that sums over nothing}}
    rt.kernel "y_kernel" [#rt.size<a=8>] summed [true] (%y, %x) {
    ^bb0(%i: index, %to: !rt.buffer<[], f32>, %from: !rt.buffer<[a=8], f32>):
      %e = rt.load %from[%i] by [1] : !rt.buffer<[a=8], f32> -> f32
      rt.sum %e to %to[] by [] : f32, !rt.buffer<[], f32>
    } {rt.pack = 4 : i64} : !rt.buffer<[], f32>, !rt.buffer<[a=8], f32>
  } : (!rt.buffer<[a=8], f32>) -> (!rt.buffer<[], f32>)
}

// -----
rt.function @train {
  // expected-error@+1 {{'rt.at' op is all but one place, or some in a row}}
  rt.at except 1 to 2 of 0 "pp" {
  }
}

// -----

rt.function @sgd {
^bb0(%w: !rt.buffer<[n=?], f32>, %n: index, %lr: f32):
}
rt.function @train {
  %x = rt.alloc work : !rt.buffer<[a=2], f32>
  %lr = rt.alloc work : !rt.buffer<[], f32>
  // expected-error @+1 {{has an attribute rt.offloaded_rows that is not a list of operands that are buffers, on an rt.invoke}}
  rt.invoke @sgd(%x, %lr) count 2 writes [0] {rt.offloaded_rows = array<i64: 2>} : !rt.buffer<[a=2], f32>, !rt.buffer<[], f32>
}
