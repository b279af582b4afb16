// RUN: echelon-opt %s --rt-outline-updates | FileCheck %s

// A rule is told which of its rows lie in the file: momentum and average, that begin at byte 65536. What other
// operations touch is let go behind the last of them; what is smaller than a page, and what is not offloaded, is left.
// CHECK-LABEL: rt.function @train
// CHECK:         rt.invoke @sgd(%[[W:.*]], %[[G:.*]], %[[M:.*]]) count 2048 writes [0, 2] {ech.phase = "update", rt.offloaded_rows = array<i64: 2>}
// CHECK-NOT:     rt.let_go
// CHECK-LABEL: rt.function @exchange
// CHECK:         %[[A:.*]] = rt.alloc state of @average.w
// CHECK:         rt.copy_strided
// CHECK-NEXT:    rt.copy_strided
// CHECK-NEXT:    rt.copy_strided
// CHECK-NEXT:    rt.let_go %[[A]] {ech.phase = "update"} : <[row=2048], f32>
// CHECK-NOT:     rt.let_go

!w = !rt.buffer<[row=2048], f32>
!b = !rt.buffer<[row=8], f32>
module attributes {rt.offloaded = array<i64: 65536, 65536>, rt.state_bytes = 131072} {
  ech.variable param @w : !ech.tensor<[row=2048], f32> = constant(0.0, 0.0)
  ech.variable param @b : !ech.tensor<[row=8], f32> = constant(0.0, 0.0)
  ech.variable optimizer @optimizer.momentum.w : !ech.tensor<[row=2048], f32> = constant(0.0, 0.0)
  ech.variable average @average.w : !ech.tensor<[row=2048], f32> = constant(0.0, 0.0)
  ech.variable average @average.b : !ech.tensor<[row=8], f32> = constant(0.0, 0.0)
  rt.function @sgd {
  ^bb0(%w: !rt.buffer<[n=?], f32>, %g: !rt.buffer<[n=?], f32>, %m: !rt.buffer<[n=?], f32>, %n: index):
    rt.fused ["n"] = [?](%g, %m, %w) -> ["store", "store"](%m, %w) {
    ^bb0(%d: f32, %old: f32, %before: f32):
      %next = rt.compute "add" %old, %d : (f32, f32) -> f32
      %new = rt.compute "sub" %before, %next : (f32, f32) -> f32
      rt.yield %next, %new : f32, f32
    } : (!rt.buffer<[n=?], f32>, !rt.buffer<[n=?], f32>, !rt.buffer<[n=?], f32>) -> (!rt.buffer<[n=?], f32>, !rt.buffer<[n=?], f32>)
  }
  rt.function @train {
    %w = rt.alloc state of @w at 0 : !w
    %m = rt.alloc state of @optimizer.momentum.w at 65536 : !w
    %g = rt.alloc work at 0 : !w
    rt.invoke @sgd(%w, %g, %m) count 2048 writes [0, 2] {ech.phase = "update"} : !w, !w, !w
  }
  rt.function @exchange {
    %w = rt.alloc state of @w at 0 : !w
    %a = rt.alloc state of @average.w at 73728 : !w
    %t = rt.alloc work at 0 : !w
    rt.copy_strided %t, %w : !w, !w
    rt.copy_strided %w, %a {ech.phase = "update"} : !w, !w
    rt.copy_strided %a, %t {ech.phase = "update"} : !w, !w
    %b = rt.alloc state of @b at 8192 : !b
    %c = rt.alloc state of @average.b at 81920 : !b
    rt.copy_strided %b, %c : !b, !b
  }
}
