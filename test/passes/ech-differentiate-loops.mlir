// RUN: echelon-opt --ech-differentiate --ech-simplify %s | FileCheck %s

// A stack of layers: the forward loop keeps what the backward one reads, and no more. The backward one runs the other way;
// the stacked parameter's gradient comes out stacked, the shared one's as a sum over the iterations, the mask is made
// again.
ech.variable param @w : !ech.tensor<[layer=3, e=2], f32> = normal(0.0, 0.02)
ech.variable param @b : !ech.tensor<[e=2], f32> = normal(0.0, 0.02)
ech.step @train {
  %w = ech.read @w : <[layer=3, e=2], f32>
  %b = ech.read @b : <[e=2], f32>
  // CHECK: %[[W:.*]] = ech.read @w
  // CHECK: %[[B:.*]] = ech.read @b
  // CHECK: %[[Y:.*]], %[[KEPT:.*]]:2 = ech.repeat "layer" = 3 carry(%[[B]] {{.*}} slice(%[[W]]
  // CHECK-NEXT: ^bb0(%[[X:.*]]: {{.*}}, %[[WI:.*]]: {{.*}}):
  // CHECK: %[[MASKED:.*]] = ech.map select
  // CHECK: ech.yield carry({{.*}}) stack(%[[MASKED]], %[[X]] :
  %y = ech.repeat "layer" = 3 carry(%b : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=3, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%x: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %p = ech.map mul %x, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %r = ech.random uniform "drop" (0.0, 1.0) : <[e=2], f32>
    %half = ech.constant 0.5 : <[], f32>
    %m = ech.map lt %r, %half : (!ech.tensor<[e=2], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[e=2], i1>
    %zero = ech.constant 0.0 : <[], f32>
    %k = ech.map select %m, %p, %zero : (!ech.tensor<[e=2], i1>, !ech.tensor<[e=2], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[e=2], f32>
    %n = ech.map mul %k, %b : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  // CHECK: %[[DX:.*]], %[[DW:.*]], %[[DB:.*]] = ech.repeat "layer" = 3 reverse carry({{.*}}) slice(%[[KEPT]]#0, %[[W]], %[[KEPT]]#1 :
  // CHECK-NEXT: ^bb0(%[[DY:.*]]: {{.*}}, %[[MASKED_BACK:.*]]: {{.*}}, %[[W_BACK:.*]]: {{.*}}, %[[X_BACK:.*]]: {{.*}}):
  // CHECK: %[[AGAIN:.*]] = ech.random uniform "drop"
  // CHECK: %[[MASK:.*]] = ech.map lt %[[AGAIN]]
  // CHECK-DAG: %[[DP:.*]] = ech.map select %[[MASK]]
  // CHECK-DAG: %[[DB_HERE:.*]] = ech.map mul %[[DY]], %[[MASKED_BACK]]
  // CHECK-DAG: %[[DX_HERE:.*]] = ech.map mul %[[DP]], %[[W_BACK]]
  // CHECK-DAG: %[[DW_HERE:.*]] = ech.map mul %[[DP]], %[[X_BACK]]
  // CHECK: ech.yield carry(%[[DX_HERE]] : {{.*}}) stack(%[[DW_HERE]] : {{.*}}) sum(%[[DB_HERE]] :
  // CHECK: %[[BOTH:.*]] = ech.map add %[[DX]], %[[DB]]
  // CHECK: ech.gradient @w, %[[DW]]
  // CHECK: ech.gradient @b, %[[BOTH]]
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
