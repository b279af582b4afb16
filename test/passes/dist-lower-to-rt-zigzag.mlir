// A rank's part in two chunks: what is gathered is put in order, the late chunks counted backwards; what is kept of a
// whole value is copied chunk by chunk; positions are those of the chunk that an element is in.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!part = !ech.tensor<[seq=16, embed=8], f32, #dist.state<cp = split seq>>
!whole = !ech.tensor<[seq=16, embed=8], f32, #dist.state<cp = whole>>
!places = !ech.tensor<[seq=16], f32, #dist.state<cp = split seq>>
!numbers = !ech.tensor<[seq=16], i32, #dist.state<cp = split seq>>
module attributes {dist.mesh = #dist.mesh<cp = 2 [seq zigzag]>} {
ech.variable state @x : !part = constant(0.0, 0.0)
ech.variable state @y : !whole = constant(0.0, 0.0)
ech.variable state @z : !part = constant(0.0, 0.0)
ech.variable state @at : !places = constant(0.0, 0.0)
// CHECK-LABEL: rt.function @train
// CHECK-DAG:   %[[EARLY:.*]] = rt.offset [0] times [4] of <seq=4>
// CHECK-DAG:   %[[LATE:.*]] = rt.offset [0] times [-4] plus 12 of <seq=4>
// CHECK-DAG:   %[[SHIFT:.*]] = rt.offset [0] times [-4] plus 8 of <seq=4>
// CHECK-DAG:   %[[Y:.*]] = rt.alloc {{ *}}state of @y
// CHECK:       rt.collective "all_gather" %{{.*}}, %[[PARTS:[0-9]+]] count 64
// CHECK:       %[[TO:.*]] = rt.view %[[ALL:.*]] from 0 : {{.*}} -> <[part=1, coordinate=2, seq=4, embed=8], f32, [128, 32, 8, 1]>
// CHECK-NEXT:  %[[FROM:.*]] = rt.view %[[PARTS]] from 0 : {{.*}} -> <[part=1, coordinate=2, seq=4, embed=8], f32, [128, 64, 8, 1]>
// CHECK-NEXT:  rt.fused {{.*}}(%[[FROM]]) -> ["store"](%[[TO]])
// CHECK:       %[[TO_LATE:.*]] = rt.view %[[ALL]] from 96 : {{.*}} -> <[part=1, coordinate=2, seq=4, embed=8], f32, [128, -32, 8, 1]>
// CHECK-NEXT:  %[[FROM_LATE:.*]] = rt.view %[[PARTS]] from 32 : {{.*}} -> <[part=1, coordinate=2, seq=4, embed=8], f32, [128, 64, 8, 1]>
// CHECK-NEXT:  rt.fused {{.*}}(%[[FROM_LATE]]) -> ["store"](%[[TO_LATE]])
// CHECK:       rt.view %[[Y]] from 0 plus(%[[EARLY]]) times [8]
// CHECK:       rt.view %[[Y]] from 0 plus(%[[LATE]]) times [8]
// CHECK:       %[[FIRST:.*]] = rt.along "seq" from %[[EARLY]] : i32
// CHECK-NEXT:  %[[LOCAL:.*]] = rt.along "seq" : i32
// CHECK-NEXT:  %[[CHUNK:.*]] = rt.literal 4.000000e+00 : i32
// CHECK-NEXT:  %[[IS_FIRST:.*]] = rt.compute "lt" %[[LOCAL]], %[[CHUNK]]
// CHECK-NEXT:  %[[SECOND:.*]] = rt.along "seq" from %[[SHIFT]] : i32
// CHECK-NEXT:  rt.compute "select" %[[IS_FIRST]], %[[FIRST]], %[[SECOND]]
ech.step @train {
  %x = ech.read @x : !part
  %all = dist.all_gather %x over ["cp"] why "a whole" : (!part) -> !whole
  ech.write @y, %all : !whole
  %w = ech.read @y : !whole
  %own = dist.slice %w over ["cp"] why "a part" : !whole -> !part
  ech.write @z, %own : !part
  %n = ech.index "seq" : !numbers
  %i = ech.map cast %n : (!numbers) -> !places
  ech.write @at, %i : !places
}
}
