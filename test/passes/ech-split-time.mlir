// RUN: echelon-opt --ech-split-time --ech-simplify %s | FileCheck %s

// Two micro batches: what touches samples is inside, the loss and the gradient come out as sums; the count is that of the
// whole batch.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 2} {
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[X:.*]] = ech.read @x : <[batch=8, in=3], f32>
  // CHECK: %[[W:.*]] = ech.read @w
  // CHECK: %[[COUNT:.*]] = ech.count over ["batch"] = [8]
  %x = ech.read @x : <[batch=8, in=3], f32>
  %w = ech.read @w : <[in=3], f32>
  // CHECK: %[[PARTS:.*]] = ech.relabel %[[X]] {{\[\["batch"\]\] -> \[\["micro", "batch"\]\]}} {{.*}} -> !ech.tensor<[micro=2, batch=4, in=3], f32>
  // CHECK: %[[TOTAL:.*]]:2 = ech.repeat "micro" = 2 time slice(%[[PARTS]]
  // CHECK-NEXT: ^bb0(%[[PART:.*]]: !ech.tensor<[batch=4, in=3], f32>):
  // CHECK: %[[Y:.*]] = ech.dot %[[PART]], %[[W]]
  // CHECK: %[[SUM:.*]] = ech.reduce sum %[[Y]] over ["batch"]
  // CHECK: %[[MEAN:.*]] = ech.map div %[[SUM]], %[[COUNT]]
  %y = ech.dot %x, %w over ["in"] : (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>) -> !ech.tensor<[batch=8], f32>
  %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  %n = ech.count over ["batch"] = [8] : <[], f32>
  %l = ech.map div %s, %n : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
  // CHECK: %[[DW:.*]] = ech.reduce sum %[[PART]] over ["batch"]
  %d = ech.reduce sum %x over ["batch"] {ech.phase = "backward"} : (!ech.tensor<[batch=8, in=3], f32>) -> !ech.tensor<[in=3], f32>
  // The loss is added up in f64, a gradient in its own type.
  // CHECK: %[[WIDE:.*]] = ech.map cast %[[MEAN]] : {{.*}} -> !ech.tensor<[], f64>
  // CHECK: ech.yield sum(%[[WIDE]], %[[DW]]
  // CHECK: %[[LOSS:.*]] = ech.map cast %[[TOTAL]]#0 : {{.*}} -> !ech.tensor<[], f32>
  // CHECK: ech.report loss "loss", %[[LOSS]]
  // CHECK: ech.gradient @w, %[[TOTAL]]#1
  ech.report loss "loss", %l : <[], f32>
  ech.gradient @w, %d : <[in=3], f32>
}
// Evaluation: batches until the held-out set ends; samples that only fill the last one are in no sum; what the sums
// become follows the loop.
// CHECK: ech.input @"valid samples" -1 : !ech.tensor<[batch=8], i1>
// CHECK-LABEL: ech.step @evaluate
ech.step @evaluate {
  // CHECK: %[[SAMPLES:.*]] = ech.scalar "samples"
  // CHECK: %[[TOTAL:.*]] = ech.repeat "batches" = 0 time
  // CHECK: %[[VALID:.*]] = ech.read @"valid samples"
  // CHECK: %[[Y:.*]] = ech.dot
  // CHECK: %[[KEPT:.*]] = ech.map select %[[VALID]], %[[Y]]
  // CHECK: %[[SUM:.*]] = ech.reduce sum %[[KEPT]] over ["batch"]
  // CHECK: %[[WIDE:.*]] = ech.map cast %[[SUM]] : {{.*}} -> !ech.tensor<[], f64>
  // CHECK: ech.yield sum(%[[WIDE]]
  // CHECK: %[[ALL:.*]] = ech.map cast %[[TOTAL]] : {{.*}} -> !ech.tensor<[], f32>
  // CHECK: %[[MEAN:.*]] = ech.map div %[[ALL]], %[[SAMPLES]]
  // CHECK: ech.report metric "mean", %[[MEAN]]
  %x = ech.read @x : <[batch=8, in=3], f32>
  %w = ech.read @w : <[in=3], f32>
  %y = ech.dot %x, %w over ["in"] : (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>) -> !ech.tensor<[batch=8], f32>
  %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  %n = ech.count over ["batch"] = [8] : <[], f32>
  %l = ech.map div %s, %n : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
  ech.report metric "mean", %l : <[], f32>
}
}
