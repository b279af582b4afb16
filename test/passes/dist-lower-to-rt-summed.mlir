// x + f(x) in a loop, where f's product is a sum over ranks: x's share of the sum is taken in the loop nest that adds,
// which writes where the next iteration reads x, and there the ranks sum it. No memory or pass besides.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!x = !ech.tensor<[batch=4, embed=8], f32, #dist.state<tp = whole>>
!w = !ech.tensor<[layer=3, embed=8, to=8], f32, #dist.state<tp = split embed>>
!one = !ech.tensor<[embed=8, to=8], f32, #dist.state<tp = split embed>>
!cut = !ech.tensor<[batch=4, embed=8], f32, #dist.state<tp = split embed>>
!made = !ech.tensor<[batch=4, to=8], f32, #dist.state<tp = sum>>
!y = !ech.tensor<[batch=4, embed=8], f32, #dist.state<tp = sum>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [embed]>} {
ech.input @x 0 : !x below 0
ech.variable param @w : !w = normal(0.0, 1.0)
ech.variable state @out : !x = constant(0.0, 0.0)

// CHECK-LABEL: rt.function @train
// CHECK:       rt.for
// CHECK:         rt.gemm %[[Y:.*]], %{{.*}}, %{{.*}} m <batch=4> n <to=8> k <embed=4>
// CHECK-NOT:     rt.fused
// CHECK:         rt.fused {{.*}}(%[[X:[0-9]+]], %{{[0-9]+}}) numbers{{.*}} -> ["store"](%[[X]])
// CHECK:         rt.compute "mul"
// CHECK:         rt.compute "add"
// CHECK:         rt.collective "all_reduce" %[[X]], %[[X]] count 32
// CHECK-NOT:     rt.fused
// CHECK-NOT:     rt.{{gemm|copy|fill}}
// CHECK:       }
ech.step @train {
  %x = ech.read @x : !x
  %w = ech.read @w : !w
  %end = ech.repeat "layer" = 3 carry(%x : !x) slice(%w : !w) -> (!x) {
  ^bb0(%at: !x, %one: !one):
    %cut = dist.slice %at over ["tp"] why "f" : !x -> !cut
    %made = ech.dot %cut, %one over ["embed"] : (!cut, !one) -> !made
    %f = ech.relabel %made [["to"]] -> [["embed"]] : (!made) -> !y
    %share = dist.slice %at over ["tp"] why "add" : !x -> !y
    %sum = ech.map add %share, %f : (!y, !y) -> !y
    %next = dist.all_reduce %sum over ["tp"] why "yield" : (!y) -> (!x)
    ech.yield carry(%next : !x)
  }
  ech.write @out, %end : !x
}
}
