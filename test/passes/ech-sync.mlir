// RUN: echelon-opt --ech-sync --split-input-file %s | FileCheck %s

!x = !ech.tensor<[batch=2, in=3], f32>
!w = !ech.tensor<[in=3], f32>
!n = !ech.tensor<[], f32>

// Asynchronous workers: @train computes at copies, which @read takes, and what it makes is handed in. The update sums up
// over workers what is in it: of a gradient its weight, of losses and states one half each. What a worker that is not in
// the update has handed in before may be anything, so it is not multiplied by 0.
// CHECK: module attributes {dist.mesh = #dist.mesh<dp = 4 [worker]>, ech.batch_axis = "batch", ech.worker_axis = "worker"}
module attributes {dist.mesh = #dist.mesh<dp = 4 []>, ech.batch_axis = "batch"} {
run.sync "k_async" k 2 of 4 over ["dp"] staleness 3 delay "exponential" [1.0]
ech.input @x 0 : !x below 0
// CHECK: ech.variable copy @copy.w : !ech.tensor<[in=3], f32>
// CHECK: ech.variable copy @copy.mean : !ech.tensor<[], f32>
// CHECK: ech.variable handed_in @handed_in.loss.loss : !ech.tensor<[], f32>
// CHECK: ech.variable handed_in @handed_in.next.mean : !ech.tensor<[], f32>
// CHECK: ech.variable handed_in @handed_in.gradient.w : !ech.tensor<[in=3], f32>
ech.variable param @w : !w = normal(0.0, 0.02)
ech.variable state @mean : !n = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  %x = ech.read @x : <[batch=2, in=3], f32>
  // CHECK: %[[W:.*]] = ech.read @copy.w
  %w = ech.read @w : <[in=3], f32>
  // CHECK: ech.dot %{{.*}}, %[[W]]
  %y = ech.dot %x, %w over ["in"] : (!x, !w) -> !ech.tensor<[batch=2], f32>
  // CHECK: %[[L:.*]] = ech.reduce sum
  // CHECK-NOT: ech.report
  // CHECK: ech.write @handed_in.loss.loss, %[[L]]
  %l = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=2], f32>) -> !n
  ech.report loss "loss", %l : <[], f32>
  // CHECK: %[[MEAN:.*]] = ech.read @copy.mean
  // CHECK: %[[NEXT:.*]] = ech.map add %[[MEAN]], %[[L]]
  // CHECK: ech.write @handed_in.next.mean, %[[NEXT]]
  %m = ech.read @mean : <[], f32>
  %next = ech.map add %m, %l : (!n, !n) -> !n
  ech.write @mean, %next : <[], f32>
  // CHECK: %[[G:.*]] = ech.reduce sum
  // CHECK: ech.write @handed_in.gradient.w, %[[G]]
  %g = ech.reduce sum %x over ["batch"] : (!x) -> !w
  ech.gradient @w, %g : <[in=3], f32>
}
// CHECK-NOT: ech.step @hand_in
// CHECK-LABEL: ech.step @update
// CHECK: %[[L:.*]] = ech.read @handed_in.loss.loss
// CHECK: %[[HALF:.*]] = ech.constant 5.0{{.*}}e-01
// CHECK: %[[SHARE:.*]] = ech.map mul %[[L]], %[[HALF]]
// CHECK: %[[WEIGHT:.*]] = ech.scalar "hand_in_weight"
// CHECK: %[[ISIN:.*]] = ech.map ne %[[WEIGHT]]
// CHECK: %[[OWN:.*]] = ech.map select %[[ISIN]], %[[SHARE]]
// CHECK: %[[EACH:.*]] = ech.per_worker %[[OWN]] apart {{.*}} -> <[worker=4], f32>
// CHECK: %[[LOSS:.*]] = ech.reduce sum %[[EACH]] over ["worker"]
// CHECK: ech.report loss "loss", %[[LOSS]]
// CHECK: ech.write @mean
// CHECK: %[[G:.*]] = ech.read @handed_in.gradient.w
// CHECK: %[[WEIGHT:.*]] = ech.scalar "hand_in_weight"
// CHECK: %[[WEIGHED:.*]] = ech.map mul %[[G]], %[[WEIGHT]]
// CHECK: %[[OWN:.*]] = ech.map select %{{.*}}, %[[WEIGHED]]
// CHECK: %[[EACH:.*]] = ech.per_worker %[[OWN]] apart {{.*}} -> <[worker=4, in=3], f32>
// CHECK: %[[SUM:.*]] = ech.reduce sum %[[EACH]] over ["worker"]
// CHECK: ech.gradient @w, %[[SUM]]
// CHECK-LABEL: ech.step @read
// CHECK: %[[NOW:.*]] = ech.read @w
// CHECK: ech.write @copy.w, %[[NOW]]
// CHECK: %[[NOW:.*]] = ech.read @mean
// CHECK: ech.write @copy.mean, %[[NOW]]
}

