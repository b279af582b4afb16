// Along an axis that is not the outermost, a rank's part is several runs of the value: the collective takes them from
// where the sum lies and puts them where the value goes, and nothing is laid out for it. Runs shorter than 256 bytes are
// laid out as rows.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s
// RUN: sed 's/batch=3/batch=1/g' %s | echelon-opt --dist-fuse --dist-lower-to-rt | FileCheck %s --check-prefix=ONE
// RUN: sed 's/seq=8/seq=2/g' %s | echelon-opt --dist-fuse --dist-lower-to-rt | FileCheck %s --check-prefix=SINGLE

!x = !ech.tensor<[batch=3, in=4], f32, #dist.state<tp = split in>>
!w = !ech.tensor<[in=4, seq=8, embed=32], f32, #dist.state<tp = split in>>
!sum = !ech.tensor<[batch=3, seq=8, embed=32], f32, #dist.state<tp = sum>>
!cut = !ech.tensor<[batch=3, seq=8, embed=32], f32, #dist.state<tp = split seq>>
!whole = !ech.tensor<[batch=3, seq=8, embed=32], f32, #dist.state<tp = whole>>
!small = !ech.tensor<[batch=3, seq=8], f32, #dist.state<tp = split seq>>
!smalls = !ech.tensor<[batch=3, seq=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [in, seq]>} {
ech.input @x 0 : !x below 0
ech.variable param @w : !w = normal(0.0, 1.0)
ech.variable state @y : !whole = constant(0.0, 0.0)
ech.variable state @s : !smalls = constant(0.0, 0.0)

// CHECK-LABEL: rt.function @train
// CHECK-DAG:   %[[Y:.*]] = rt.alloc  state of @y
// CHECK-DAG:   %[[S:.*]] = rt.alloc  state of @s
// CHECK:       rt.gemm %[[D:[0-9]+]],
// CHECK-NEXT:  %[[ROWS:.*]] = rt.view %[[D]] from 0 : {{.*}} -> <["@tp"=2, batch=3, seq=4, embed=32], f32, [128, 256, 32, 1]>
// CHECK-NEXT:  %[[ROW:.*]] = rt.alloc  work
// CHECK-NEXT:  rt.collective "reduce_scatter" %[[ROWS]], %[[ROW]] count 384 runs 3 "Sum"
// CHECK:       rt.compute "relu"
// CHECK:       rt.collective "all_gather" %{{.*}}, %[[Y]] count 384 runs 3 over
// CHECK-NOT:   rt.fused
// CHECK:       %[[TO:.*]] = rt.view %[[S]] from 0
// CHECK:       rt.collective "all_gather" %{{.*}}, %[[ROWS_OF_S:.*]] count 12 over
// CHECK:       %[[FROM:.*]] = rt.view %[[ROWS_OF_S]] from 0
// CHECK:       rt.fused {{.*}}(%[[FROM]]) -> ["store"](%[[TO]])
// With nothing before the axis there is one run, and the gathers go to where the values do.
// ONE:         rt.collective "reduce_scatter" %{{.*}}, %{{.*}} count 128 "Sum"
// ONE:         rt.collective "all_gather" %{{.*}}, %{{.*}} count 128 over
// ONE:         rt.collective "all_gather" %{{.*}}, %{{.*}} count 4 over
// ONE-NOT:     rt.fused
// Of an axis as long as there are ranks, each has one position: still runs, here too short.
// SINGLE:      rt.collective "reduce_scatter" %{{.*}}, %{{.*}} count 96 "Sum"
// SINGLE:      rt.collective "all_gather" %{{.*}}, %{{.*}} count 96 over
ech.step @train {
  %x = ech.read @x : !x
  %w = ech.read @w : !w
  %d = ech.dot %x, %w over ["in"] : (!x, !w) -> !sum
  %part = dist.reduce_scatter %d over ["tp"] why "a sum" : (!sum) -> !cut
  %r = ech.map relu %part : (!cut) -> !cut
  %all = dist.all_gather %r over ["tp"] why "a whole" : (!cut) -> !whole
  ech.write @y, %all : !whole
  %s = ech.reduce sum %part over ["embed"] : (!cut) -> !small
  %short = dist.all_gather %s over ["tp"] why "a short one" : (!small) -> !smalls
  ech.write @s, %short : !smalls
}
}
