// What the optimizer keeps is offloaded: moments and averages are the end of the state arena, and have pages of their own.
// RUN: echelon-opt %s --rt-plan-arenas | FileCheck %s
// CHECK: rt.offloaded = array<i64: 65536, 131072>
// CHECK-SAME: rt.state_bytes = 196608 : i64
// CHECK: ech.variable param @w {{.*}}rt.offset = 0
// CHECK: ech.variable state @seen {{.*}}rt.offset = 64
// CHECK: ech.variable optimizer @optimizer.m.w {{.*}}rt.offset = 65536
// CHECK: ech.variable average @average.w {{.*}}rt.offset = 131136
module attributes {dist.offload = "scratch"} {
ech.variable param @w : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
ech.variable state @seen : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
ech.variable optimizer @optimizer.m.w : !ech.tensor<[n=16390], f32> = constant(0.0, 0.0)
ech.variable average @average.w : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
}
