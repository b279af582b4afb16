// RUN: echelon-opt --ech-compress --split-input-file %s | FileCheck %s

// Bytes and a step travel; what they lost is the worker's own, and enters its next step. The workers' axis is listed on
// the mesh. A number travels as it is, and so does what the workers split among them.
// CHECK: module attributes {{.*}}dist.mesh = #dist.mesh<dp = 4 [batch, out, worker]>{{.*}}ech.exact_gradients = ["split"], ech.packed_by = array<i64: 4, 4>
module attributes {dist.mesh = #dist.mesh<dp = 4 [batch, out]>, ech.batch_axis = "batch"} {
run.compress "int8" over ["dp"] amount 0.0 feedback
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
// CHECK: ech.variable param @w
// CHECK-NEXT: ech.variable compression @optimizer.residual.w : !ech.tensor<[worker=4, in=3], f32> = constant(0.0{{.*}}, 0.0
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// CHECK-NOT: optimizer.residual.b
ech.variable param @b : !ech.tensor<[], f32> = constant(0.0, 0.0)
// CHECK-NOT: optimizer.residual.split
ech.variable param @split : !ech.tensor<[out=4], f32> = constant(0.0, 0.0)
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3], f32>
  // CHECK: %[[G:.*]] = ech.reduce sum
  %g = ech.reduce sum %x over ["batch"] : (!ech.tensor<[batch=8, in=3], f32>) -> !ech.tensor<[in=3], f32>
  // CHECK: %[[EACH:.*]] = ech.per_worker %[[G]] {{.*}} : <[in=3], f32> -> <[worker=4, in=3], f32>
  // CHECK: %[[MINE:.*]] = ech.map mul %[[EACH]]
  // CHECK: %[[KEPT:.*]] = ech.read @optimizer.residual.w
  // CHECK: %[[U:.*]] = ech.map add %[[MINE]], %[[KEPT]]
  // CHECK: %[[LEVEL:.*]] = ech.map round
  // CHECK: %[[FINITE:.*]] = ech.map select %{{.*}}, %[[LEVEL]],
  // CHECK: %[[BYTE:.*]] = ech.map cast %[[FINITE]] {{.*}} -> !ech.tensor<[worker=4, in=3], i8>
  // CHECK: ech.hand_in %[[BYTE]] {{.*}} : <[worker=4, in=3], i8> -> <[workers=4, in=3], i8>
  // CHECK: ech.hand_in %{{.*}} {{.*}} : <[worker=4], f32> -> <[workers=4], f32>
  // CHECK: ech.reduce sum %{{.*}} over ["workers"]
  // CHECK: %[[LOST:.*]] = ech.map sub %[[U]]
  // CHECK: ech.write @optimizer.residual.w, %[[LOST]]
  // CHECK-NOT: ech.gradient @w, %[[G]]
  // CHECK: ech.gradient @w
  ech.gradient @w, %g : <[in=3], f32>
  %n = ech.reduce sum %g over ["in"] : (!ech.tensor<[in=3], f32>) -> !ech.tensor<[], f32>
  // CHECK: %[[N:.*]] = ech.reduce sum %[[G]]
  // CHECK: ech.gradient @b, %[[N]]
  ech.gradient @b, %n : <[], f32>
  // CHECK: %[[S:.*]] = ech.read @split
  // CHECK: ech.gradient @split, %[[S]]
  %s = ech.read @split : <[out=4], f32>
  ech.gradient @split, %s : <[out=4], f32>
}
}

// -----

// A matrix as two factors: means over workers, which are sums that travel; the right one is where the next step begins.
// One rank that works for two workers has no mesh to say so.
// CHECK: module
module attributes {ech.batch_axis = "batch", ech.workers = array<i64: 2, 2>, ech.exact_gradients = []} {
run.compress "powersgd" over ["dp"] amount 1.0
// CHECK: ech.variable compression @optimizer.powersgd.w : !ech.tensor<[out=5, factor=1], f32> = normal(0.0{{.*}}, 1.0
ech.variable param @w : !ech.tensor<[in=4, out=5], f32> = normal(0.0, 0.02)
ech.step @train {
  %g = ech.read @w : <[in=4, out=5], f32>
  // CHECK: %[[EACH:.*]] = ech.per_worker {{.*}} -> <[worker=2, in=4, out=5], f32>
  // CHECK: %[[U:.*]] = ech.map mul %[[EACH]]
  // CHECK: %[[Q:.*]] = ech.read @optimizer.powersgd.w
  // CHECK: ech.dot %[[U]], %[[Q]] over ["out"]
  // CHECK: ech.reduce sum %{{.*}} over ["worker"]
  // CHECK: %[[P:.*]] = ech.orthogonalize "factor" of %{{.*}} over ["in"]
  // CHECK: ech.dot %[[U]], %[[P]] over ["in"]
  // CHECK: ech.write @optimizer.powersgd.w
  // CHECK: ech.dot %[[P]], %{{.*}} over ["factor"]
  // CHECK: ech.gradient @w
  ech.gradient @w, %g : <[in=4, out=5], f32>
}
}
