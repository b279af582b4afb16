// RUN: echelon-opt %s | echelon-opt | FileCheck %s

// What one pass prints the next one reads: every operation of the dialect, in the form in which people see it.
// CHECK-LABEL: rt.function @train
rt.function @train {
  // CHECK: %[[W:.*]] = rt.alloc state of @w at 0 : <[layer=4, embed=8], f32>
  %w = rt.alloc state of @w at 0 : !rt.buffer<[layer=4, embed=8], f32>
  // CHECK: %[[X:.*]] = rt.alloc work : <[batch=2, embed=8], f32>
  %x = rt.alloc work : !rt.buffer<[batch=2, embed=8], f32>
  // CHECK: %[[SUM:.*]] = rt.alloc work : <[], f32>
  %sum = rt.alloc work : !rt.buffer<[], f32>
  // CHECK: %[[FIRST:.*]] = rt.offset [0, 1] times [8, 4] plus 4
  %first = rt.offset [0, 1] times [8, 4] plus 4
  // CHECK: rt.offset [0] times [8] of <seq=8>
  %own_part = rt.offset [0] times [8] of <seq=8>
  // CHECK: %[[LR:.*]] = rt.number learning_rate : f64
  %lr = rt.number learning_rate : f64
  // CHECK: rt.for "layer" = 4 reverse {
  // CHECK-NEXT: ^bb0(%[[I:.*]]: index):
  rt.for "layer" = 4 reverse {
  ^bb0(%i: index):
    // CHECK-NEXT: %[[WI:.*]] = rt.view %[[W]] from 0 plus(%[[I]]) times [8] : <[layer=4, embed=8], f32> -> <[embed=8], f32>
    %wi = rt.view %w from 0 plus(%i) times [8] : !rt.buffer<[layer=4, embed=8], f32> -> !rt.buffer<[embed=8], f32>
    // CHECK-NEXT: rt.fused ["batch", "embed"] = [2, 8](%[[X]], %[[WI]]) numbers(%[[LR]] : f64) -> ["store", "add"](%[[X]], %[[SUM]]) {
    rt.fused ["batch", "embed"] = [2, 8](%x, %wi) numbers(%lr : f64) -> ["store", "add"](%x, %sum) {
    ^bb0(%a: f32, %b: f32, %n: f32):
      // CHECK: rt.along "embed" from %[[FIRST]] : i32
      %at = rt.along "embed" from %first : i32
      // CHECK: rt.literal 2.000000e+00 : i32
      %two = rt.literal 2.0 : i32
      // CHECK: rt.compute "lt" %{{.*}}, %{{.*}} : (i32, i32) -> i1
      %c = rt.compute "lt" %at, %two : (i32, i32) -> i1
      %m = rt.compute "mul" %b, %n : (f32, f32) -> f32
      %s = rt.compute "select" %c, %a, %m : (i1, f32, f32) -> f32
      rt.yield %s, %m : f32, f32
    // CHECK: } : (!rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[embed=8], f32>) -> (!rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[], f32>)
    } : (!rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[embed=8], f32>) -> (!rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[], f32>)
  }
  // CHECK: rt.at 1 to 2 of 0 "pp" {
  rt.at 1 to 2 of 0 "pp" {
    // CHECK-NEXT: rt.receive %[[X]] from -1 over [0] ranks 4 "pp" why "split layer over pp"
    rt.receive %x from -1 over [0] ranks 4 "pp" why "split layer over pp" : !rt.buffer<[batch=2, embed=8], f32>
  }
  // CHECK: rt.softmax %[[X]], %[[X]] of <> <batch=2, embed=8> <> :
  rt.softmax %x, %x of <> <batch=2, embed=8> <> : !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2, embed=8], f32>
  // CHECK: rt.number bias_correction by 9.000000e-01 : f64
  %correction = rt.number bias_correction by 0.9 : f64
  // CHECK: rt.number is_first of 1 : f64
  %counts = rt.number is_first of 1 : f64
  // CHECK: rt.gather %[[X]], %[[X]][{{\["embed"\]}} = %{{.*}}] of [8] bounded [true] from %[[FIRST]] to %[[FIRST]] rows moves 64 :
  %rows = rt.alloc work : !rt.buffer<[batch=2], i32>
  rt.gather %x, %x[["embed"] = %rows] of [8] bounded [true] from %first to %first rows moves 64 : !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2], i32>
  // CHECK: %[[T:.*]] = rt.collective "all_reduce" %[[X]], %[[X]] count 16 "Sum" over [0] ranks 2 "dp" with "ring" why "split batch over dp"
  %t = rt.collective "all_reduce" %x, %x count 16 "Sum" over [0] ranks 2 "dp" with "ring" why "split batch over dp" : !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2, embed=8], f32> -> !rt.ticket
  // CHECK: rt.collective "reduce_scatter" %[[X]], %{{.*}} count 8 runs 2 "Sum" over [0] ranks 2 "dp" with "automatic" why "sum of y" :
  %part = rt.alloc work : !rt.buffer<[batch=2, embed=4], f32>
  rt.collective "reduce_scatter" %x, %part count 8 runs 2 "Sum" over [0] ranks 2 "dp" with "automatic" why "sum of y" : !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2, embed=4], f32>
  // CHECK: rt.wait %[[T]]
  rt.wait %t
  // CHECK: %[[EACH:.*]] = rt.tickets 4
  %each = rt.tickets 4
  rt.for "layer" = 4 {
  ^bb0(%i: index):
    // CHECK: rt.collective "all_reduce" {{.*}} why "" keeps %[[EACH]][%{{.*}}] : <[batch=2, embed=8], f32>, <[batch=2, embed=8], f32>
    rt.collective "all_reduce" %x, %x count 16 "Sum" over [0] ranks 2 "dp" with "ring" why "" keeps %each[%i] : !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2, embed=8], f32>
  }
  // CHECK: rt.wait %[[EACH]]
  rt.wait %each
  // CHECK: rt.report 0 "loss" "loss", %[[SUM]] : <[], f32>
  rt.report 0 "loss" "loss", %sum : !rt.buffer<[], f32>
}

