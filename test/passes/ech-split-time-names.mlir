// The loop over the passes takes a name that no axis of the step has.
// RUN: echelon-opt --ech-split-time %s | FileCheck %s

module attributes {ech.micro = 2, ech.batch = 8, ech.batch_axis = "batch"} {
ech.variable param @w : !ech.tensor<[micro=3], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[batch=8, micro=3], f32> below 0
// CHECK-LABEL: ech.step @train
// CHECK: %[[PARTS:.*]] = ech.relabel %{{.*}} {{\[\["batch"\]\] -> \[\["micro_2", "batch"\]\]}} {{.*}} -> !ech.tensor<[micro_2=2, batch=4, micro=3], f32>
// CHECK: ech.repeat "micro_2" = 2 time slice(%[[PARTS]]
ech.step @train {
  %x = ech.read @x : <[batch=8, micro=3], f32>
  %w = ech.read @w : <[micro=3], f32>
  %y = ech.dot %x, %w over ["micro"] : (!ech.tensor<[batch=8, micro=3], f32>, !ech.tensor<[micro=3], f32>) -> !ech.tensor<[batch=8], f32>
  %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %s : <[], f32>
}
}
