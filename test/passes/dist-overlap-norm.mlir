// What the reports of losses and of the norm need comes before all else of the update, the norm last: where one of them
// is not finite, nothing was written.
// RUN: echelon-opt %s -dist-overlap | FileCheck %s

!p = !ech.tensor<[embed=4], f32>
!n = !ech.tensor<[], f32>
module attributes {dist.mesh = #dist.mesh<>} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  // CHECK-LABEL: ech.step @train
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
  // A loss whose message other messages have joined.
  // CHECK-LABEL: ech.step @late
  ech.step @late {
    // CHECK: %[[G:.*]] = ech.constant 1.0
    // CHECK-NEXT: %[[N:.*]] = ech.global_norm %[[G]]
    // CHECK-NEXT: %[[L:.*]] = ech.constant 2.0
    // CHECK-NEXT: ech.report loss "loss", %[[L]]
    // CHECK-NEXT: ech.report norm "norm", %[[N]]
    // CHECK-NEXT: %[[D:.*]] = ech.map neg %[[G]]
    // CHECK-NEXT: ech.write @a, %[[D]]
    %g = ech.constant 1.0 {ech.phase = "backward"} : !p
    %n = ech.global_norm %g {ech.parameters = ["a"], ech.phase = "update"} : (!p) -> !n
    ech.report norm "norm", %n {ech.phase = "update"} : !n
    %d = ech.map neg %g {ech.phase = "update"} : (!p) -> !p
    ech.write @a, %d {ech.phase = "update"} : !p
    %l = ech.constant 2.0 : !n
    ech.report loss "loss", %l : !n
  }
}
