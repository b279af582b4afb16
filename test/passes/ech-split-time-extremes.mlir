// RUN: echelon-opt --ech-split-time --split-input-file %s | FileCheck %s

// A maximum over the samples is carried from pass to pass: it starts below every number.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 2} {
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[LOWEST:.*]] = ech.constant 0xFFF0000000000000 : <[in=3], f32>
  // CHECK: %[[LARGEST:.*]], %{{.*}} = ech.repeat "micro" = 2 time carry(%[[LOWEST]] :
  // CHECK: ^bb0(%[[SOFAR:[^:]*]]: !ech.tensor<[in=3], f32>, %[[X:[^:]*]]: !ech.tensor<[batch=4, in=3], f32>):
  // CHECK: %[[HERE:.*]] = ech.reduce max %[[X]] over ["batch"]
  // CHECK: %[[NEXT:.*]] = ech.map max %[[SOFAR]], %[[HERE]]
  // CHECK: ech.yield carry(%[[NEXT]] : {{.*}}) sum(
  // CHECK: ech.reduce sum %[[LARGEST]] over ["in"]
  %x = ech.read @x : <[batch=8, in=3], f32>
  %m = ech.reduce max %x over ["batch"] : (!ech.tensor<[batch=8, in=3], f32>) -> !ech.tensor<[in=3], f32>
  %s = ech.reduce sum %m over ["in"] : (!ech.tensor<[in=3], f32>) -> !ech.tensor<[], f32>
  %l = ech.reduce sum %x over ["batch", "in"] : (!ech.tensor<[batch=8, in=3], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
  ech.report metric "largest", %s : <[], f32>
}
}

// -----

// In evaluation, samples that only fill the last batch are no minimum either.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 1} {
ech.input @n 0 : !ech.tensor<[batch=8], i32> below 0
// CHECK-LABEL: ech.step @evaluate
ech.step @evaluate {
  // CHECK: %[[MOST:.*]] = ech.constant 0x41DFFFFFFFC00000 : <[], i32>
  // CHECK: %[[LEAST:.*]] = ech.repeat "batches" = 0 time carry(%[[MOST]] :
  // CHECK: %[[VALID:.*]] = ech.read @"valid samples"
  // CHECK: %[[NOTHING:.*]] = ech.constant 0x41DFFFFFFFC00000 : <[], i32>
  // CHECK: %[[KEPT:.*]] = ech.map select %[[VALID]], %{{.*}}, %[[NOTHING]]
  // CHECK: ech.reduce min %[[KEPT]] over ["batch"]
  %n = ech.read @n : <[batch=8], i32>
  %m = ech.reduce min %n over ["batch"] : (!ech.tensor<[batch=8], i32>) -> !ech.tensor<[], i32>
  %r = ech.map cast %m : (!ech.tensor<[], i32>) -> !ech.tensor<[], f32>
  ech.report metric "least", %r : <[], f32>
}
}
