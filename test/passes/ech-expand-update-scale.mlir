// RUN: echelon-opt --ech-differentiate --ech-expand-update %s | FileCheck %s

// The derivative starts from the loss scale. The norm is divided by it before the clip, and so are gradients, by one
// factor with what clips.
!w = !ech.tensor<[in=3], f32>
!s = !ech.tensor<[], f32>
module attributes {ech.clip = 1.0} {
run.optimize "sgd" on ["*"] with {} rate <kind = constant, peak = 0.1>
run.loss_scale 1024
ech.variable param @w : !w = normal(0.0, 0.02)
ech.step @train {
  // CHECK: %[[W:.*]] = ech.read @w
  %w = ech.read @w : <[in=3], f32>
  %l = ech.reduce sum %w over ["in"] : (!w) -> !s
  ech.report loss "loss", %l : !s
  // CHECK: %[[S:.*]] = ech.scalar "loss_scale" {ech.phase = "backward"}
  // CHECK-NEXT: %[[D:.*]] = ech.expand %[[S]]
  // CHECK: %[[BY:.*]] = ech.scalar "loss_scale" {ech.phase = "update"}
  // CHECK-NEXT: %[[SCALED:.*]] = ech.global_norm %[[D]]
  // CHECK-NEXT: %[[NORM:.*]] = ech.map div %[[SCALED]], %[[BY]]
  // CHECK-NEXT: ech.report norm "norm", %[[NORM]]
  // CHECK: %[[CLIP:.*]] = ech.map min
  // CHECK-NEXT: %[[BOTH:.*]] = ech.map div %[[CLIP]], %[[BY]]
  // CHECK: %[[G:.*]] = ech.map mul %[[D]], %[[BOTH]]
  // CHECK: ech.map mul %[[G]]
}
}
