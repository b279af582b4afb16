// RUN: echelon-opt --ech-differentiate %s | FileCheck %s

// A loss that depends on a parameter through a contraction and a relu: the gradient is one contraction.
// CHECK-LABEL: ech.step @train
ech.variable param @w : !ech.tensor<[in=3, out=2], f32> = normal(0.0, 0.02)
ech.variable param @unused : !ech.tensor<[out=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[batch=4, in=3], f32> below 0
ech.step @train {
  // CHECK: %[[X:.*]] = ech.read @x
  %x = ech.read @x : !ech.tensor<[batch=4, in=3], f32>
  %w = ech.read @w : !ech.tensor<[in=3, out=2], f32>
  %y = ech.dot %x, %w over ["in"] : (!ech.tensor<[batch=4, in=3], f32>, !ech.tensor<[in=3, out=2], f32>) -> !ech.tensor<[batch=4, out=2], f32>
  // CHECK: %[[H:.*]] = ech.map relu
  %h = ech.map relu %y : (!ech.tensor<[batch=4, out=2], f32>) -> !ech.tensor<[batch=4, out=2], f32>
  %l = ech.reduce sum %h over ["batch", "out"] : (!ech.tensor<[batch=4, out=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : !ech.tensor<[], f32>
  // CHECK: %[[ONE:.*]] = ech.constant 1.0
  // CHECK-SAME: ech.phase = "backward"
  // CHECK: %[[DH:.*]] = ech.expand %[[ONE]]
  // CHECK: %[[ON:.*]] = ech.map gt %[[H]]
  // CHECK: %[[DY:.*]] = ech.map select %[[ON]], %[[DH]]
  // CHECK: %[[DW:.*]] = ech.dot %[[DY]], %[[X]] over ["batch"]
  // CHECK-SAME: -> !ech.tensor<[in=3, out=2], f32>
  // CHECK-DAG: ech.gradient @w, %[[DW]]
  // CHECK-DAG: %[[ZERO:.*]] = ech.constant 0.0{{.*}} : <[out=2], f32>
  // CHECK-DAG: ech.gradient @unused, %[[ZERO]]
}
