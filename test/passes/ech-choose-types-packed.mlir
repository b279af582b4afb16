// RUN: echelon-opt --ech-choose-types %s | FileCheck %s
// Under `precision fp16`, what `compress … with fp16` hands in travels in its two bytes, and is made f32 behind it.

!w = !ech.tensor<[embed=4], f32>
!each = !ech.tensor<[worker=2, embed=4], f32>
module {
run.precision f16
ech.variable param @w : !w = constant(0.0, 0.0)
ech.step @train {
  %w = ech.read @w : <[embed=4], f32>
  // CHECK: %[[EACH:.*]] = ech.per_worker %{{.*}} -> <[worker=2, embed=4], f32>
  %each = ech.per_worker %w : <[embed=4], f32> -> <[worker=2, embed=4], f32>
  // CHECK-NEXT: %[[HALF:.*]] = ech.map cast %[[EACH]] {{.*}}f32>) -> {{.*}}f16>
  %half = ech.map cast %each {ech.phase = "update"} : (!each) -> !ech.tensor<[worker=2, embed=4], f16>
  // CHECK-NEXT: %[[ALL:.*]] = ech.hand_in %[[HALF]] {{.*}}f16> -> <[workers=2, embed=4], f16>
  %all = ech.hand_in %half {ech.phase = "update"} : <[worker=2, embed=4], f16> -> <[workers=2, embed=4], f16>
  %wide = ech.map cast %all {ech.phase = "update"} : (!ech.tensor<[workers=2, embed=4], f16>) -> !ech.tensor<[workers=2, embed=4], f32>
  %sum = ech.reduce sum %wide over ["workers"] {ech.phase = "update"} : (!ech.tensor<[workers=2, embed=4], f32>) -> !w
  ech.write @w, %sum {ech.phase = "update"} : <[embed=4], f32>
}
}
