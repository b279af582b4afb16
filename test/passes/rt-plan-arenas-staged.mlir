// RUN: echelon-opt %s --rt-plan-arenas | FileCheck %s

// A moment that a rule alone touches is left to come in pieces. One that is read in another way is on the device whole,
// from its first use to its last; what is only read does not go back.
// CHECK: module attributes {{.*}}rt.staged
// CHECK-LABEL: rt.function @train
// CHECK:         %[[M:.*]] = rt.alloc state of @optimizer.momentum.w
// CHECK-NOT:     rt.fetch %{{.*}}, %[[M]]
// CHECK:         %[[N:.*]] = rt.alloc state of @optimizer.momentum.v
// CHECK-NEXT:    %[[THERE:.*]] = rt.alloc work
// CHECK:         rt.fused ["row"] = [2048](%{{.*}}, %[[M]], %{{.*}}) -> ["store", "store"](%[[M]], %{{.*}})
// CHECK:         rt.fetch %[[THERE]], %[[N]] {ech.phase = "update"}
// CHECK-NEXT:    rt.fused ["row"] = [2048](%[[THERE]]) -> ["add"](%{{.*}})
// CHECK:         rt.fused ["row"] = [2048](%{{.*}}, %[[THERE]], %{{.*}}) -> ["store", "store"](%[[THERE]], %{{.*}})
// CHECK:         rt.write_back %[[N]], %[[THERE]] {ech.phase = "update"}
// CHECK-LABEL: rt.function @read
// CHECK:         rt.fetch
// CHECK-NEXT:    rt.copy_strided
// CHECK-NOT:     rt.write_back

!w = !rt.buffer<[row=2048], f32>
module attributes {dist.offload = "", rt.staged} {
  ech.variable param @w : !ech.tensor<[row=2048], f32> = constant(0.0, 0.0)
  ech.variable param @v : !ech.tensor<[row=2048], f32> = constant(0.0, 0.0)
  ech.variable optimizer @optimizer.momentum.w : !ech.tensor<[row=2048], f32> = constant(0.0, 0.0)
  ech.variable optimizer @optimizer.momentum.v : !ech.tensor<[row=2048], f32> = constant(0.0, 0.0)
  rt.function @train {
    %w = rt.alloc state of @w : !w
    %v = rt.alloc state of @v : !w
    %m = rt.alloc state of @optimizer.momentum.w : !w
    %n = rt.alloc state of @optimizer.momentum.v : !w
    %g = rt.alloc work : !w
    %norm = rt.alloc work : !rt.buffer<[], f32>
    rt.fused ["row"] = [2048](%g, %m, %w) -> ["store", "store"](%m, %w) {
    ^bb0(%d: f32, %old: f32, %before: f32):
      %next = rt.compute "add" %old, %d : (f32, f32) -> f32
      %new = rt.compute "sub" %before, %next : (f32, f32) -> f32
      rt.yield %next, %new : f32, f32
    } {ech.phase = "update"} : (!w, !w, !w) -> (!w, !w)
    rt.fused ["row"] = [2048](%n) -> ["add"](%norm) {
    ^bb0(%old: f32):
      rt.yield %old : f32
    } {ech.phase = "update"} : (!w) -> (!rt.buffer<[], f32>)
    rt.fused ["row"] = [2048](%g, %n, %v) -> ["store", "store"](%n, %v) {
    ^bb0(%d: f32, %old: f32, %before: f32):
      %next = rt.compute "add" %old, %d : (f32, f32) -> f32
      %new = rt.compute "sub" %before, %next : (f32, f32) -> f32
      rt.yield %next, %new : f32, f32
    } {ech.phase = "update"} : (!w, !w, !w) -> (!w, !w)
  }
  rt.function @read {
    %m = rt.alloc state of @optimizer.momentum.w : !w
    %t = rt.alloc work : !w
    rt.copy_strided %t, %m : !w, !w
  }
}
