// A gradient travels while the backward pass goes on.
// RUN: echelon-opt %s -dist-overlap | FileCheck %s

!gsum = !ech.tensor<[embed=4], f32, #dist.state<dp = sum>>
!g = !ech.tensor<[embed=4], f32, #dist.state<dp = whole>>
!x = !ech.tensor<[batch=4, embed=4], f32, #dist.state<dp = split batch>>
!p = !ech.tensor<[embed=4], f32>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  ech.variable param @b : !p = constant(0.0, 0.0)
  // CHECK-LABEL: ech.step @train
  ech.step @train {
    // CHECK: %[[X:.*]] = ech.constant
    %x = ech.constant 1.0 : !x
    // CHECK: %[[DA:.*]] = ech.reduce sum %[[X]]
    // CHECK-NEXT: %[[TOKEN:.*]] = dist.start "all_reduce" %[[DA]] over ["dp"] why "a"
    %da = ech.reduce sum %x over ["batch"] {ech.phase = "backward"} : (!x) -> !gsum
    // CHECK-NEXT: %[[DX:.*]] = ech.map neg
    %dx = ech.map neg %x {ech.phase = "backward"} : (!x) -> !x
    // CHECK-NEXT: %[[DB:.*]] = ech.reduce sum %[[DX]]
    %db = ech.reduce sum %dx over ["batch"] {ech.phase = "backward"} : (!x) -> !gsum
    // CHECK-NEXT: %[[A:.*]] = dist.wait %[[TOKEN]]
    %0 = dist.all_reduce %da over ["dp"] why "a" {ech.phase = "update"} : (!gsum) -> !g
    // CHECK-NEXT: ech.write @a, %[[A]]
    ech.write @a, %0 {ech.phase = "update"} : !g
    // Nothing is left to hide the last one behind.
    // CHECK-NEXT: dist.all_reduce %[[DB]]
    %1 = dist.all_reduce %db over ["dp"] why "b" {ech.phase = "update"} : (!gsum) -> !g
    ech.write @b, %1 {ech.phase = "update"} : !g
  }
}
