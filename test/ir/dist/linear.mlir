// A product of two bytes with and without a bias, in one line of text.
// RUN: echelon-opt %s | echelon-opt | FileCheck %s

!x = !ech.tensor<[batch=2, k=4], bf16, #dist.state<tp = whole>>
!w = !ech.tensor<[k=4, ff=8], bf16, #dist.state<tp = whole>>
!b = !ech.tensor<[ff=8], bf16, #dist.state<tp = whole>>
!y = !ech.tensor<[batch=2, ff=8], bf16, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 []>} {
  ech.step @train {
    // CHECK: %[[X:.*]] = ech.constant
    %x = ech.constant 1.0 : !x
    // CHECK: %[[W:.*]] = ech.constant
    %w = ech.constant 1.0 : !w
    // CHECK: %[[B:.*]] = ech.constant
    %b = ech.constant 1.0 : !b
    // CHECK: dist.linear %[[X]], %[[W]] over ["k"] : (!{{.*}}, !{{.*}}) -> !
    %0 = dist.linear %x, %w over ["k"] : (!x, !w) -> !y
    // CHECK: dist.linear %[[X]], %[[W]] bias %[[B]] over ["k"] : (!{{.*}}, !{{.*}}, !{{.*}}) -> !
    %1 = dist.linear %x, %w bias %b over ["k"] : (!x, !w, !b) -> !y
  }
}
