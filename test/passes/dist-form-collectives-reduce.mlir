// RUN: echelon-opt --dist-form-collectives %s | FileCheck %s
// With `reduce bf16` what ranks sum up travels in it: not single numbers, and of the update nothing but gradients that
// workers have handed in.

!sum = !ech.tensor<[in=4], f32, #dist.state<dp = sum>>
!whole = !ech.tensor<[in=4], f32, #dist.state<dp = whole>>
!split = !ech.tensor<[in=4], f32, #dist.state<dp = split in>>
!one = !ech.tensor<[], f32, #dist.state<dp = sum>>
!all = !ech.tensor<[], f32, #dist.state<dp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [in]>} {
run.precision f32 reduce bf16
// CHECK-LABEL: ech.step @train
ech.step @train {
  %y = ech.constant 2.0 {ech.phase = "backward"} : !sum
  // CHECK: dist.all_reduce %{{.*}} over ["dp"] why "y" with "bf16_summands"
  %0 = dist.convert %y why "y" : !sum -> !whole
  // CHECK: dist.reduce_scatter %{{.*}} over ["dp"] why "z" with "bf16_summands"
  %1 = dist.convert %y why "z" : !sum -> !split
  %l = ech.constant 3.0 : !one
  // CHECK: dist.all_reduce %{{.*}} over ["dp"] why "loss" :
  %2 = dist.convert %l why "loss" : !one -> !all
  %u = ech.constant 4.0 {ech.phase = "update"} : !sum
  // CHECK: dist.all_reduce %{{.*}} over ["dp"] why "u" :
  %3 = dist.convert %u why "u" : !sum -> !whole
  %g = ech.constant 5.0 {ech.phase = "update", ech.sums_gradients} : !sum
  // CHECK: dist.all_reduce %{{.*}} over ["dp"] why "g" with "bf16_summands"
  %4 = dist.convert %g why "g" : !sum -> !whole
}
}
