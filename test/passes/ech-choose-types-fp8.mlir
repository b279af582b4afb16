// RUN: echelon-opt --ech-choose-types %s | FileCheck %s
// In fp8 dots take eight bits, scaled by the largest number; the last before a loss and its derivatives take bf16.

!x = !ech.tensor<[batch=8, embed=4], f32>
!w = !ech.tensor<[embed=4, ff=6], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
!s = !ech.tensor<[], f32>
module {
run.precision f8E4M3FN
ech.input @x 0 : !x below 0
ech.variable param @w : !w = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[X:.*]] = ech.read @x
  // CHECK: %[[W:.*]] = ech.read @w
  %x = ech.read @x : <[batch=8, embed=4], f32>
  %w = ech.read @w : <[embed=4, ff=6], f32>
  // CHECK: %[[SIZE:.*]] = ech.map abs %[[X]]
  // CHECK-NEXT: %[[LARGEST:.*]] = ech.reduce max %[[SIZE]] over ["batch", "embed"] : {{.*}} -> !ech.tensor<[], f32>
  // CHECK-NEXT: %[[MOST:.*]] = ech.constant 4.480000e+02
  // CHECK-NEXT: %[[ROOM:.*]] = ech.map div %[[MOST]], %[[LARGEST]]
  // CHECK-NEXT: %[[SCALE:.*]] = ech.map power_of_two %[[ROOM]]
  // CHECK-NEXT: %[[SCALED:.*]] = ech.map mul %[[X]], %[[SCALE]]
  // CHECK-NEXT: %[[ROUNDED:.*]] = ech.map round_e4m3 %[[SCALED]]
  // CHECK-NEXT: %[[BACK:.*]] = ech.map div %[[ROUNDED]], %[[SCALE]]
  // CHECK-NEXT: %[[X8:.*]] = ech.map cast %[[BACK]] : {{.*}} -> !ech.tensor<[batch=8, embed=4], bf16>
  // CHECK: ech.map round_e4m3
  // CHECK-NEXT: ech.map div
  // CHECK-NEXT: %[[W8:.*]] = ech.map cast
  // CHECK-NEXT: ech.dot %[[X8]], %[[W8]] over ["embed"]
  %h = ech.dot %x, %w over ["embed"] : (!x, !w) -> !h
  // CHECK-NOT: round_e4m3
  // CHECK: ech.dot {{.*}} over ["ff"]
  %d = ech.dot %h, %w over ["ff"] : (!h, !w) -> !x
  %l = ech.reduce sum %d over ["batch", "embed"] : (!x) -> !s
  ech.report loss "loss", %l : !s
  %one = ech.constant 1.0 {ech.phase = "backward"} : <[], f32>
  %dd = ech.expand %one {ech.phase = "backward"} : <[], f32> -> <[batch=8, embed=4], f32>
  // Of the last.
  // CHECK-NOT: round_e5m2
  // CHECK: ech.dot {{.*}} over ["embed"] {ech.phase = "backward"}
  %dh = ech.dot %dd, %w over ["embed"] {ech.phase = "backward"} : (!x, !w) -> !h
  // The gradient in E5M2, what the forward pass had in E4M3.
  // CHECK: ech.constant 4.480000e+02 {ech.phase = "backward"}
  // CHECK: ech.map round_e4m3 %{{.*}} {ech.phase = "backward"}
  // CHECK: ech.constant 5.734400e+04 {ech.phase = "backward"}
  // CHECK: ech.map round_e5m2 %{{.*}} {ech.phase = "backward"}
  // CHECK: ech.dot {{.*}} over ["batch"] {ech.phase = "backward"}
  %dw = ech.dot %x, %dh over ["batch"] {ech.phase = "backward"} : (!x, !h) -> !w
  // A product of the update takes what it is given.
  // CHECK-NEXT: ech.dot %{{.*}} over ["ff"] {ech.phase = "update"} : ({{.*}}, f32>, {{.*}}, f32>)
  %p = ech.dot %dw, %w over ["ff"] {ech.phase = "update"} : (!w, !w) -> !ech.tensor<[embed=4], f32>
  %n = ech.map add %dw, %p {ech.phase = "update"} : (!w, !ech.tensor<[embed=4], f32>) -> !w
  ech.write @w, %n {ech.phase = "update"} : <[embed=4, ff=6], f32>
}
}
