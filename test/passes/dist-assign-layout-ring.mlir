// Keys and values of attention go round the mesh axes of which dist.ring says so: they come in split along `past`, and so
// leave their derivatives. A mask or bias is whole along `past`, and split along the queries where it has them; the
// derivative of a bias without is a sum. Where the operation
// is divided along another axis first, nothing goes round.
// RUN: echelon-opt %s --split-input-file --dist-assign-layout | FileCheck %s

// CHECK-LABEL: ech.step @train
// CHECK:       %[[OFTEN:.*]] = dist.convert %{{.*}} -> <[past=8], f32, #dist.state<cp = whole>>
// CHECK-NEXT:  ech.attention %{{.*}} bias %[[OFTEN]] {causal, dist.ring = "cp", ech.why = "split seq, past over cp with ring: attention
// CHECK-SAME:    (!ech.tensor<[seq=8, key=2], f32, #dist.state<cp = split seq>>, !ech.tensor<[past=8, key=2], f32, #dist.state<cp = split past>>, !ech.tensor<[past=8, key=2], f32, #dist.state<cp = split past>>, !ech.tensor<[past=8], f32, #dist.state<cp = whole>>) -> (!ech.tensor<[seq=8, key=2], f32, #dist.state<cp = split seq>>
// CHECK-NEXT:  ech.attention_grad {{.*}}dist.ring = "cp"
// CHECK-SAME:    -> (!ech.tensor<[seq=8, key=2], f32, #dist.state<cp = split seq>>, !ech.tensor<[past=8, key=2], f32, #dist.state<cp = split past>>, !ech.tensor<[past=8, key=2], f32, #dist.state<cp = split past>>, !ech.tensor<[past=8], f32, #dist.state<cp = sum>>)
!q = !ech.tensor<[seq=8, key=2], f32>
!k = !ech.tensor<[past=8, key=2], f32>
!l = !ech.tensor<[seq=8], f32>
!b = !ech.tensor<[past=8], f32>
module attributes {dist.mesh = #dist.mesh<cp = 2 [seq, past]>, dist.ring = ["cp"]} {
  ech.variable param @q : !q = constant(0.0, 0.0)
  ech.variable param @k : !k = constant(0.0, 0.0)
  ech.variable param @b : !b = constant(0.0, 0.0)
  ech.step @train {
    %q = ech.read @q : !q
    %k = ech.read @k : !k
    %b = ech.read @b : !b
    %y, %m, %l = ech.attention %q, %k, %k bias %b {causal, query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !k, !k, !b) -> (!q, !l, !l)
    %dq, %dk, %dv, %db = ech.attention_grad %y, %q, %k, %k, %y, %m, %l bias %b {causal, query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !q, !k, !k, !q, !l, !l, !b) -> (!q, !k, !k, !b)
    ech.write @q, %dq : !q
    ech.write @k, %dk : !k
    ech.write @b, %db : !b
  }
}

// -----

// CHECK-LABEL: ech.step @beside
// CHECK:       ech.attention {{.*}} {dist.ring = "cp"
// CHECK:       ech.attention
// CHECK-NOT:   dist.ring
// CHECK-SAME:    <[past=8, other=2, key=2], f32, #dist.state<cp = split other>>
!q = !ech.tensor<[seq=8, key=2], f32>
!k = !ech.tensor<[past=8, key=2], f32>
!l = !ech.tensor<[seq=8], f32>
!qo = !ech.tensor<[seq=8, other=2, key=2], f32>
!ko = !ech.tensor<[past=8, other=2, key=2], f32>
!lo = !ech.tensor<[seq=8, other=2], f32>
module attributes {dist.mesh = #dist.mesh<cp = 2 [other, seq, past]>, dist.ring = ["cp"]} {
  ech.variable param @q : !q = constant(0.0, 0.0)
  ech.variable param @k : !k = constant(0.0, 0.0)
  ech.variable param @qo : !qo = constant(0.0, 0.0)
  ech.variable param @ko : !ko = constant(0.0, 0.0)
  ech.step @beside {
    %q = ech.read @q : !q
    %k = ech.read @k : !k
    %y, %m, %l = ech.attention %q, %k, %k {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !k, !k) -> (!q, !l, !l)
    ech.write @q, %y : !q
    %qo = ech.read @qo : !qo
    %ko = ech.read @ko : !ko
    %yo, %mo, %lo = ech.attention %qo, %ko, %ko {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!qo, !ko, !ko) -> (!qo, !lo, !lo)
    ech.write @qo, %yo : !qo
  }
}
