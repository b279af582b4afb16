// What a repeat stacks up counts with one iteration's bytes: how messages are grouped does not depend on depth.
// RUN: echelon-opt %s -dist-group-messages=bucket-mb=1 | FileCheck %s

!x = !ech.tensor<[embed=100000], f32>
!gsum = !ech.tensor<[layer=8, embed=100000], f32, #dist.state<dp = sum>>
!g = !ech.tensor<[layer=8, embed=100000], f32, #dist.state<dp = whole>>
!p = !ech.tensor<[layer=8, embed=100000], f32>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  ech.variable param @b : !p = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.constant 1.0 : <[embed=100000], f32>
    %y = ech.repeat "layer" = 8 carry(%x : !x) -> (!x) {
    ^bb0(%c: !x):
      %n = ech.map neg %c : (!x) -> !x
      ech.yield carry(%n : !x)
    }
    %da = ech.constant 1.0 {ech.phase = "backward"} : !gsum
    %db = ech.constant 2.0 {ech.phase = "backward"} : !gsum
    // 3.2 MB each, 0.4 MB a layer.
    // CHECK: dist.all_reduce %{{.*}}, %{{.*}} over ["dp"] why "split: write of a, write of b"
    %0 = dist.all_reduce %da over ["dp"] why "split: write of a" {ech.phase = "update"} : (!gsum) -> !g
    ech.write @a, %0 {ech.phase = "update"} : !g
    %1 = dist.all_reduce %db over ["dp"] why "split: write of b" {ech.phase = "update"} : (!gsum) -> !g
    ech.write @b, %1 {ech.phase = "update"} : !g
  }
}
