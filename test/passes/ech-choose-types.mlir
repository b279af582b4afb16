// RUN: echelon-opt --ech-choose-types %s | FileCheck %s
// What products take and what is kept has two bytes; sums that are not whole, gradients of parameters and losses do not.

!x = !ech.tensor<[batch=8, embed=4], f32>
!w = !ech.tensor<[embed=4, ff=6], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
!b = !ech.tensor<[ff=6], f32>
!s = !ech.tensor<[], f32>
!layers = !ech.tensor<[layer=3, embed=4, ff=6], f32>
module {
run.precision bf16
ech.input @x 0 : !x below 0
ech.variable param @w : !w = constant(0.0, 0.0)
ech.variable param @b : !b = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  %w = ech.read @w : <[embed=4, ff=6], f32>
  %b = ech.read @b : <[ff=6], f32>
  // Both operands, rounded; the sum in f32.
  // CHECK-DAG: %[[X:.*]] = ech.map cast %{{.*}} : (!ech.tensor<[batch=8, embed=4], f32>) -> !ech.tensor<[batch=8, embed=4], bf16>
  // CHECK-DAG: %[[W:.*]] = ech.map cast %{{.*}} : (!ech.tensor<[embed=4, ff=6], f32>) -> !ech.tensor<[embed=4, ff=6], bf16>
  // CHECK: %[[H:.*]] = ech.dot %[[X]], %[[W]] over ["embed"] : ({{.*}}bf16>, {{.*}}bf16>) -> !ech.tensor<[batch=8, ff=6], f32>
  %h = ech.dot %x, %w over ["embed"] : (!x, !w) -> !h
  // A sum goes on through an addition.
  // CHECK-NEXT: %[[Y:.*]] = ech.map add %[[H]], %{{.*}}f32
  %y = ech.map add %h, %b : (!h, !b) -> !h
  // What the backward pass needs again is kept in two bytes, and read so by all.
  // CHECK-NEXT: %[[A:.*]] = ech.map relu %[[Y]]
  // CHECK-NEXT: %[[KEPT:.*]] = ech.map cast %[[A]] : {{.*}} -> !ech.tensor<[batch=8, ff=6], bf16>
  %a = ech.map relu %y : (!h) -> !h
  // CHECK-NEXT: %[[D:.*]] = ech.dot %[[KEPT]], %[[W]] over ["ff"]
  // CHECK-NEXT: %[[BACK:.*]] = ech.map cast %[[D]] : {{.*}} -> !ech.tensor<[batch=8, embed=4], bf16>
  %d = ech.dot %a, %w over ["ff"] : (!h, !w) -> !x
  // CHECK-NEXT: %[[WIDE:.*]] = ech.map cast %[[BACK]] : {{.*}} -> !ech.tensor<[batch=8, embed=4], f32>
  // CHECK-NEXT: %[[E:.*]] = ech.map exp %[[WIDE]]
  %e = ech.map exp %d : (!x) -> !x
  // No product lies on the way to the loss: f32.
  // CHECK-NEXT: ech.reduce sum %[[E]] {{.*}} -> !ech.tensor<[], f32>
  %l = ech.reduce sum %e over ["batch", "embed"] : (!x) -> !s
  ech.report loss "loss", %l : !s
  // CHECK: %[[AGAIN:.*]] = ech.map cast %[[KEPT]] {ech.phase = "backward"} : {{.*}}bf16>) -> {{.*}}f32>
  // CHECK-NEXT: ech.map gt %[[AGAIN]]
  %zero = ech.constant 0.0 : <[], f32>
  %p = ech.map gt %a, %zero {ech.phase = "backward"} : (!h, !s) -> !ech.tensor<[batch=8, ff=6], i1>
  %g = ech.map select %p, %a, %zero {ech.phase = "backward"} : (!ech.tensor<[batch=8, ff=6], i1>, !h, !s) -> !h
  // The gradient of a parameter is never rounded. A copy of what is there in any case is not kept for the backward pass.
  // CHECK: %[[XAGAIN:.*]] = ech.map cast %{{.*}} {ech.phase = "backward"} : (!ech.tensor<[batch=8, embed=4], f32>) -> {{.*}}bf16>
  // CHECK: %[[DW:.*]] = ech.dot %[[XAGAIN]], %{{.*}} over ["batch"]
  // CHECK-NEXT: ech.write @w, %[[DW]] {ech.phase = "update"} : <[embed=4, ff=6], f32>
  %dw = ech.dot %x, %g over ["batch"] {ech.phase = "backward"} : (!x, !h) -> !w
  ech.write @w, %dw {ech.phase = "update"} : <[embed=4, ff=6], f32>
}

