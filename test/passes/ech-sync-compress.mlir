// RUN: echelon-opt --ech-sync --split-input-file %s | FileCheck %s
// What workers hand in is packed in @update: of who is not in, nothing.

!w = !ech.tensor<[in=3], f32>
!n = !ech.tensor<[], f32>
module attributes {dist.mesh = #dist.mesh<dp = 4 []>} {
run.sync "k_async" k 2 of 4 over ["dp"] delay "exponential" [1.0]
run.compress "fp16" over ["dp"] amount 0.0 feedback
// CHECK: ech.variable compression @optimizer.residual.w : !ech.tensor<[worker=4, in=3], f32>
ech.variable param @w : !w = normal(0.0, 0.02)
ech.step @train {
  %g = ech.constant 1.0 : <[in=3], f32>
  ech.gradient @w, %g : <[in=3], f32>
}
// CHECK-LABEL: ech.step @update
// CHECK: %[[EACH:.*]] = ech.per_worker %{{.*}} apart {{.*}} : <[in=3], f32> -> <[worker=4, in=3], f32>
// CHECK: %[[K:.*]] = ech.constant 2.0
// CHECK: %[[U:.*]] = ech.map mul %[[EACH]], %[[K]]
// CHECK: %[[COUNTS:.*]] = ech.per_worker %{{.*}} apart {{.*}} : <[], f32> -> <[worker=4], f32>
// CHECK: %[[ISIN:.*]] = ech.map gt %[[COUNTS]]
// CHECK: %[[BEFORE:.*]] = ech.read @optimizer.residual.w
// CHECK: %[[SUM:.*]] = ech.map add %[[U]], %[[BEFORE]]
// CHECK: %[[OWED:.*]] = ech.map select %[[ISIN]], %[[SUM]]
// CHECK: %[[HALF:.*]] = ech.map cast %{{.*}} -> !ech.tensor<[worker=4, in=3], f16>
// CHECK: %[[ALL:.*]] = ech.hand_in %[[HALF]]
// The mean is over the gradients of an update.
// CHECK: %[[TOTAL:.*]] = ech.reduce sum %{{.*}} over ["workers"]
// CHECK: %[[SHARE:.*]] = ech.constant 5.0{{.*}}e-01
// CHECK: %[[MEAN:.*]] = ech.map mul %[[TOTAL]], %[[SHARE]]
// CHECK: %[[LOST:.*]] = ech.map sub %[[OWED]]
// CHECK: %[[AFTER:.*]] = ech.map select %[[ISIN]], %[[LOST]], %[[BEFORE]]
// CHECK: ech.write @optimizer.residual.w, %[[AFTER]]
// CHECK: ech.gradient @w, %[[MEAN]]
}

// -----

// One rank that works for two workers adds up by worker what they hand in, and counts it.
!w = !ech.tensor<[in=3], f32>
module {
run.sync "k_batch_sync" k 3 of 2 over [] delay "exponential" [1.0]
run.compress "fp16" over [] amount 0.0
ech.variable param @w : !w = normal(0.0, 0.02)
// CHECK: ech.variable handed_in @sum.handed_in.gradient.w : !ech.tensor<[worker=2, in=3], f32>
// CHECK: ech.variable handed_in @sum.handed_in.count : !ech.tensor<[worker=2], f32>
ech.step @train {
  %g = ech.constant 1.0 : <[in=3], f32>
  ech.gradient @w, %g : <[in=3], f32>
}
// CHECK-LABEL: ech.step @hand_in
// CHECK: %[[PLACE:.*]] = ech.index "worker"
// CHECK: %[[OWN:.*]] = ech.scalar "hand_in_worker"
// CHECK: %[[ISOWN:.*]] = ech.map eq %{{.*}}, %[[OWN]]
// CHECK: %[[AT:.*]] = ech.map select %[[ISOWN]]
// CHECK: ech.write @sum.handed_in.gradient.w
// CHECK: ech.write @sum.handed_in.count
}

// -----

// Workers of local meet with how far they have come.
!w = !ech.tensor<[in=3], f32>
module attributes {dist.mesh = #dist.mesh<dp = 2 []>} {
run.sync "local" k 2 of 2 over ["dp"] every 4
run.compress deltas "fp16" over ["dp"] amount 0.0
ech.variable param @w : !w = normal(0.0, 0.02)
ech.step @train {
  %g = ech.constant 1.0 : <[in=3], f32>
  ech.gradient @w, %g : <[in=3], f32>
}
// CHECK-LABEL: ech.step @meet
// CHECK: %[[ANCHOR:.*]] = ech.read @copy.w
// CHECK: %[[OWN:.*]] = ech.read @w
// CHECK: %[[WAY:.*]] = ech.map sub %[[ANCHOR]], %[[OWN]]
// CHECK: %[[EACH:.*]] = ech.per_worker %[[WAY]] apart
// CHECK: ech.map cast %{{.*}} -> !ech.tensor<[worker=2, in=3], f16>
// CHECK: %[[NEXT:.*]] = ech.map sub %[[ANCHOR]], %{{.*}}
// CHECK: ech.write @copy.w, %[[NEXT]]
}
