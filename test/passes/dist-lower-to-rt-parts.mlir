// Parts that lie in one piece are summed and gathered where they lie: a rank's part of a gradient becomes its row of the
// gradients' sum there, and its part of the new parameter is computed in its row of the parameter. No memory besides.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!x = !ech.tensor<[batch=8, layer=4], f32, #dist.state<dp = split batch>>
!y = !ech.tensor<[batch=8, embed=6], f32, #dist.state<dp = split batch>>
!w = !ech.tensor<[layer=4, embed=6], f32, #dist.state<dp = whole>>
!sum = !ech.tensor<[layer=4, embed=6], f32, #dist.state<dp = sum>>
!cut = !ech.tensor<[layer=4, embed=6], f32, #dist.state<dp = cut layer>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
ech.input @x 0 : !x below 0
ech.input @y 1 : !y below 0
ech.variable param @w : !w = normal(0.0, 1.0)

// CHECK-LABEL: rt.function @train
// CHECK:       %[[W:.*]] = rt.alloc  state of @w
// CHECK:       rt.gemm %[[D:[0-9]+]],
// CHECK:       %[[ROWS:.*]] = rt.view %[[D]] from 0 : {{.*}}"@dp"=2
// CHECK:       %[[ROW:.*]] = rt.view %[[D]] from 0 plus(
// CHECK:       rt.collective "reduce_scatter" %[[ROWS]], %[[ROW]] count 12
// CHECK:       %[[SUM:.*]] = rt.view %[[D]] from 0 plus(
// CHECK:       %[[NEW:.*]] = rt.view %[[W]] from 0 plus(
// CHECK:       rt.fused {{.*}}(%[[NEW]], %[[SUM]]) -> ["store"](%[[NEW]])
// CHECK:       rt.collective "all_gather" %[[NEW]], %[[W]] count 12
// CHECK-NOT:   rt.fused
ech.step @train {
  %x = ech.read @x : !x
  %y = ech.read @y : !y
  %w = ech.read @w : !w
  %d = ech.dot %x, %y over ["batch"] : (!x, !y) -> !sum
  %part = dist.reduce_scatter %d over ["dp"] why "write of w" : (!sum) -> !cut
  %old = dist.slice %w over ["dp"] why "write of w" : !w -> !cut
  %new = ech.map add %old, %part : (!cut, !cut) -> !cut
  %all = dist.all_gather %new over ["dp"] why "write of w" : (!cut) -> !w
  ech.write @w, %all : !w
}
}
