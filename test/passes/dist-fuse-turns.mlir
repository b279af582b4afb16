// RUN: echelon-opt %s --dist-fuse | FileCheck %s
// A pipeline's backward pass runs in the turns of its forward pass: what it needs comes before both, and is in no
// loop with what is made of the forward pass. Here a mean's divisor is needed; the mean makes it again.
!s = !ech.tensor<[], f32, #dist.state<pp = whole>>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer]>} {
ech.variable state @count : !s = constant(0.0, 0.0)
ech.variable state @loss : !s = constant(0.0, 0.0)
ech.variable state @gradient : !s = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[COUNT:.*]] = ech.read @count
  %count = ech.read @count : !s
  %one = ech.constant 1.000000e+00 : !s
  // CHECK: %[[SUM:.*]] = ech.repeat "micro" = 4 time
  %sum = ech.repeat "micro" = 4 time -> () sum (!s) {
    %x = ech.constant 2.000000e+00 : !s
    ech.yield sum(%x : !s)
  } {dist.turns = {buffers = 1 : i64, over = "pp", part = "forward", schedule = "1f1b", slots = 2 : i64}}
  // CHECK: %[[NEEDED:.*]] = rt.group(%[[COUNT]]) {
  // CHECK: = ech.map  max
  // CHECK-NEXT: %[[SCALE:.*]] = ech.map  div
  // CHECK-NEXT: rt.yield %[[SCALE]] :
  %divisor = ech.map max %count, %one : (!s, !s) -> !s
  %scale = ech.map div %one, %divisor : (!s, !s) -> !s
  // CHECK: %[[MEAN:.*]] = rt.group(%[[COUNT]], %[[SUM]]) {
  // CHECK: ech.map  div
  // CHECK: ech.write @loss, %[[MEAN]]
  %mean = ech.map div %sum, %divisor : (!s, !s) -> !s
  ech.write @loss, %mean : !s
  // CHECK: ech.repeat "micro" = 4 time
  %gradient = ech.repeat "micro" = 4 time -> () sum (!s) {
    // CHECK: ech.yield sum(%[[NEEDED]] :
    ech.yield sum(%scale : !s)
  } {dist.turns = {buffers = 1 : i64, over = "pp", part = "backward", schedule = "1f1b", slots = 2 : i64}}
  ech.write @gradient, %gradient : !s
}
}
