// What the norm's report needs comes before all else of the update: where the norm is not finite, nothing was written.
// RUN: echelon-opt %s -dist-overlap | FileCheck %s

!p = !ech.tensor<[embed=4], f32>
!n = !ech.tensor<[], f32>
module attributes {dist.mesh = #dist.mesh<>} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  ech.step @train {
    // CHECK: %[[G:.*]] = ech.constant
    // CHECK-NEXT: %[[N:.*]] = ech.global_norm %[[G]]
    // CHECK-NEXT: ech.report norm "norm", %[[N]]
    // CHECK-NEXT: %[[D:.*]] = ech.map neg %[[G]]
    // CHECK-NEXT: ech.write @a, %[[D]]
    %g = ech.constant 1.0 {ech.phase = "backward"} : !p
    %d = ech.map neg %g {ech.phase = "update"} : (!p) -> !p
    ech.write @a, %d {ech.phase = "update"} : !p
    %n = ech.global_norm %g {ech.parameters = ["a"], ech.phase = "update"} : (!p) -> !n
    ech.report norm "norm", %n {ech.phase = "update"} : !n
  }
}
