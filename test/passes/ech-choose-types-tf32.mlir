// RUN: echelon-opt --ech-choose-types --split-input-file %s | FileCheck %s
// In tf32 products take rounded operands, which each block and pass makes for itself; nothing else changes.

!x = !ech.tensor<[batch=8, embed=4], f32>
!w = !ech.tensor<[embed=4, ff=6], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
!s = !ech.tensor<[], f32>
!layers = !ech.tensor<[layer=3, embed=4, ff=6], f32>
module {
run.precision tf32
ech.input @x 0 : !x below 0
ech.variable param @w : !w = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[X:.*]] = ech.read @x
  // CHECK: %[[W:.*]] = ech.read @w
  %x = ech.read @x : <[batch=8, embed=4], f32>
  %w = ech.read @w : <[embed=4, ff=6], f32>
  // CHECK-NEXT: %[[RX:.*]] = ech.map round_tf32 %[[X]] : (!ech.tensor<[batch=8, embed=4], f32>) -> !ech.tensor<[batch=8, embed=4], f32>
  // CHECK-NEXT: %[[RW:.*]] = ech.map round_tf32 %[[W]]
  // CHECK-NEXT: %[[H:.*]] = ech.dot %[[RX]], %[[RW]] over ["embed"]
  %h = ech.dot %x, %w over ["embed"] : (!x, !w) -> !h
  // What is no product takes a value as it is.
  // CHECK-NEXT: %[[A:.*]] = ech.map relu %[[H]]
  %a = ech.map relu %h : (!h) -> !h
  // One rounded operand for several products.
  // CHECK-NEXT: %[[RA:.*]] = ech.map round_tf32 %[[A]]
  // CHECK-NEXT: %[[D:.*]] = ech.dot %[[RA]], %[[RW]] over ["ff"]
  %d = ech.dot %a, %w over ["ff"] : (!h, !w) -> !x
  // CHECK-NEXT: ech.reduce sum %[[D]]
  %l = ech.reduce sum %d over ["batch", "embed"] : (!x) -> !s
  ech.report loss "loss", %l : !s
  // CHECK: %[[AGAIN:.*]] = ech.map round_tf32 %[[X]] {ech.phase = "backward"}
  // CHECK-NEXT: %[[G:.*]] = ech.map round_tf32 %[[A]] {ech.phase = "backward"}
  // CHECK-NEXT: %[[DW:.*]] = ech.dot %[[AGAIN]], %[[G]] over ["batch"]
  // CHECK-NEXT: ech.write @w, %[[DW]]
  %dw = ech.dot %x, %a over ["batch"] {ech.phase = "backward"} : (!x, !h) -> !w
  ech.write @w, %dw {ech.phase = "update"} : <[embed=4, ff=6], f32>
}

// CHECK-LABEL: ech.step @evaluate
ech.step @evaluate {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  %w = ech.constant 0.5 : !layers
  // CHECK: ech.repeat
  // CHECK-NEXT: ^bb0(%[[XI:.*]]: {{.*}}, %[[WI:.*]]: {{.*}}):
  // CHECK-NEXT: %[[RXI:.*]] = ech.map round_tf32 %[[XI]]
  // CHECK-NEXT: %[[RWI:.*]] = ech.map round_tf32 %[[WI]]
  // CHECK-NEXT: ech.dot %[[RXI]], %[[RWI]]
  %y = ech.repeat "layer" = 3 carry(%x : !x) slice(%w : !layers) -> (!x) {
  ^bb0(%xi: !x, %wi: !w):
    %h = ech.dot %xi, %wi over ["embed"] : (!x, !w) -> !h
    %next = ech.dot %h, %wi over ["ff"] : (!h, !w) -> !x
    ech.yield carry(%next : !x)
  }
  %e = ech.reduce sum %y over ["batch", "embed"] : (!x) -> !s
  ech.report metric "e", %e : !s
}
}

// -----

// Of attention what is multiplied: not its result and statistics.
!q = !ech.tensor<[batch=2, seq=4, key=3], f32>
!k = !ech.tensor<[batch=2, past=4, key=3], f32>
!m = !ech.tensor<[batch=2, seq=4], f32>
module {
run.precision tf32
ech.input @q 0 : !q below 0
ech.input @k 1 : !k below 0
// CHECK-LABEL: ech.step @evaluate
ech.step @evaluate {
  %q = ech.read @q : <[batch=2, seq=4, key=3], f32>
  %k = ech.read @k : <[batch=2, past=4, key=3], f32>
  // CHECK: %[[Q:.*]] = ech.map round_tf32
  // CHECK: %[[K:.*]] = ech.map round_tf32
  // CHECK-NEXT: %[[Y:.*]], %[[MAX:.*]], %[[SUM:.*]] = ech.attention %[[Q]], %[[K]], %[[K]]
  %y, %max, %sum = ech.attention %q, %k, %k {query = "seq", past = "past", key = "key", scale = 1.0} : (!q, !k, !k) -> (!q, !m, !m)
  // CHECK-NEXT: %[[DY:.*]] = ech.map round_tf32 %[[Y]]
  // CHECK-NEXT: ech.attention_grad %[[DY]], %[[Q]], %[[K]], %[[K]], %[[Y]], %[[MAX]], %[[SUM]]
  %dq, %dk, %dv = ech.attention_grad %y, %q, %k, %k, %y, %max, %sum {query = "seq", past = "past", key = "key", scale = 1.0} : (!q, !q, !k, !k, !q, !m, !m) -> (!q, !k, !k)
}
}
