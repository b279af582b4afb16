// Of a sum of two, what comes later is added to where the first lies: no memory of its own, no zeros, no loop.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!ids = !ech.tensor<[batch=4], i32>
!table = !ech.tensor<[vocab=16, embed=8], f32>
!rows = !ech.tensor<[batch=4, embed=8], f32>
!logits = !ech.tensor<[batch=4, vocab=16], f32>
!norm = !ech.tensor<[], f32>
module {
ech.input @ids 0 : !ids below 16
ech.input @x 1 : !rows below 0
ech.input @d 2 : !logits below 0
ech.variable state @n : !norm = constant(0.0, 0.0)

// CHECK-LABEL: rt.function @train
// CHECK:       rt.gemm %[[SUM:.*]], %{{.*}}, %{{.*}} m <vocab=16> n <embed=8> k <batch=4>
// CHECK-NOT:   rt.alloc work
// CHECK-NOT:   rt.fill %[[SUM]]
// CHECK:       rt.scatter_add %[[SUM]]{{\[}}
// CHECK-NOT:   rt.fused
// CHECK:       rt.add_squares %{{.*}}, %[[SUM]]
ech.step @train {
  %ids = ech.read @ids : !ids
  %x = ech.read @x : !rows
  %d = ech.read @d : !logits
  %a = ech.dot %d, %x over ["batch"] : (!logits, !rows) -> !table
  %b = ech.scatter_add %x at ["vocab"] = %ids : (!rows, !ids) -> !table
  %g = ech.map add %a, %b : (!table, !table) -> !table
  %n = ech.global_norm %g {ech.parameters = ["w"], ech.phase = "update"} : (!table) -> !norm
  ech.write @n, %n : !norm
}

// A term that is read again keeps its own memory, and so does the sum.
// CHECK-LABEL: rt.function @evaluate
// CHECK:       rt.gemm %[[A:.*]], %{{.*}}, %{{.*}} m <vocab=16> n <embed=8> k <batch=4>
// CHECK:       rt.fill %[[B:.*]] with 0.000000e+00 :
// CHECK:       rt.scatter_add %[[B]]{{\[}}
// CHECK:       rt.fused {{.*}}(%[[A]], %[[B]]) -> ["store"](%[[SUM:.*]])
// CHECK:       rt.add_squares %{{.*}}, %[[SUM]]
// CHECK:       rt.add_squares %{{.*}}, %[[A]]
ech.step @evaluate {
  %ids = ech.read @ids : !ids
  %x = ech.read @x : !rows
  %d = ech.read @d : !logits
  %a = ech.dot %d, %x over ["batch"] : (!logits, !rows) -> !table
  %b = ech.scatter_add %x at ["vocab"] = %ids : (!rows, !ids) -> !table
  %g = ech.map add %a, %b : (!table, !table) -> !table
  %n = ech.global_norm %g, %a {ech.parameters = ["w", "v"], ech.phase = "update"} : (!table, !table) -> !norm
  ech.write @n, %n : !norm
}
}
