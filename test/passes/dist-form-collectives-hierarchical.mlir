// A hierarchical all_reduce is scattered over the last mesh axis, summed over the others, gathered. One number goes at once.
// RUN: echelon-opt %s -dist-form-collectives | FileCheck %s
// CHECK-LABEL: module @hierarchical
// CHECK: dist.reduce_scatter {{.*}} over ["dp"] why "a"{{.*}} -> !ech.tensor<[odd=5], f32, #dist.state<pod = sum, dp = flat>>
// CHECK-NEXT: dist.all_reduce {{.*}} over ["pod"] why "a"{{.*}} -> !ech.tensor<[odd=5], f32, #dist.state<pod = whole, dp = flat>>
// CHECK-NEXT: dist.all_gather {{.*}} over ["dp"] why "a"{{.*}} -> !ech.tensor<[odd=5], f32, #dist.state<pod = whole, dp = whole>>
// CHECK: dist.all_reduce {{.*}} over ["pod", "dp"] why "b"
!p = !ech.tensor<[odd=5], f32, #dist.state<pod = sum, dp = sum>>
!w = !ech.tensor<[odd=5], f32, #dist.state<pod = whole, dp = whole>>
!ps = !ech.tensor<[], f32, #dist.state<pod = sum, dp = sum>>
!s = !ech.tensor<[], f32, #dist.state<pod = whole, dp = whole>>
module @hierarchical attributes {dist.mesh = #dist.mesh<pod = 2 [batch], dp = 2 [batch]>,
                   dist.algorithms = [{op = "all_reduce", over = ["pod", "dp"], algorithm = "hierarchical"}]} {
  ech.step @train {
    %p = ech.constant 0.0 : !p
    %ps = ech.constant 0.0 : !ps
    %a = dist.convert %p why "a" : !p -> !w
    %b = dist.convert %ps why "b" : !ps -> !s
  }
}
