// RUN: echelon-opt %s --ech-recognise-attention 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY <%t

// Causal scores, scaled, softmax over what is looked back over, times the values: one attention, with the mask in it.
// CHECK-LABEL: ech.step @causal
// CHECK:       %[[Q:.*]] = ech.read @q
// CHECK:       %[[K:.*]] = ech.read @k
// CHECK:       %[[V:.*]] = ech.read @v
// CHECK-NEXT:  %[[Y:[^,]*]], %{{[^,]*}}, %{{[^ ]*}} = ech.attention %[[Q]], %[[K]], %[[V]]
// CHECK-SAME:  causal
// CHECK-SAME:  key = "key"
// CHECK-SAME:  past = "past"
// CHECK-SAME:  query = "seq"
// CHECK-SAME:  scale = 2.500000e-01
// CHECK-NOT:   ech.softmax
// CHECK:       ech.write @y, %[[Y]]
ech.variable state @q : !ech.tensor<[batch=2, seq=8, key=16], f32> = constant(0.0, 0.0)
ech.variable state @kq : !ech.tensor<[seq=8, past=8, key=16], f32> = constant(0.0, 0.0)
ech.variable state @k : !ech.tensor<[batch=2, past=8, key=16], f32> = constant(0.0, 0.0)
ech.variable state @v : !ech.tensor<[batch=2, past=8, key=16], f32> = constant(0.0, 0.0)
ech.variable state @y : !ech.tensor<[batch=2, seq=8, key=16], f32> = constant(0.0, 0.0)
ech.variable state @s : !ech.tensor<[batch=2, seq=8, past=8], f32> = constant(0.0, 0.0)
ech.variable state @bias : !ech.tensor<[seq=8, past=8], f32> = constant(0.0, 0.0)
ech.input @mask 0 : !ech.tensor<[batch=2, past=8], i1> below 0
ech.step @causal {
  %q = ech.read @q : <[batch=2, seq=8, key=16], f32>
  %k = ech.read @k : <[batch=2, past=8, key=16], f32>
  %v = ech.read @v : <[batch=2, past=8, key=16], f32>
  %dot = ech.dot %q, %k over ["key"] : (!ech.tensor<[batch=2, seq=8, key=16], f32>, !ech.tensor<[batch=2, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %four = ech.constant 4.0 : <[], f32>
  %scaled = ech.map div %dot, %four : (!ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %seq = ech.index "seq" : <[seq=8], i32>
  %past = ech.index "past" : <[past=8], i32>
  %causal = ech.map ge %seq, %past : (!ech.tensor<[seq=8], i32>, !ech.tensor<[past=8], i32>) -> !ech.tensor<[seq=8, past=8], i1>
  %low = ech.constant 0xFFF0000000000000 : <[], f32>
  %masked = ech.map select %causal, %scaled, %low : (!ech.tensor<[seq=8, past=8], i1>, !ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %p = ech.softmax %masked over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %y = ech.dot %p, %v over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[batch=2, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, key=16], f32>
  ech.write @y, %y : <[batch=2, seq=8, key=16], f32>
}

// A padding mask, guarded for rows that allow nothing, and a bias.
// CHECK-LABEL: ech.step @masked
// CHECK-DAG:   %[[MASK:.*]] = ech.read @mask
// CHECK-DAG:   %[[BIAS:.*]] = ech.read @bias
// CHECK:       ech.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[MASK]] bias %[[BIAS]]
// CHECK-NOT:   ech.softmax
ech.step @masked {
  %q = ech.read @q : <[batch=2, seq=8, key=16], f32>
  %k = ech.read @k : <[batch=2, past=8, key=16], f32>
  %v = ech.read @v : <[batch=2, past=8, key=16], f32>
  %mask = ech.read @mask : <[batch=2, past=8], i1>
  %bias = ech.read @bias : <[seq=8, past=8], f32>
  %dot = ech.dot %q, %k over ["key"] : (!ech.tensor<[batch=2, seq=8, key=16], f32>, !ech.tensor<[batch=2, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %biased = ech.map add %dot, %bias : (!ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[seq=8, past=8], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %zero = ech.constant 0.0 : <[], f32>
  %low = ech.constant 0xFFF0000000000000 : <[], f32>
  %numbers = ech.map cast %mask : (!ech.tensor<[batch=2, past=8], i1>) -> !ech.tensor<[batch=2, past=8], f32>
  %count = ech.reduce sum %numbers over ["past"] : (!ech.tensor<[batch=2, past=8], f32>) -> !ech.tensor<[batch=2], f32>
  %any = ech.map gt %count, %zero : (!ech.tensor<[batch=2], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=2], i1>
  %none = ech.map not %any : (!ech.tensor<[batch=2], i1>) -> !ech.tensor<[batch=2], i1>
  %allowed = ech.map or %mask, %none : (!ech.tensor<[batch=2, past=8], i1>, !ech.tensor<[batch=2], i1>) -> !ech.tensor<[batch=2, past=8], i1>
  %masked = ech.map select %allowed, %biased, %low : (!ech.tensor<[batch=2, past=8], i1>, !ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %p = ech.softmax %masked over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %kept = ech.map select %mask, %p, %zero : (!ech.tensor<[batch=2, past=8], i1>, !ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %y = ech.dot %kept, %v over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[batch=2, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, key=16], f32>
  ech.write @y, %y : <[batch=2, seq=8, key=16], f32>
}

// Weights that are looked at elsewhere must be computed: the pattern stays.
// WHY: E0602: this attention is computed as it is written, with all its scores in memory, since its weights are read elsewhere, too
// CHECK-LABEL: ech.step @weights_are_used
// CHECK:       ech.softmax
// CHECK-NOT:   ech.attention
ech.step @weights_are_used {
  %q = ech.read @q : <[batch=2, seq=8, key=16], f32>
  %k = ech.read @k : <[batch=2, past=8, key=16], f32>
  %v = ech.read @v : <[batch=2, past=8, key=16], f32>
  %dot = ech.dot %q, %k over ["key"] : (!ech.tensor<[batch=2, seq=8, key=16], f32>, !ech.tensor<[batch=2, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %p = ech.softmax %dot over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %y = ech.dot %p, %v over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[batch=2, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, key=16], f32>
  ech.write @y, %y : <[batch=2, seq=8, key=16], f32>
  ech.write @s, %p : <[batch=2, seq=8, past=8], f32>
}

// Where each query has keys of its own, causality compares two axes of the keys: the pattern stays.
// WHY-NOT: warning: E0602
// CHECK-LABEL: ech.step @keys_of_queries
// CHECK:       ech.softmax
// CHECK-NOT:   ech.attention
ech.step @keys_of_queries {
  %q = ech.read @q : <[batch=2, seq=8, key=16], f32>
  %k = ech.read @kq : <[seq=8, past=8, key=16], f32>
  %v = ech.read @v : <[batch=2, past=8, key=16], f32>
  %dot = ech.dot %q, %k over ["key"] : (!ech.tensor<[batch=2, seq=8, key=16], f32>, !ech.tensor<[seq=8, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %i = ech.index "seq" : <[seq=8], i32>
  %j = ech.index "past" : <[past=8], i32>
  %causal = ech.map ge %i, %j : (!ech.tensor<[seq=8], i32>, !ech.tensor<[past=8], i32>) -> !ech.tensor<[seq=8, past=8], i1>
  %low = ech.constant 0xFFF0000000000000 : <[], f32>
  %masked = ech.map select %causal, %dot, %low : (!ech.tensor<[seq=8, past=8], i1>, !ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %p = ech.softmax %masked over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>) -> !ech.tensor<[batch=2, seq=8, past=8], f32>
  %y = ech.dot %p, %v over ["past"] : (!ech.tensor<[batch=2, seq=8, past=8], f32>, !ech.tensor<[batch=2, past=8, key=16], f32>) -> !ech.tensor<[batch=2, seq=8, key=16], f32>
  ech.write @y, %y : <[batch=2, seq=8, key=16], f32>
}
