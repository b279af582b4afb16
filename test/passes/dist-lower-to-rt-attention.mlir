// The kernel of attention walks groups of axes in one stride each. A bias that has some axes of a group only, here head
// of kind and head, is repeated along the others first; its cotangent is computed for each and added up.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!q = !ech.tensor<[batch=2, kind=2, head=3, seq=4, key=8], f32>
!k = !ech.tensor<[batch=2, kind=2, head=3, past=4, key=8], f32>
!b = !ech.tensor<[head=3, seq=4, past=4], f32>
!l = !ech.tensor<[batch=2, kind=2, head=3, seq=4], f32>
ech.variable param @q : !q = constant(0.0, 0.0)
ech.variable param @k : !k = constant(0.0, 0.0)
ech.variable param @b : !b = constant(0.0, 0.0)
// CHECK-LABEL: rt.function @train
// CHECK-DAG:   %[[B:.*]] = rt.alloc state of @b
// CHECK:       %[[ALL:.*]] = rt.alloc work : <[kind=2, head=3, seq=4, past=4], f32>
// CHECK-NEXT:  rt.fused ["kind", "head", "seq", "past"] = [2, 3, 4, 4](%[[B]]) -> ["store"](%[[ALL]])
// CHECK:       rt.attention {{.*}} bias %[[ALL]] : {{.*}} bias_strides [0, 0, 16, 4, 1]
// CHECK:       rt.attention_grad %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} dbias %[[DB:[0-9]+]] :
// CHECK-NEXT:  %[[SUM:.*]] = rt.alloc work : <[head=3, seq=4, past=4], f32>
// CHECK-NEXT:  rt.fused ["kind", "head", "seq", "past"] = [2, 3, 4, 4](%[[DB]]) -> ["sum"](%[[SUM]])
ech.step @train {
  %q = ech.read @q : !q
  %k = ech.read @k : !k
  %b = ech.read @b : !b
  %y, %m, %l = ech.attention %q, %k, %k bias %b {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !k, !k, !b) -> (!q, !l, !l)
  %dq, %dk, %dv, %db = ech.attention_grad %y, %q, %k, %k, %y, %m, %l bias %b {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !q, !k, !k, !q, !l, !l, !b) -> (!q, !k, !k, !b)
  ech.write @b, %db : !b
}

// Values that lack an axis of a group are repeated, and their cotangent is added up, too.
!v = !ech.tensor<[batch=2, head=3, past=4, key=8], f32>
ech.variable param @v : !v = constant(0.0, 0.0)
// CHECK-LABEL: rt.function @values
// CHECK:       rt.fused ["batch", "kind", "head", "past", "key"] = [2, 2, 3, 4, 8](%[[V:.*]]) -> ["store"](%[[VS:.*]])
// CHECK:       rt.attention %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %[[VS]] of
// CHECK:       rt.attention_grad %{{[0-9]+}}, %{{[0-9]+}}, %[[DV:[0-9]+]], %
// CHECK-NEXT:  %[[SUM:.*]] = rt.alloc work : <[batch=2, head=3, past=4, key=8], f32>
// CHECK-NEXT:  rt.fused ["batch", "kind", "head", "past", "key"] = [2, 2, 3, 4, 8](%[[DV]]) -> ["sum"](%[[SUM]])
ech.step @values {
  %q = ech.read @q : !q
  %k = ech.read @k : !k
  %v = ech.read @v : !v
  %y, %m, %l = ech.attention %q, %k, %v {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !k, !v) -> (!q, !l, !l)
  %dq, %dk, %dv = ech.attention_grad %y, %q, %k, %v, %y, %m, %l {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !q, !k, !v, !q, !l, !l) -> (!q, !k, !v)
  ech.write @v, %dv : !v
}