// What a loop carries and stacks for later is rounded in each iteration; what it sums is not.
// CHECK-LABEL: ech.step @evaluate
ech.step @evaluate {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  %w = ech.constant 0.5 : !layers
  // CHECK: ech.repeat "layer" = 3 carry(%{{.*}} : !ech.tensor<[batch=8, embed=4], bf16>) slice(%{{.*}} : !ech.tensor<[layer=3, embed=4, ff=6], f32>) -> (!ech.tensor<[batch=8, embed=4], bf16>) stack (!ech.tensor<[layer=3, batch=8, ff=6], bf16>) sum (!ech.tensor<[embed=4, ff=6], f32>)
  %y, %kept, %sum = ech.repeat "layer" = 3 carry(%x : !x) slice(%w : !layers) -> (!x) stack (!ech.tensor<[layer=3, batch=8, ff=6], f32>) sum (!w) {
  ^bb0(%xi: !x, %wi: !w):
    %h = ech.dot %xi, %wi over ["embed"] : (!x, !w) -> !h
    %a = ech.map relu %h : (!h) -> !h
    %d = ech.dot %a, %wi over ["ff"] : (!h, !w) -> !x
    %next = ech.map add %d, %xi : (!x, !x) -> !x
    %part = ech.map mul %wi, %wi : (!w, !w) -> !w
    // CHECK: ech.yield carry(%{{.*}} : !ech.tensor<[batch=8, embed=4], bf16>) stack(%{{.*}} : !ech.tensor<[batch=8, ff=6], bf16>) sum(%{{.*}} : !ech.tensor<[embed=4, ff=6], f32>)
    ech.yield carry(%next : !x) stack(%a : !h) sum(%part : !w)
  }
  %e = ech.reduce sum %y over ["batch", "embed"] : (!x) -> !s
  %k = ech.reduce sum %kept over ["layer", "batch", "ff"] : (!ech.tensor<[layer=3, batch=8, ff=6], f32>) -> !s
  %t = ech.reduce sum %sum over ["embed", "ff"] : (!w) -> !s
  ech.report metric "e", %e : !s
  ech.report metric "k", %k : !s
  ech.report metric "t", %t : !s
}

// What micro batches add up for a loss lies behind them: nothing multiplies it, so what leads to it stays f32, as without
// micro batches.
// CHECK-LABEL: ech.step @in_parts
ech.step @in_parts {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  %w = ech.read @w : <[embed=4, ff=6], f32>
  %b = ech.read @b : <[ff=6], f32>
  %parts = ech.relabel %x [["batch"]] -> [["micro", "batch"]] : (!x) -> !ech.tensor<[micro=2, batch=4, embed=4], f32>
  %l, %d = ech.repeat "micro" = 2 time slice(%parts : !ech.tensor<[micro=2, batch=4, embed=4], f32>) -> () sum (!s, !ech.tensor<[ff=6], f32>) {
  ^bb0(%xi: !ech.tensor<[batch=4, embed=4], f32>):
    // CHECK: %[[H:.*]] = ech.dot
    // CHECK-NEXT: %[[Y:.*]] = ech.map add %[[H]]
    // CHECK-NEXT: %[[E:.*]] = ech.map exp %[[Y]] : {{.*}}f32>) -> {{.*}}f32>
    // CHECK-NEXT: ech.reduce sum %[[E]] {{.*}}f32>
    %h = ech.dot %xi, %w over ["embed"] : (!ech.tensor<[batch=4, embed=4], f32>, !w) -> !ech.tensor<[batch=4, ff=6], f32>
    %y = ech.map add %h, %b : (!ech.tensor<[batch=4, ff=6], f32>, !b) -> !ech.tensor<[batch=4, ff=6], f32>
    %e = ech.map exp %y : (!ech.tensor<[batch=4, ff=6], f32>) -> !ech.tensor<[batch=4, ff=6], f32>
    %one = ech.reduce sum %e over ["batch", "ff"] : (!ech.tensor<[batch=4, ff=6], f32>) -> !s
    %back = ech.reduce sum %e over ["batch"] {ech.phase = "backward"} : (!ech.tensor<[batch=4, ff=6], f32>) -> !ech.tensor<[ff=6], f32>
    ech.yield sum(%one, %back : !s, !ech.tensor<[ff=6], f32>)
  }
  ech.report loss "loss", %l : !s
  ech.write @b, %d {ech.phase = "update"} : <[ff=6], f32>
}
}
