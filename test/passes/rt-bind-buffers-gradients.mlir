// What a rule of the update is given beside the parameter is its gradient, a part of a message, too. Parameters of one
// name have their whole path.
// RUN: echelon-opt %s --rt-bind-buffers | FileCheck %s

!b = !rt.buffer<[embed=8], f32>
!message = !rt.buffer<[message=16], f32>
!row = !rt.buffer<[n=?], f32>
ech.variable param @norm.beta : !ech.tensor<[embed=8], f32> = constant(0.0, 0.0)
ech.variable param @layer.norm.beta : !ech.tensor<[embed=8], f32> = constant(0.0, 0.0)
rt.function @sgd {
^bb0(%w: !row, %d_w: !row, %n: index):
}
// CHECK-LABEL: rt.function @train
rt.function @train {
  // CHECK: rt.alloc state of @norm.beta at 0 {rt.member = ["Params", "norm_beta"]}
  %a = rt.alloc state of @norm.beta at 0 : !b
  // CHECK: rt.alloc state of @layer.norm.beta at 64 {rt.member = ["Params", "layer_norm_beta"]}
  %b = rt.alloc state of @layer.norm.beta at 64 : !b
  // CHECK: rt.alloc work at 0 {rt.member = ["Gradients", "message"]}
  %message = rt.alloc work at 0 : !message
  rt.fill %message with 0.0 {rt.function = "backward"} : !message
  // CHECK: rt.view %{{.*}} from 0 {rt.member = ["Gradients", "norm_beta"]}
  %da = rt.view %message from 0 : !message -> !b
  // CHECK: rt.view %{{.*}} from 8 {rt.member = ["Gradients", "layer_norm_beta"]}
  %db = rt.view %message from 8 : !message -> !b
  rt.invoke @sgd(%a, %da) count 8 writes [0] {rt.function = "update"} : !b, !b
  rt.invoke @sgd(%b, %db) count 8 writes [0] {rt.function = "update"} : !b, !b
}
