// RUN: echelon-opt --ech-differentiate --ech-simplify %s | FileCheck %s

// The result of a norm over channels is not kept: the backward loop makes it again of what was normalized, which comes in
// as the forward loop had it: kept (%x), or from outside (%b).
ech.variable param @w : !ech.tensor<[layer=3, e=2], f32> = normal(0.0, 0.02)
ech.variable param @b : !ech.tensor<[n=4, e=2], f32> = normal(0.0, 0.02)
ech.step @train {
  %w = ech.read @w : <[layer=3, e=2], f32>
  %b = ech.read @b : <[n=4, e=2], f32>
  // CHECK: %[[B:.*]] = ech.read @b
  // CHECK: %{{.*}}, %[[KEPT:.*]]:8 = ech.repeat "layer" = 3 carry(%[[B]]
  // CHECK-NEXT: ^bb0(%[[X:.*]]: {{.*}}, %{{.*}}: {{.*}}):
  // CHECK: %{{.*}}, %[[RSTD:.*]], %[[MEAN:.*]], %{{.*}}, %[[LOW:.*]] = ech.normalize %[[X]]
  // CHECK: %{{.*}}, %[[RSTD_B:.*]], %[[MEAN_B:.*]], %{{.*}}, %[[LOW_B:.*]] = ech.normalize %[[B]]
  // CHECK: %[[A:.*]] = ech.map add
  // CHECK: ech.yield carry({{.*}}) stack(%[[A]], %[[MEAN_B]], %[[LOW_B]], %[[RSTD_B]], %[[X]], %[[MEAN]], %[[LOW]], %[[RSTD]] :
  %y = ech.repeat "layer" = 3 carry(%b : !ech.tensor<[n=4, e=2], f32>) slice(%w : !ech.tensor<[layer=3, e=2], f32>) -> (!ech.tensor<[n=4, e=2], f32>) {
  ^bb0(%x: !ech.tensor<[n=4, e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %s, %rs, %ms, %vs, %ls = ech.normalize %x over ["n"] : (!ech.tensor<[n=4, e=2], f32>) -> (!ech.tensor<[n=4, e=2], f32>, !ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>)
    %t, %rt, %mt, %vt, %lt = ech.normalize %b over ["n"] : (!ech.tensor<[n=4, e=2], f32>) -> (!ech.tensor<[n=4, e=2], f32>, !ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>)
    %a = ech.map add %s, %t : (!ech.tensor<[n=4, e=2], f32>, !ech.tensor<[n=4, e=2], f32>) -> !ech.tensor<[n=4, e=2], f32>
    %m = ech.map mul %a, %wi : (!ech.tensor<[n=4, e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[n=4, e=2], f32>
    ech.yield carry(%m : !ech.tensor<[n=4, e=2], f32>)
  }
  // CHECK: ech.repeat "layer" = 3 reverse
  // CHECK-NEXT: ^bb0(%{{.*}}: {{.*}}, %{{.*}}: {{.*}}, %{{.*}}: {{.*}}, %[[MEAN_THERE:.*]]: {{.*}}, %[[LOW_THERE:.*]]: {{.*}}, %[[RSTD_THERE:.*]]: {{.*}}, %[[X_BACK:.*]]: {{.*}}, %[[MEAN_BACK:.*]]: {{.*}}, %[[LOW_BACK:.*]]: {{.*}}, %[[RSTD_BACK:.*]]: {{.*}}):
  // CHECK: %[[C_B:.*]] = ech.map sub %[[B]], %[[MEAN_THERE]]
  // CHECK: %[[M_B:.*]] = ech.map mul %[[C_B]], %[[RSTD_THERE]]
  // CHECK: %[[L_B:.*]] = ech.map mul %[[LOW_THERE]], %[[RSTD_THERE]]
  // CHECK: %[[T:.*]] = ech.map sub %[[M_B]], %[[L_B]]
  // CHECK: %[[C:.*]] = ech.map sub %[[X_BACK]], %[[MEAN_BACK]]
  // CHECK: %[[M:.*]] = ech.map mul %[[C]], %[[RSTD_BACK]]
  // CHECK: %[[L:.*]] = ech.map mul %[[LOW_BACK]], %[[RSTD_BACK]]
  // CHECK: %[[S:.*]] = ech.map sub %[[M]], %[[L]]
  // CHECK-DAG: ech.normalize_grad %{{.*}}, %[[T]], %[[RSTD_THERE]]
  // CHECK-DAG: ech.normalize_grad %{{.*}}, %[[S]], %[[RSTD_BACK]]
  %l = ech.reduce sum %y over ["n", "e"] : (!ech.tensor<[n=4, e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
