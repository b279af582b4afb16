// RUN: echelon-opt --ech-expand-update --split-input-file %s | FileCheck %s

// The first line whose pattern matches takes the parameter; momentum is a new variable; decay takes what a contraction
// reads; the norm is reported.
module {
run.optimize "sgd" on ["*.bias"] with {decay = 0.1} rate <kind = constant, peak = 0.1>
run.optimize "sgd" on ["*"] with {decay = 0.1, momentum = 0.9} rate <kind = constant, peak = 0.1>
// CHECK: ech.variable optimizer @optimizer.momentum.layer.w : !ech.tensor<[in=3], f32> = constant(0.0{{.*}}, 0.0{{.*}}) stacked 1
// CHECK-NOT: optimizer.momentum.layer.bias
ech.variable param @layer.w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02) stacked 1 decayed
ech.variable param @layer.bias : !ech.tensor<[in=3], f32> = constant(0.0, 0.0)
ech.step @train {
  // CHECK: %[[W:.*]] = ech.read @layer.w
  // CHECK: %[[B:.*]] = ech.read @layer.bias
  %w = ech.read @layer.w : <[in=3], f32>
  %b = ech.read @layer.bias : <[in=3], f32>
  // CHECK: %[[NORM:.*]] = ech.global_norm %[[W]], %[[B]]
  // CHECK: ech.report norm "norm", %[[NORM]]
  // CHECK: %[[LR:.*]] = ech.scalar "learning_rate" line 1
  // CHECK: ech.write @optimizer.momentum.layer.w, %[[V:.*]] {
  // CHECK: %[[STEP:.*]] = ech.map mul %[[V]], %[[LR]]
  // CHECK: %[[NEXT:.*]] = ech.map sub %[[W]], %[[STEP]]
  // CHECK: ech.write @layer.w, %[[NEXT]] {ech.phase = "update"}
  // CHECK-NOT: ech.gradient
  ech.gradient @layer.w, %w : <[in=3], f32>
  ech.gradient @layer.bias, %b : <[in=3], f32>
}
}

// -----

// Adam reads both bias corrections; a clip scales the gradient; gradients that are looked at are stored as they were.
module attributes {ech.keep_gradients, ech.clip = 1.0} {
run.optimize "adam" on ["*"] with {beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8} rate <kind = constant, peak = 0.1>
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.step @train {
  // CHECK: %[[G:.*]] = ech.read @w
  %g = ech.read @w : <[in=3], f32>
  // CHECK: %[[SCALE:.*]] = ech.map min
  // CHECK: %[[CLIPPED:.*]] = ech.map mul %[[G]], %[[SCALE]]
  // CHECK: ech.write @optimizer.m.w
  // CHECK: ech.map mul %[[CLIPPED]], %[[CLIPPED]]
  // CHECK: ech.write @optimizer.v.w
  // CHECK: ech.scalar "bias_correction" beta 9.0{{0*}}e-01
  // CHECK: ech.scalar "bias_correction" beta 0.949
  // CHECK: ech.write @w
  // CHECK: ech.write @gradient.w, %[[G]]
  // CHECK-NOT: ech.gradient
  ech.gradient @w, %g : <[in=3], f32>
}
}

// -----

// LAMB scales the step by norms: of a parameter of repeats one for each index, of another the one that any norm is, which
// may be cut in any way. A gain is not scaled.
module {
run.optimize "lamb" on ["*"] with {beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.1} rate <kind = constant, peak = 0.1>
// CHECK-DAG: ech.variable param @layer.w {{.*}} {ech.update_rule = "lamb"
// CHECK-DAG: ech.variable param @gain {{.*}} {ech.update_rule = "lamb_without_decay"
ech.variable param @layer.w : !ech.tensor<[layer=2, in=3], f32> = normal(0.0, 0.02) stacked 1 decayed
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02) decayed
ech.variable param @gain : !ech.tensor<[in=3], f32> = constant(1.0, 0.0)
ech.step @train {
  // CHECK: ech.report norm
  // CHECK: ech.write @optimizer.v.layer.w
  // CHECK: %[[SUM:.*]] = ech.reduce sum %{{.*}} over ["in"] {{.*}} -> !ech.tensor<[layer=2], f32>
  // CHECK: ech.map sqrt %[[SUM]]
  // CHECK: ech.write @layer.w
  %s = ech.read @layer.w : <[layer=2, in=3], f32>
  %g = ech.read @w : <[in=3], f32>
  // CHECK: ech.global_norm
  // CHECK: ech.global_norm
  // CHECK: ech.write @w
  // CHECK-NOT: ech.global_norm
  ech.gradient @layer.w, %s : <[layer=2, in=3], f32>
  ech.gradient @w, %g : <[in=3], f32>
  ech.gradient @gain, %g : <[in=3], f32>
}
}

// -----

// An average follows its parameter, starts as it, and changes places with it for an evaluation.
module {
run.optimize "sgd" on ["*"] with {} rate <kind = constant, peak = 0.1>
run.average ema 0.9
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// CHECK: ech.variable average @average.w
// CHECK: ech.step @train.start
// CHECK:   %[[START:.*]] = ech.read @w
// CHECK:   ech.write @average.w, %[[START]]
// CHECK: ech.step @exchange
// CHECK:   %[[LAST:.*]] = ech.read @w
// CHECK:   %[[MEAN:.*]] = ech.read @average.w
// CHECK:   ech.write @w, %[[MEAN]]
// CHECK:   ech.write @average.w, %[[LAST]]
// CHECK: ech.step @train
ech.step @train {
  %g = ech.read @w : <[in=3], f32>
  // CHECK: ech.write @w, %[[NEXT:.*]] {
  // CHECK: ech.scalar "average_decay" beta 9.0{{0*}}e-01
  // CHECK: %[[NOW:.*]] = ech.map mul %[[NEXT]]
  // CHECK: %[[SUM:.*]] = ech.map add %{{.*}}, %[[NOW]]
  // CHECK: ech.write @average.w, %[[SUM]]
  ech.gradient @w, %g : <[in=3], f32>
}
ech.step @evaluate {
  %w = ech.read @w : <[in=3], f32>
}
}
