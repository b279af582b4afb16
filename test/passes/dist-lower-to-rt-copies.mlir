// Copies between orders of axes: a kernel where neighbours in one lie apart in the other, loops else.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt --rt-select-kernels | FileCheck %s

!x = !ech.tensor<[batch=3, rows=16, columns=9], f32>
!t = !ech.tensor<[batch=3, columns=9, rows=16], f32>
!b = !ech.tensor<[rows=16, batch=3, columns=9], f32>
ech.input @x 0 : !x below 0
ech.variable state @t : !t = constant(0.0, 0.0)
ech.variable state @b : !b = constant(0.0, 0.0)

// CHECK-LABEL: rt.function @train
// CHECK:       %[[T:.*]] = rt.alloc work : <[batch=3, columns=9, rows=16], f32>
// CHECK-NEXT:  rt.copy_strided %[[T]], %{{.*}} : <[batch=3, columns=9, rows=16], f32>, <[batch=3, columns=9, rows=16], f32, [144, 1, 9]>
// CHECK:       %[[B:.*]] = rt.alloc work : <[rows=16, batch=3, columns=9], f32>
// CHECK-NEXT:  rt.fused ["rows", "batch", "columns"] = [16, 3, 9](%{{.*}}) -> ["store"](%[[B]])
ech.step @train {
  %x = ech.read @x : !x
  %t = ech.relabel %x [] -> [] : (!x) -> !t
  ech.write @t, %t : !t
  %b = ech.relabel %x [] -> [] : (!x) -> !b
  ech.write @b, %b : !b
}
