// In evaluation a random value belongs to a held-out sample: the logical index runs over all held-out samples, then over
// what there is of one. In training it runs over the tensor's axes in their order.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!r = !ech.tensor<[embed=3, batch=8], f32, #dist.state<dp = split batch>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>, ech.batch = 8 : i64, ech.batch_axis = "batch"} {
ech.variable state @s : !ech.tensor<[embed=3, batch=8], f32, #dist.state<dp = split batch>> = constant(0.0, 0.0)
// CHECK-LABEL: rt.function @train
// CHECK:       %[[OWN:.*]] = rt.offset [0] times [4]
// CHECK:       rt.random {{.*}} dims [3, 4] times [8, 1] moved [false, true] from %[[OWN]] :
ech.step @train {
  %x = ech.random normal "e"(0.0, 1.0) : !r
  ech.write @s, %x : !r
}
// CHECK-LABEL: rt.function @evaluate
// CHECK-DAG:   %[[OWN:.*]] = rt.offset [0] times [4]
// CHECK-DAG:   %[[BATCH:.*]] = rt.number batch_offset
// CHECK:       rt.random {{.*}} dims [3, 1, 4] times [1, 3, 3] moved [false, true, true] from %[[BATCH]], %[[OWN]] :
ech.step @evaluate {
  %x = ech.random normal "e"(0.0, 1.0) : !r
  ech.write @s, %x : !r
}
}
