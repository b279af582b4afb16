// RUN: echelon-opt %s --dist-lower-to-rt | FileCheck %s

// What a loop carries and stacks as it comes in lies in one list, a place longer than the loop: an iteration writes
// where the next one reads, the start value is computed in the first place, and the list of what the iterations leave
// is the same, one place further on.
// CHECK:       %[[LIST:.*]] = rt.alloc work : <[layer=4, hidden=8], f32>
// CHECK:       %[[FIRST:.*]] = rt.view %[[LIST]] from 0 :
// CHECK:       rt.fused ["hidden"] = [8](%{{.*}}) -> ["store"](%[[FIRST]])
// CHECK-NOT:   rt.alloc
// CHECK:       rt.for "layer" = 3 {
// CHECK-NEXT:  ^bb0(%[[I:.*]]: index):
// CHECK-DAG:     %[[HERE:.*]] = rt.view %[[LIST]] from 0 plus(%[[I]]) times [8]
// CHECK-DAG:     %[[NEXT:.*]] = rt.view %[[LIST]] from 8 plus(%[[I]]) times [8]
// CHECK:         rt.fused ["hidden"] = [8](%[[HERE]]) -> ["store"](%[[NEXT]])
// CHECK-NOT:     rt.fused
// CHECK:         rt.alloc
module attributes {dist.mesh = #dist.mesh<dp = 1 [batch]>} {
ech.variable state @x : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>> = constant(0.0, 0.0)
ech.variable state @came : !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>> = constant(0.0, 0.0)
ech.step @train {
  %x = ech.read @x : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>
  %e = ech.map exp %x : (!ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>) -> !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>
  %r, %came, %left = ech.repeat "layer" = 3 carry(%e : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>) -> (!ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>) stack(!ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>, !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>) {
  ^bb0(%c: !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>):
    %n = ech.map exp %c : (!ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>) -> !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>
    ech.yield carry(%n : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>) stack(%c, %n : !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>, !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>)
  }
  %a = ech.map mul %came, %left : (!ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>, !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>) -> !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>
  %b = ech.map add %a, %r : (!ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>, !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>) -> !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>
  ech.write @came, %b : !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>
}
}
