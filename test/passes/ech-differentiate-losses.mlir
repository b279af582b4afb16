// RUN: echelon-opt --ech-differentiate %s | FileCheck %s

// An unnamed loss stays what the run reports as its loss, in both steps; the sum has a name of its own.
ech.variable param @w : !ech.tensor<[], f32> = constant(1.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[W:.*]] = ech.read @w
  %w = ech.read @w : !ech.tensor<[], f32>
  // CHECK: %[[HALF:.*]] = ech.map abs %[[W]]
  %half = ech.map abs %w : (!ech.tensor<[], f32>) -> !ech.tensor<[], f32>
  // CHECK: ech.report loss "loss", %[[W]]
  ech.report loss "loss", %w : !ech.tensor<[], f32>
  // CHECK: ech.report named_loss "half", %[[HALF]]
  ech.report named_loss "half", %half : !ech.tensor<[], f32>
  // CHECK: %[[SUM:.*]] = ech.map add %[[W]], %[[HALF]]
  // CHECK: ech.report named_loss "total_loss", %[[SUM]]
}
// CHECK-LABEL: ech.step @evaluate
ech.step @evaluate {
  // CHECK: %[[W:.*]] = ech.read @w
  %w = ech.read @w : !ech.tensor<[], f32>
  // CHECK: %[[HALF:.*]] = ech.map abs %[[W]]
  %half = ech.map abs %w : (!ech.tensor<[], f32>) -> !ech.tensor<[], f32>
  // CHECK: ech.report loss "loss", %[[W]]
  ech.report loss "loss", %w : !ech.tensor<[], f32>
  ech.report named_loss "half", %half : !ech.tensor<[], f32>
  // CHECK: %[[SUM:.*]] = ech.map add %[[W]], %[[HALF]]
  // CHECK: ech.report named_loss "total_loss", %[[SUM]]
  // CHECK-NOT: ech.report
}
