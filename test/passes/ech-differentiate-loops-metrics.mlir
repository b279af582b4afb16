// RUN: echelon-opt --ech-differentiate %s | FileCheck %s

// What a loop carries for a metric alone has no derivative, although parameters enter it: the backward loop carries the
// cotangent of the loss's value and nothing for the metric's.
ech.variable param @w : !ech.tensor<[e=2], f32> = normal(0.0, 0.02)
ech.step @train {
  %w = ech.read @w : <[e=2], f32>
  %zero = ech.constant 0.0 : <[], f32>
  // CHECK: ech.repeat "layer" = 3 reverse carry(%{{[^,]*}} : !ech.tensor<[e=2], f32>)
  %far, %y = ech.repeat "layer" = 3 carry(%zero, %w : !ech.tensor<[], f32>, !ech.tensor<[e=2], f32>) -> (!ech.tensor<[], f32>, !ech.tensor<[e=2], f32>) {
  ^bb0(%f: !ech.tensor<[], f32>, %x: !ech.tensor<[e=2], f32>):
    %n = ech.map mul %x, %w : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %s = ech.reduce sum %n over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
    %t = ech.map tanh %s : (!ech.tensor<[], f32>) -> !ech.tensor<[], f32>
    %g = ech.map add %f, %t : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
    ech.yield carry(%g, %n : !ech.tensor<[], f32>, !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
  ech.report metric "far", %far : <[], f32>
}
