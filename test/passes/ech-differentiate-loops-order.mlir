// The cotangent of a sum comes in the order of one of its terms; the backward loop carries it in the order of the forward
// one.
// RUN: echelon-opt --ech-differentiate %s | FileCheck %s

!ba = !ech.tensor<[b=2, a=3], f32>
!ab = !ech.tensor<[a=3, b=2], f32>
!b = !ech.tensor<[b=2], f32>
ech.variable param @y : !ba = normal(0.0, 0.02)
ech.variable param @w : !ab = normal(0.0, 0.02)
ech.step @train {
  %y = ech.read @y : !ba
  %w = ech.read @w : !ab
  %f = ech.repeat "layer" = 3 carry(%y : !ba) -> (!ba) {
  ^bb0(%x: !ba):
    %n = ech.map tanh %x : (!ba) -> !ba
    ech.yield carry(%n : !ba)
  }
  // CHECK: %[[D:.*]] = ech.expand {{.*}} -> <[a=3, b=2], f32>
  // CHECK: %[[IN:.*]] = ech.expand %[[D]] {{.*}}-> <[b=2, a=3], f32>
  // CHECK: ech.repeat "layer" = 3 reverse carry(%[[IN]] : !ech.tensor<[b=2, a=3], f32>)
  %g = ech.map tanh %w : (!ab) -> !ab
  %z = ech.map add %f, %g : (!ba, !ab) -> !ba
  %s = ech.reduce sum %z over ["a"] : (!ba) -> !b
  %q = ech.map tanh %s : (!b) -> !b
  %l = ech.reduce sum %q over ["b"] : (!b) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : !ech.tensor<[], f32>
}
