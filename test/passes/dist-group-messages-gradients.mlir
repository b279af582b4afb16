// A message of several gradients is called by their parameters: three of them, and how many more.
// RUN: echelon-opt %s -dist-group-messages | FileCheck %s

!sum = !ech.tensor<[hidden=4], f32, #dist.state<dp = sum>>
!g = !ech.tensor<[hidden=4], f32, #dist.state<dp = whole>>
!p = !ech.tensor<[hidden=4], f32>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  ech.variable param @b : !p = constant(0.0, 0.0)
  ech.variable param @c : !p = constant(0.0, 0.0)
  ech.variable param @d : !p = constant(0.0, 0.0)
  // CHECK: dist.all_reduce {{.*}} why "split batch over dp (m.ech:9): gradients of a, b, c and 1 more"
  ech.step @train {
    %da = ech.constant 1.0 {ech.phase = "backward"} : !sum
    %dc = ech.constant 2.0 {ech.phase = "backward"} : !sum
    %dd = ech.constant 3.0 {ech.phase = "backward"} : !sum
    %0 = dist.all_reduce %da over ["dp"] why "split batch over dp (m.ech:9): gradients of a, b (m.ech:2)" {ech.phase = "update"} : (!sum) -> !g
    ech.write @a, %0 {ech.phase = "update"} : !g
    ech.write @b, %0 {ech.phase = "update"} : !g
    %1 = dist.all_reduce %dc over ["dp"] why "split batch over dp (m.ech:9): gradient of c (m.ech:3)" {ech.phase = "update"} : (!sum) -> !g
    ech.write @c, %1 {ech.phase = "update"} : !g
    %2 = dist.all_reduce %dd over ["dp"] why "split batch over dp (m.ech:9): gradient of d" {ech.phase = "update"} : (!sum) -> !g
    ech.write @d, %2 {ech.phase = "update"} : !g
  }
}
