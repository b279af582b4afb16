// Attention whose keys and values go round: what is sent is dense; the next block arrives in a place of its own, of three
// ranks in two; runs of queries begin where their coordinate says, runs of keys where that of their owner does.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!q = !ech.tensor<[batch=2, seq=12, head=2, key=4], f32, #dist.state<cp = split seq>>
!k = !ech.tensor<[batch=2, past=12, head=2, key=4], f32, #dist.state<cp = split past>>
!l = !ech.tensor<[batch=2, seq=12, head=2], f32, #dist.state<cp = split seq>>
module attributes {dist.mesh = #dist.mesh<cp = 3 [seq zigzag, past zigzag]>} {
ech.variable state @q : !q = constant(0.0, 0.0)
ech.variable state @k : !k = constant(0.0, 0.0)
// CHECK-LABEL: rt.function @train
// CHECK-DAG:   %[[EARLY:.*]] = rt.offset [0] times [2] of <seq=2>
// CHECK-DAG:   %[[LATE:.*]] = rt.offset [0] times [-2] plus 10 of <seq=2>
// CHECK-DAG:   %[[KEYS:.*]] = rt.alloc work : <[block=2, batch=2, past=4, head=2, key=4], f32>
// CHECK:       rt.ring_attention %{{.*}}, %{{.*}}, %{{.*}} through %{{.*}}, %{{.*}}, %[[Q:.*]], %[[K:.*]], %[[K]] over [0] ranks 3 "cp" why "split seq" queries [#rt.size<seq=2>, #rt.size<seq=2>] from %[[EARLY]], %[[LATE]] keys [2, 0, 2, 2, 10, -2]
// CHECK-SAME:    causal
// CHECK-DAG:   rt.alloc work : <[block=2, batch=2, past=4, head=2, key=4], f32>
// CHECK:       rt.ring_attention_grad %{{.*}}, %{{.*}}, %{{.*}} through %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} over [0] ranks 3 "cp" why "split seq" queries
ech.step @train {
  %q = ech.read @q : !q
  %k = ech.read @k : !k
  %y, %m, %l = ech.attention %q, %k, %k {causal, dist.ring = "cp", ech.why = "split seq", query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !k, !k) -> (!q, !l, !l)
  %dq, %dk, %dv = ech.attention_grad %y, %q, %k, %k, %y, %m, %l {causal, dist.ring = "cp", ech.why = "split seq", query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !q, !k, !k, !q, !l, !l) -> (!q, !k, !k)
  %d = ech.map add %dk, %dv : (!k, !k) -> !k
  ech.write @q, %dq : !q
  ech.write @k, %d : !k
}
}