// A buffer with its axes in another order than its memory.
// CHECK-LABEL: rt.function @strides
rt.function @strides {
  %x = rt.alloc work : !rt.buffer<[a=2, b=3], f64>
  // CHECK: rt.view %{{.*}} from 0 : <[a=2, b=3], f64> -> <[b=3, a=2], f64, [1, 3]>
  %y = rt.view %x from 0 : !rt.buffer<[a=2, b=3], f64> -> !rt.buffer<[b=3, a=2], f64, [1, 3]>
}

// A function of rows of any length, and what runs it on some.
// CHECK-LABEL: rt.function @sgd
// CHECK-NEXT:  ^bb0(%[[W:.*]]: !rt.buffer<[n=?], f32>, %{{.*}}: index, %[[LR:.*]]: f64):
// CHECK-NEXT:    rt.fused ["n"] = [?](%[[W]]) numbers(%[[LR]] : f64) -> ["store"](%[[W]]) {
rt.function @sgd {
^bb0(%w: !rt.buffer<[n=?], f32>, %n: index, %lr: f64):
  rt.fused ["n"] = [?](%w) numbers(%lr : f64) -> ["store"](%w) {
  ^bb0(%a: f32, %r: f32):
    %s = rt.compute "mul" %a, %r : (f32, f32) -> f32
    rt.yield %s : f32
  } : (!rt.buffer<[n=?], f32>) -> (!rt.buffer<[n=?], f32>)
}
// CHECK-LABEL: rt.function @train.start
rt.function @train.start {
  // A nest that reads nothing.
  %one = rt.alloc work : !rt.buffer<[], f32>
  // CHECK: } : () -> (!rt.buffer<[], f32>)
  rt.fused [] = []() -> ["store"](%one) {
    %c = rt.literal 1.0 : f32
    rt.yield %c : f32
  } : () -> (!rt.buffer<[], f32>)
  %w = rt.alloc work : !rt.buffer<[batch=2, embed=8], f32>
  %lr = rt.number learning_rate : f64
  // CHECK: rt.invoke @sgd(%{{.*}}, %{{.*}}) count 16 writes [0] : !rt.buffer<[batch=2, embed=8], f32>, f64
  rt.invoke @sgd(%w, %lr) count 16 writes [0] : !rt.buffer<[batch=2, embed=8], f32>, f64
  // CHECK: rt.invoke @sgd(%{{.*}}, %{{.*}}) count 16 writes [0] {rt.offloaded_rows = array<i64: 0>}
  rt.invoke @sgd(%w, %lr) count 16 writes [0] {rt.offloaded_rows = array<i64: 0>} : !rt.buffer<[batch=2, embed=8], f32>, f64
  // CHECK: rt.let_go %{{.*}} : <[batch=2, embed=8], f32>
  rt.let_go %w : !rt.buffer<[batch=2, embed=8], f32>
  %there = rt.alloc work : !rt.buffer<[batch=2, embed=8], f32>
  // CHECK: rt.fetch %{{.*}}, %{{.*}} : <[batch=2, embed=8], f32>, <[batch=2, embed=8], f32>
  rt.fetch %there, %w : !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2, embed=8], f32>
  // CHECK: rt.write_back %{{.*}}, %{{.*}} : <[batch=2, embed=8], f32>, <[batch=2, embed=8], f32>
  rt.write_back %w, %there : !rt.buffer<[batch=2, embed=8], f32>, !rt.buffer<[batch=2, embed=8], f32>
  %b = rt.alloc work : !rt.buffer<[embed=8], f32>
  // CHECK: rt.together {
  // CHECK-NEXT: rt.invoke @sgd
  // CHECK-NEXT: rt.invoke @sgd
  rt.together {
    rt.invoke @sgd(%w, %lr) count 16 writes [0] : !rt.buffer<[batch=2, embed=8], f32>, f64
    rt.invoke @sgd(%b, %lr) count 8 writes [0] : !rt.buffer<[embed=8], f32>, f64
  }
}

// A product that adds a bias to its columns.
// CHECK-LABEL: rt.function @bias
rt.function @bias {
  %c = rt.alloc work : !rt.buffer<[a=2, b=3], bf16>
  %x = rt.alloc work : !rt.buffer<[a=2, k=2], bf16>
  %w = rt.alloc work : !rt.buffer<[k=2, b=3], bf16>
  // CHECK: %[[BIAS:.*]] = rt.alloc work : <[b=3], bf16>
  %b = rt.alloc work : !rt.buffer<[b=3], bf16>
  // CHECK: rt.gemm %{{.*}}, %{{.*}}, %{{.*}} bias %[[BIAS]] : !rt.buffer<[b=3], bf16> m <a=2> n <b=3> k <k=2> ld <k=2> <b=3> <b=3> :
  rt.gemm %c, %x, %w bias %b : !rt.buffer<[b=3], bf16> m <a=2> n <b=3> k <k=2> ld <k=2> <b=3> <b=3> : !rt.buffer<[a=2, b=3], bf16>, !rt.buffer<[a=2, k=2], bf16>, !rt.buffer<[k=2, b=3], bf16>
}
