// RUN: echelon-opt %s --dist-fuse-epilogues --split-input-file | FileCheck %s
// What was kept in two bytes is read in two bytes by attention and cross-entropy. Products that are none of matrices, or
// whose result someone needs in f32, stay as they are.

// Attention reads what was kept, and gives what is rounded anyway; statistics stay f32. So does its gradient, whose
// results are read rounded, one under another name of its axis.
!q = !ech.tensor<[seq=4, key=8], bf16, #dist.state<dp = whole>>
!k = !ech.tensor<[past=6, key=8], bf16, #dist.state<dp = whole>>
!wq = !ech.tensor<[seq=4, key=8], f32, #dist.state<dp = whole>>
!wk = !ech.tensor<[past=6, key=8], f32, #dist.state<dp = whole>>
!wr = !ech.tensor<[time=6, key=8], f32, #dist.state<dp = whole>>
!r = !ech.tensor<[time=6, key=8], bf16, #dist.state<dp = whole>>
!m = !ech.tensor<[seq=4], f32, #dist.state<dp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 []>} {
ech.input @q 0 : !q below 0
ech.input @k 1 : !k below 0
ech.variable state @y : !q = constant(0.0, 0.0)
ech.variable state @d : !k = constant(0.0, 0.0)
ech.variable state @r : !r = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @attention
ech.step @attention {
  // CHECK-NEXT: %[[Q:.*]] = ech.read @q
  // CHECK-NEXT: %[[K:.*]] = ech.read @k
  %q = ech.read @q : !q
  %k = ech.read @k : !k
  %wq = ech.map cast %q : (!q) -> !wq
  %wk = ech.map cast %k : (!k) -> !wk
  // CHECK-NEXT: %[[Y:.*]], %[[MAX:.*]], %[[SUM:.*]] = ech.attention %[[Q]], %[[K]], %[[K]] {{.*}} -> (!ech.tensor<[seq=4, key=8], bf16, {{[^,]*}}, !ech.tensor<[seq=4], f32,
  %y, %max, %sum = ech.attention %wq, %wk, %wk {query = "seq", past = "past", key = "key", scale = 1.0} : (!wq, !wk, !wk) -> (!wq, !m, !m)
  %ry = ech.map cast %y : (!wq) -> !q
  // CHECK-NEXT: ech.write @y, %[[Y]]
  ech.write @y, %ry : !q
  %wy = ech.map cast %ry : (!q) -> !wq
  // CHECK-NEXT: %{{.*}}, %[[DK:.*]], %[[DV:.*]] = ech.attention_grad %[[Y]], %[[Q]], %[[K]], %[[K]], %[[Y]], %[[MAX]], %[[SUM]]
  %dq, %dk, %dv = ech.attention_grad %wy, %wq, %wk, %wk, %wy, %max, %sum {query = "seq", past = "past", key = "key", scale = 1.0} : (!wq, !wq, !wk, !wk, !wq, !m, !m) -> (!wq, !wk, !wk)
  %rdk = ech.map cast %dk : (!wk) -> !k
  // CHECK-NEXT: ech.write @d, %[[DK]]
  ech.write @d, %rdk : !k
  %renamed = ech.relabel %dv [["past"]] -> [["time"]] : (!wk) -> !wr
  %rr = ech.map cast %renamed : (!wr) -> !r
  // CHECK-NEXT: %[[RENAMED:.*]] = ech.relabel %[[DV]] {{.*}} -> !ech.tensor<[time=6, key=8], bf16,
  // CHECK-NEXT: ech.write @r, %[[RENAMED]]
  ech.write @r, %rr : !r
}
}

// -----

// A bias is added to scores in f32. A result that nobody rounds is read in f32, and then operands are, too.
!q = !ech.tensor<[seq=4, key=8], bf16, #dist.state<dp = whole>>
!k = !ech.tensor<[past=6, key=8], bf16, #dist.state<dp = whole>>
!wq = !ech.tensor<[seq=4, key=8], f32, #dist.state<dp = whole>>
!wk = !ech.tensor<[past=6, key=8], f32, #dist.state<dp = whole>>
!b = !ech.tensor<[seq=4, past=6], f32, #dist.state<dp = whole>>
!m = !ech.tensor<[seq=4], f32, #dist.state<dp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 []>} {
ech.input @q 0 : !q below 0
ech.input @k 1 : !k below 0
ech.variable param @b : !b = constant(0.0, 0.0)
ech.variable state @y : !q = constant(0.0, 0.0)
ech.variable state @z : !wq = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @scores
ech.step @scores {
  %q = ech.read @q : !q
  %k = ech.read @k : !k
  %b = ech.read @b : !b
  // CHECK: %[[WQ:.*]] = ech.map cast
  // CHECK-NEXT: %[[WK:.*]] = ech.map cast
  %wq = ech.map cast %q : (!q) -> !wq
  %wk = ech.map cast %k : (!k) -> !wk
  // CHECK-NEXT: ech.attention %[[WQ]], %[[WK]], %[[WK]] bias
  %y, %max, %sum = ech.attention %wq, %wk, %wk bias %b {query = "seq", past = "past", key = "key", scale = 1.0} : (!wq, !wk, !wk, !b) -> (!wq, !m, !m)
  %ry = ech.map cast %y : (!wq) -> !q
  ech.write @y, %ry : !q
  // CHECK: ech.attention %[[WQ]], %[[WK]], %[[WK]] {
  %z, %max2, %sum2 = ech.attention %wq, %wk, %wk {query = "seq", past = "past", key = "key", scale = 1.0} : (!wq, !wk, !wk) -> (!wq, !m, !m)
  ech.write @z, %z : !wq
}
}

