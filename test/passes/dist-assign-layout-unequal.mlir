// Where a stage has fewer iterations than the largest, what its repeat stacks up is 0, so that a sum along the axis needs
// no mask; nor does one of what follows with factors and divisors that all iterations share.
// RUN: echelon-opt %s -split-input-file -dist-assign-layout | FileCheck %s

!one = !ech.tensor<[], f32>
!w = !ech.tensor<[layer=3, a=2], f32>
!a = !ech.tensor<[a=2], f32>
// CHECK-LABEL: ech.step @train
// CHECK-NOT: dist.mask
// CHECK: ech.report
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (1, 2)]>} {
  ech.variable param @w : !w = constant(1.0, 0.0)
  ech.step @train {
    %w = ech.read @w : !w
    %two = ech.constant 2.0 : !one
    %g = ech.repeat "layer" = 3 slice(%w : !w) -> () stack(!w) {
    ^bb0(%each: !a):
      %e = ech.map exp %each : (!a) -> !a
      ech.yield stack(%e : !a)
    }
    %n = ech.map mul %g, %two : (!w, !one) -> !w
    %d = ech.map div %n, %two : (!w, !one) -> !w
    %q = ech.map mul %d, %g : (!w, !w) -> !w
    %s = ech.reduce sum %q over ["layer", "a"] : (!w) -> !one
    ech.report loss "loss", %s : !one
  }
}

// -----

// Of a divisor, or a factor, along the axis nobody knows what lies there: 0 / 0 is no number.
!one = !ech.tensor<[], f32>
!w = !ech.tensor<[layer=3, a=2], f32>
!a = !ech.tensor<[a=2], f32>
// CHECK-LABEL: ech.step @train
// CHECK: %[[QUOTIENT:.*]] = ech.map div
// CHECK: %[[MASKED:.*]] = dist.mask %[[QUOTIENT]]
// CHECK: ech.reduce sum %[[MASKED]]
// CHECK: %[[PRODUCT:.*]] = ech.map mul
// CHECK: %[[MASKED:.*]] = dist.mask %[[PRODUCT]]
// CHECK: ech.reduce sum %[[MASKED]]
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (1, 2)]>} {
  ech.variable param @w : !w = constant(1.0, 0.0)
  ech.step @train {
    %w = ech.read @w : !w
    %g = ech.repeat "layer" = 3 slice(%w : !w) -> () stack(!w) {
    ^bb0(%each: !a):
      %e = ech.map exp %each : (!a) -> !a
      ech.yield stack(%e : !a)
    }
    %d = ech.map div %g, %w : (!w, !w) -> !w
    %s = ech.reduce sum %d over ["layer", "a"] : (!w) -> !one
    ech.report loss "loss", %s : !one
    %r = ech.map rsqrt %w : (!w) -> !w
    %m = ech.map mul %g, %r : (!w, !w) -> !w
    %t = ech.reduce sum %m over ["layer", "a"] : (!w) -> !one
    ech.report named_loss "other", %t : !one
  }
}
