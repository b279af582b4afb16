// RUN: echelon-opt --ech-choose-types --split-input-file %s | FileCheck %s
// Parameters of two bytes: converted where they are read, rounded where they are written; a product takes them as they
// are.

!x = !ech.tensor<[batch=8, embed=4], f32>
!w = !ech.tensor<[embed=4, ff=6], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
module {
run.precision bf16 params bf16
ech.input @x 0 : !x below 0
// CHECK: ech.variable param @w : !ech.tensor<[embed=4, ff=6], bf16>
ech.variable param @w : !w = constant(0.0, 0.0)
// CHECK: ech.variable optimizer @m.w : !ech.tensor<[embed=4, ff=6], f32>
ech.variable optimizer @m.w : !w = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  // CHECK: %[[W:.*]] = ech.read @w : <[embed=4, ff=6], bf16>
  // CHECK-NEXT: %[[WIDE:.*]] = ech.map cast %[[W]] : {{.*}} -> !ech.tensor<[embed=4, ff=6], f32>
  %w = ech.read @w : <[embed=4, ff=6], f32>
  %m = ech.read @m.w : <[embed=4, ff=6], f32>
  // CHECK: ech.dot %{{.*}}, %[[W]] over
  %h = ech.dot %x, %w over ["embed"] : (!x, !w) -> !h
  // CHECK: %[[NEXT:.*]] = ech.map add %[[WIDE]], %{{.*}} {ech.phase = "update"}
  // CHECK-NEXT: %[[NARROW:.*]] = ech.map cast %[[NEXT]] {ech.phase = "update"} : {{.*}} -> !ech.tensor<[embed=4, ff=6], bf16>
  // CHECK-NEXT: ech.write @w, %[[NARROW]]
  %n = ech.map add %w, %m {ech.phase = "update"} : (!w, !w) -> !w
  ech.write @w, %n {ech.phase = "update"} : <[embed=4, ff=6], f32>
}
}

// -----

// What is rounded right behind its read is taken as it is stored.

!x = !ech.tensor<[batch=8, embed=4], f32>
!w = !ech.tensor<[embed=4, ff=6], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
module {
run.precision bf16 params bf16
ech.input @x 0 : !x below 0
ech.variable param @w : !w = constant(0.0, 0.0)
ech.variable average @average.w : !w = constant(0.0, 0.0)
// CHECK-LABEL: ech.step @train
ech.step @train {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  // CHECK: %[[W:.*]] = ech.read @w : <[embed=4, ff=6], bf16>
  // CHECK: ech.dot %{{.*}}, %[[W]] over
  %w = ech.read @w : <[embed=4, ff=6], f32>
  %h = ech.dot %x, %w over ["embed"] : (!x, !w) -> !h
  // The average is of what is stored.
  // CHECK: %[[NARROW:.*]] = ech.map cast %{{.*}} {ech.phase = "update"} : {{.*}} -> !ech.tensor<[embed=4, ff=6], bf16>
  // CHECK-NEXT: ech.write @w, %[[NARROW]]
  // CHECK-NEXT: %[[STORED:.*]] = ech.map cast %[[NARROW]] {ech.phase = "update"} : {{.*}} -> !ech.tensor<[embed=4, ff=6], f32>
  // CHECK-NEXT: %[[AVERAGE:.*]] = ech.map add %[[STORED]],
  // CHECK-NEXT: ech.write @average.w, %[[AVERAGE]]
  %n = ech.map add %w, %w {ech.phase = "update"} : (!w, !w) -> !w
  ech.write @w, %n {ech.phase = "update"} : <[embed=4, ff=6], f32>
  %a = ech.map add %n, %w {ech.phase = "update"} : (!w, !w) -> !w
  ech.write @average.w, %a {ech.phase = "update"} : <[embed=4, ff=6], f32>
}
}