// -----

// Cross-entropy reads logits as they were kept, where labels are classes; of labels that are weights it reads f32.
!x = !ech.tensor<[batch=4, class=6], bf16, #dist.state<dp = whole>>
!w = !ech.tensor<[batch=4, class=6], f32, #dist.state<dp = whole>>
!y = !ech.tensor<[batch=4], i32, #dist.state<dp = whole>>
!l = !ech.tensor<[batch=4], f32, #dist.state<dp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 []>} {
ech.input @x 0 : !x below 0
ech.input @y 1 : !y below 6
ech.input @shares 2 : !w below 0
ech.variable state @l : !l = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @classes
ech.step @classes {
  // CHECK: %[[X:.*]] = ech.read @x
  %x = ech.read @x : !x
  %y = ech.read @y : !y
  %w = ech.map cast %x : (!x) -> !w
  // CHECK: ech.cross_entropy %[[X]], %{{.*}} over ["class"] : ({{.*}}bf16,
  %l, %shift, %log = ech.cross_entropy %w, %y over ["class"] : (!w, !y) -> (!l, !l, !l)
  ech.write @l, %l : !l
}
// CHECK-LABEL: ech.step @weights
ech.step @weights {
  %x = ech.read @x : !x
  %y = ech.read @shares : !w
  // CHECK: %[[W:.*]] = ech.map cast
  %w = ech.map cast %x : (!x) -> !w
  // CHECK: ech.cross_entropy %[[W]], %{{.*}} over ["class"] : ({{.*}}f32,
  %l, %shift, %log = ech.cross_entropy %w, %y over ["class"] : (!w, !w) -> (!l, !l, !l)
  ech.write @l, %l : !l
}
}

// -----

// What is added along rows is no bias of columns; a product of the update stays f32; one whose operand has no axis of its
// own is no product of matrices.
!x = !ech.tensor<[batch=4, embed=6], bf16, #dist.state<dp = whole>>
!w = !ech.tensor<[embed=6, ff=8], bf16, #dist.state<dp = whole>>
!v = !ech.tensor<[embed=6], bf16, #dist.state<dp = whole>>
!y = !ech.tensor<[batch=4, ff=8], f32, #dist.state<dp = whole>>
!r = !ech.tensor<[batch=4, ff=8], bf16, #dist.state<dp = whole>>
!rows = !ech.tensor<[batch=4], f32, #dist.state<dp = whole>>
!vr = !ech.tensor<[batch=4], bf16, #dist.state<dp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 []>} {
ech.input @x 0 : !x below 0
ech.input @w 1 : !w below 0
ech.input @v 2 : !v below 0
ech.variable param @rows : !rows = constant(0.0, 0.0)
ech.variable state @r : !r = constant(0.0, 0.0)
ech.variable state @s : !vr = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @none
// CHECK-NOT: dist.linear
ech.step @none {
  %x = ech.read @x : !x
  %w = ech.read @w : !w
  %v = ech.read @v : !v
  %rows = ech.read @rows : !rows
  %1 = ech.dot %x, %w over ["embed"] : (!x, !w) -> !y
  %2 = ech.map add %1, %rows : (!y, !rows) -> !y
  %3 = ech.map cast %2 : (!y) -> !r
  ech.write @r, %3 : !r
  %4 = ech.dot %x, %v over ["embed"] : (!x, !v) -> !rows
  %5 = ech.map cast %4 : (!rows) -> !vr
  ech.write @s, %5 : !vr
  %6 = ech.dot %x, %w over ["embed"] {ech.phase = "update"} : (!x, !w) -> !y
  %7 = ech.map cast %6 {ech.phase = "update"} : (!y) -> !r
  ech.write @r, %7 {ech.phase = "update"} : !r
}
}