// -----

// One worker may have several gradients in an update: @hand_in adds them up, each times its weight, and the first one
// takes the place of what was there. @update takes the sums as they are.
// CHECK-LABEL: module @adds_up
module @adds_up attributes {dist.mesh = #dist.mesh<dp = 2 []>, ech.batch_axis = "batch"} {
run.sync "k_batch_async" k 3 of 2 over ["dp"] staleness -1
// CHECK: ech.variable handed_in @sum.handed_in.gradient.w
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.step @train {
  %w = ech.read @w : <[in=3], f32>
  ech.gradient @w, %w : <[in=3], f32>
}
// CHECK-LABEL: ech.step @update
// CHECK: %[[OWN:.*]] = ech.read @sum.handed_in.gradient.w
// CHECK: ech.map select %{{.*}}, %[[OWN]]
// CHECK: ech.gradient @w
// CHECK-LABEL: ech.step @hand_in
// CHECK: %[[G:.*]] = ech.read @handed_in.gradient.w
// CHECK: %[[WEIGHT:.*]] = ech.scalar "hand_in_weight"
// CHECK: %[[GIVEN:.*]] = ech.map mul %[[G]], %[[WEIGHT]]
// CHECK: %[[FIRST:.*]] = ech.scalar "is_first_in"
// CHECK: %[[ISFIRST:.*]] = ech.map gt %[[FIRST]]
// CHECK: %[[BEFORE:.*]] = ech.read @sum.handed_in.gradient.w
// CHECK: %[[BOTH:.*]] = ech.map add %[[BEFORE]], %[[GIVEN]]
// CHECK: %[[SUM:.*]] = ech.map select %[[ISFIRST]], %[[GIVEN]], %[[BOTH]]
// CHECK: ech.write @sum.handed_in.gradient.w, %[[SUM]]
}

// -----

// Workers that all compute at the newest parameters have no copies.
// CHECK-LABEL: module @in_step
module @in_step attributes {dist.mesh = #dist.mesh<dp = 2 []>, ech.batch_axis = "batch"} {
run.sync "k_sync" k 1 of 2 over ["dp"] staleness -1
// CHECK-NOT: copy
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: ech.read @w
  %w = ech.read @w : <[in=3], f32>
  ech.gradient @w, %w : <[in=3], f32>
}
// CHECK-NOT: ech.step @hand_in
// CHECK-LABEL: ech.step @update
// CHECK-NOT: ech.step @read
}

// -----

// One rank that works for all workers has no mesh: what it does for one after the other is added up, under any policy.
// CHECK-LABEL: module @one_rank
module @one_rank attributes {ech.batch_axis = "batch"} {
run.sync "k_async" k 2 of 4 over [] staleness -1
// CHECK: ech.variable copy @copy.w
// CHECK: ech.variable handed_in @sum.handed_in.gradient.w
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.step @train {
  %w = ech.read @w : <[in=3], f32>
  ech.gradient @w, %w : <[in=3], f32>
}
// CHECK-LABEL: ech.step @update
// CHECK: ech.per_worker %{{.*}} apart {{.*}} -> <[worker=1, in=3], f32>
// CHECK-LABEL: ech.step @hand_in
}

// -----

// Under a dynamic loss scale a gradient may be applied after the scale has changed: it is handed in without it. Metrics
// of a step are not handed in.
// CHECK-LABEL: module @scaled
module @scaled attributes {dist.mesh = #dist.mesh<dp = 2 []>, ech.batch_axis = "batch"} {
run.sync "k_async" k 1 of 2 over ["dp"] staleness -1
run.loss_scale 65536 dynamic
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[W:.*]] = ech.read @copy.w
  %w = ech.read @w : <[in=3], f32>
  %m = ech.reduce sum %w over ["in"] : (!ech.tensor<[in=3], f32>) -> !ech.tensor<[], f32>
  // CHECK-NOT: metric
  ech.report metric "m", %m : <[], f32>
  // CHECK: %[[SCALE:.*]] = ech.scalar "loss_scale"
  // CHECK: %[[G:.*]] = ech.map div %[[W]], %[[SCALE]]
  // CHECK: ech.write @handed_in.gradient.w, %[[G]]
  ech.gradient @w, %w : <[in=3], f32>
}
}
