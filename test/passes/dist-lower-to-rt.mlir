// RUN: echelon-opt %s --dist-split-inside --dist-fuse --dist-lower-to-rt | FileCheck %s

module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], tp = 2 [vocab]>} {
ech.variable param @w : !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>> = constant(0.0, 0.0)
ech.variable param @s : !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole, tp = whole>> = constant(0.0, 0.0)
ech.input @x 0 : !ech.tensor<[batch=4, in=6], f32> below 0
ech.input @z 1 : !ech.tensor<[batch=4, vocab=10], f32> below 0

// A step in which a rank holds two of four samples: a matrix product of local sizes; the sum over the ranks of dp is
// one message in place; the next value of w is computed where w lies.
// CHECK-LABEL: rt.function @train
// CHECK-DAG:   %[[W:.*]] = rt.alloc state of @w : <[in=6, hidden=8], f32>
// CHECK-DAG:   %[[X:.*]] = rt.alloc input of @x {{.*}} : <[batch=2, in=6], f32>
// CHECK:       rt.gemm %[[H:.*]], %[[X]], %[[W]] m <batch=2> n <hidden=8> k <in=6> ld <in=6> <hidden=8> <hidden=8> :
// CHECK:       rt.gemm %[[D:.*]], %[[X]], %[[H]] m <in=6> n <hidden=8> k <batch=2> transA ld <in=6> <hidden=8> <hidden=8> :
// CHECK:       rt.collective "all_reduce" %[[D]], %[[D]] count 48 "Sum" over [0] ranks 2 "dp" with "automatic" why "split batch over dp"
// CHECK:       rt.fused ["in", "hidden"] = [6, 8](%[[W]], %[[D]]) -> ["store"](%[[W]])
ech.step @train {
  %x = ech.read @x : !ech.tensor<[batch=4, in=6], f32, #dist.state<dp = split batch, tp = whole>>
  %w = ech.read @w : !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>>
  %h = ech.dot %x, %w over ["in"] : (!ech.tensor<[batch=4, in=6], f32, #dist.state<dp = split batch, tp = whole>>, !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>>) -> !ech.tensor<[batch=4, hidden=8], f32, #dist.state<dp = split batch, tp = whole>>
  %d = ech.dot %x, %h over ["batch"] : (!ech.tensor<[batch=4, in=6], f32, #dist.state<dp = split batch, tp = whole>>, !ech.tensor<[batch=4, hidden=8], f32, #dist.state<dp = split batch, tp = whole>>) -> !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = sum, tp = whole>>
  %g = dist.all_reduce %d over ["dp"] why "split batch over dp" : (!ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = sum, tp = whole>>) -> !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>>
  %n = ech.map sub %w, %g : (!ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>>, !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>>) -> !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>>
  ech.write @w, %n : !ech.tensor<[in=6, hidden=8], f32, #dist.state<dp = whole, tp = whole>>
}

// Along a split axis: what each rank finds, one message, what follows from all.
// CHECK-LABEL: rt.function @evaluate
// CHECK:       rt.reduce max %[[M:.*]], %[[Z:.*]] of <batch=2> <vocab=5> <> :
// CHECK:       rt.collective "all_reduce" %[[M]], %[[M]] count 2 "Max" over [1] ranks 2 "tp"
// CHECK:       rt.partial sum_exp(%[[Z]], %[[M]]) -> (%[[E:.*]]) of [#rt.size<batch=2>, #rt.size<vocab=5>, #rt.size<>] :
// CHECK:       rt.collective "all_reduce" %[[E]], %[[E]] count 2 "Sum" over [1] ranks 2 "tp"
// CHECK:       rt.combine softmax(%[[Z]], %[[M]], %[[E]]) -> (%[[Y:.*]]) of [#rt.size<batch=2>, #rt.size<vocab=5>, #rt.size<>] :
// A loop stays a loop; its slices are views at the position, and what it carries stays in one place.
// CHECK:       rt.for "layer" = 3 {
// CHECK-NEXT:  ^bb0(%[[I:.*]]: index):
// CHECK:         %[[V:.*]] = rt.view %{{.*}} from 0 plus(%[[I]]) times [8]
// CHECK:         rt.fused ["hidden"] = [8](%[[C:.*]], %[[V]]) -> ["store"](%[[C]])
ech.step @evaluate {
  %z = ech.read @z : !ech.tensor<[batch=4, vocab=10], f32, #dist.state<dp = split batch, tp = split vocab>>
  %y = ech.softmax %z over ["vocab"] {dist.inside = ["tp"], ech.why = "split vocab over tp"} : (!ech.tensor<[batch=4, vocab=10], f32, #dist.state<dp = split batch, tp = split vocab>>) -> !ech.tensor<[batch=4, vocab=10], f32, #dist.state<dp = split batch, tp = split vocab>>
  %s = ech.read @s : !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole, tp = whole>>
  %zero = ech.constant 0.0 : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>
  %r = ech.repeat "layer" = 3 carry(%zero : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>) slice(%s : !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole, tp = whole>>) -> (!ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>) {
  ^bb0(%c: !ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>, %p: !ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>):
    %n = ech.map add %c, %p : (!ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>, !ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>) -> !ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>
    ech.yield carry(%n : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole, tp = whole>>)
  }
}
}
