// A sum inside a loop nest runs over its whole axes, also over one that nothing read there has.
// RUN: echelon-opt %s --dist-fuse --dist-lower-to-rt | FileCheck %s

!row = !ech.tensor<[batch=4, embed=8], f32, #dist.state<dp = whole>>
!all = !ech.tensor<[batch=4, seq=6, embed=8], f32, #dist.state<dp = split seq>>
!sum = !ech.tensor<[batch=4, embed=8], f32, #dist.state<dp = sum>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [seq]>} {
ech.input @x 0 : !ech.tensor<[batch=4, embed=8], f32> below 0
ech.variable param @w : !ech.tensor<[batch=4, embed=8], f32, #dist.state<dp = sum>> = constant(0.0, 0.0)
// A rank holds three of six places of seq.
// CHECK-LABEL: rt.function @train
// CHECK:       rt.fused ["seq", "batch", "embed"] = [3, 4, 8](%{{.*}}) -> ["sum"](%{{.*}})
ech.step @train {
  %x = ech.read @x : !row
  %y = ech.expand %x : !row -> !all
  %s = ech.reduce sum %y over ["seq"] : (!all) -> !sum
  ech.write @w, %s : !sum
}
}
