// What travels where under a sync policy.
// RUN: echelon-opt --ech-sync --ech-expand-update --ech-simplify --dist-assign-layout --dist-form-collectives %s | FileCheck %s

!x = !ech.tensor<[batch=2, in=6], f32>
!w = !ech.tensor<[in=6], f32>
!n = !ech.tensor<[], f32>

// Inside of a worker everything is as ever: under `store optimizer over dp` its gradient is summed up into the cut, and it
// hands in the cut. Over the workers' axis, pod, cuts travel and losses, in the update alone. The parameters are put
// together inside of each worker, and @read copies them where they are.
module attributes {dist.mesh = #dist.mesh<pod = 4 [], dp = 2 [batch]>, dist.store = {optimizer = ["dp"]},
                   ech.batch_axis = "batch"} {
run.sync "k_async" k 2 of 4 over ["pod"] staleness -1
run.optimize "sgd" all on ["*"] with {momentum = 0.9} rate <kind = constant, peak = 0.1>
ech.input @x 0 : !x below 0
// CHECK: ech.variable copy @copy.w : !ech.tensor<[in=6], f32, #dist.state<pod = whole, dp = whole>>
// CHECK: ech.variable handed_in @handed_in.gradient.w : !ech.tensor<[in=6], f32, #dist.state<pod = whole, dp = cut in>>
ech.variable param @w : !w = normal(0.0, 0.02)
// CHECK-LABEL: ech.step @train
ech.step @train {
  %x = ech.read @x : <[batch=2, in=6], f32>
  %w = ech.read @w : <[in=6], f32>
  %y = ech.dot %x, %w over ["in"] : (!x, !w) -> !ech.tensor<[batch=2], f32>
  // CHECK-NOT: over ["pod"]
  // CHECK: %[[LOSS:.*]] = dist.all_reduce %{{.*}} over ["dp"]
  // CHECK: ech.write @handed_in.loss.loss, %[[LOSS]]
  %l = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=2], f32>) -> !n
  ech.report loss "loss", %l : <[], f32>
  // CHECK: %[[CUT:.*]] = dist.reduce_scatter %{{.*}} over ["dp"] why "store optimizer over dp: write of handed_in.gradient.w
  // CHECK: ech.write @handed_in.gradient.w, %[[CUT]]
  %g = ech.reduce sum %x over ["batch"] : (!x) -> !w
  ech.gradient @w, %g : <[in=6], f32>
}
// CHECK-LABEL: ech.step @update
// CHECK: dist.all_reduce %{{.*}} over ["pod"] {{.*}}report of loss
// CHECK: %[[CUT:.*]] = ech.read @handed_in.gradient.w {{.*}}: <[in=6], f32, #dist.state<pod = whole, dp = cut in>>
// CHECK: %[[EACH:.*]] = ech.per_worker {{.*}} -> <[worker=4, in=6], f32, #dist.state<pod = split worker, dp = cut in>>
// CHECK: %[[SUM:.*]] = ech.reduce sum %[[EACH]] over ["worker"]
// CHECK: dist.all_reduce %[[SUM]] over ["pod"] {{.*}}gradient of w
// CHECK: ech.write @optimizer.momentum.w, %{{.*}} {{.*}}: <[in=6], f32, #dist.state<pod = whole, dp = cut in>>
// CHECK: %[[W:.*]] = dist.all_gather %{{.*}} over ["dp"]
// CHECK: ech.write @w, %[[W]]
// CHECK-LABEL: ech.step @read
// CHECK-NOT: over ["
}
