// RUN: echelon-opt --ech-choose-types --split-input-file %s | FileCheck %s
// Parameters of two bytes: converted where something takes them in f32, rounded where they are written; a product takes
// them as they are.

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
  %w = ech.read @w : <[embed=4, ff=6], f32>
  %m = ech.read @m.w : <[embed=4, ff=6], f32>
  // CHECK: ech.dot %{{.*}}, %[[W]] over
  %h = ech.dot %x, %w over ["embed"] : (!x, !w) -> !h
  // CHECK: %[[WIDE:.*]] = ech.map cast %[[W]] {ech.phase = "update"} : {{.*}} -> !ech.tensor<[embed=4, ff=6], f32>
  // CHECK-NEXT: %[[NEXT:.*]] = ech.map add %[[WIDE]], %{{.*}} {ech.phase = "update"}
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

// -----

// Of a stack, each iteration's slice is narrow, and so is what only moves its elements: the whole is never in f32.

!x = !ech.tensor<[batch=8, embed=4], f32>
!g = !ech.tensor<[embed=4], f32>
!w = !ech.tensor<[embed=4, ff=4], f32>
!h = !ech.tensor<[batch=8, ff=4], f32>
module {
run.precision bf16 params bf16
ech.input @x 0 : !x below 0
ech.variable param @w : !ech.tensor<[layer=3, embed=4, ff=4], f32> = constant(0.0, 0.0) stacked 1
ech.variable param @g : !ech.tensor<[layer=3, embed=4], f32> = constant(0.0, 0.0) stacked 1
// CHECK-LABEL: ech.step @train
ech.step @train {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  // CHECK: %[[W:.*]] = ech.read @w : <[layer=3, embed=4, ff=4], bf16>
  // CHECK-NEXT: %[[G:.*]] = ech.read @g : <[layer=3, embed=4], bf16>
  // CHECK-NEXT: ech.map cast
  // CHECK-NEXT: ech.repeat "layer" = 3 carry({{.*}}) slice(%[[W]], %[[G]] :
  %w = ech.read @w : <[layer=3, embed=4, ff=4], f32>
  %g = ech.read @g : <[layer=3, embed=4], f32>
  // CHECK-NEXT: ^bb0({{[^,]*, embed=4[^%]*}}%[[SLICE:[^:]*]]: !ech.tensor<[embed=4, ff=4], bf16>, %[[GAIN:[^:]*]]: !ech.tensor<[embed=4], bf16>):
  %y = ech.repeat "layer" = 3 carry(%x : !x) slice(%w, %g : !ech.tensor<[layer=3, embed=4, ff=4], f32>, !ech.tensor<[layer=3, embed=4], f32>) -> (!x) {
  ^bb0(%a: !x, %s: !w, %gain: !g):
    // CHECK: %[[WIDE:.*]] = ech.map cast %[[GAIN]] : {{.*}} -> !ech.tensor<[embed=4], f32>
    // CHECK: ech.map mul %{{.*}}, %[[WIDE]]
    // CHECK: ech.dot %{{.*}}, %[[SLICE]] over
    %b = ech.map mul %a, %gain : (!x, !g) -> !x
    %h = ech.dot %b, %s over ["embed"] : (!x, !w) -> !h
    %back = ech.relabel %h [["ff"]] -> [["embed"]] : (!h) -> !x
    ech.yield carry(%back : !x)
  }
}
}
