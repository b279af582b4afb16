// RUN: echelon-opt %s --rt-outline-updates | FileCheck %s

// Two loops that compute the same of other buffers are one rule. What is one number for a whole row is given as one.
// CHECK-LABEL: rt.function @sgd
// CHECK:       ^bb0(%[[W:.*]]: !rt.buffer<[n=?], f32>, %[[G:.*]]: !rt.buffer<[n=?], f32>, %[[M:.*]]: !rt.buffer<[n=?], f32>, %{{.*}}: index, %[[SCALE:.*]]: f32, %[[LR:.*]]: f64):
// CHECK:         rt.fused ["n"] = [?](%[[G]], %[[M]], %[[W]]) numbers(%[[SCALE]], %[[LR]] : f32, f64) -> ["store", "store"](%[[M]], %[[W]])
// CHECK-LABEL: rt.function @train
// CHECK:         rt.invoke @sgd(%[[A:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) count 8 writes [0, 2] {ech.phase = "update"}
// CHECK:         rt.invoke @sgd({{.*}}) count 4 writes [0, 2]
// A rule of its own, and a loop whose rows may lie in each other, stay loops.
// CHECK:         rt.fused ["embed"] = [4]
// CHECK:         rt.fused ["embed"] = [4]

!w = !rt.buffer<[batch=2, embed=4], f32>
!b = !rt.buffer<[embed=4], f32>
!one = !rt.buffer<[], f32>
ech.variable param @w : !ech.tensor<[batch=2, embed=4], f32> = constant(0.0, 0.0) {ech.update_rule = "sgd"}
ech.variable param @b : !ech.tensor<[embed=4], f32> = constant(0.0, 0.0) {ech.update_rule = "sgd"}
ech.variable param @c : !ech.tensor<[embed=4], f32> = constant(0.0, 0.0) {ech.update_rule = "sgd"}
ech.variable param @d : !ech.tensor<[embed=4], f32> = constant(0.0, 0.0) {ech.update_rule = "sgd"}
ech.variable optimizer @optimizer.momentum.w : !ech.tensor<[batch=2, embed=4], f32> = constant(0.0, 0.0)
ech.variable optimizer @optimizer.momentum.b : !ech.tensor<[embed=4], f32> = constant(0.0, 0.0)
rt.function @train {
  %w = rt.alloc state of @w at 0 : !w
  %b = rt.alloc state of @b at 64 : !b
  %c = rt.alloc state of @c at 128 : !b
  %d = rt.alloc state of @d at 192 : !b
  %mw = rt.alloc state of @optimizer.momentum.w at 256 : !w
  %mb = rt.alloc state of @optimizer.momentum.b at 320 : !b
  %gw = rt.alloc work at 0 : !w
  %gb = rt.alloc work at 64 : !b
  %scale = rt.alloc work at 128 : !one
  %lr = rt.number learning_rate : f64
  rt.fused ["batch", "embed"] = [2, 4](%gw, %mw, %w, %scale) numbers(%lr : f64) -> ["store", "store"](%mw, %w) {
  ^bb0(%g: f32, %m: f32, %old: f32, %s: f32, %r: f32):
    %scaled = rt.compute "mul" %g, %s : (f32, f32) -> f32
    %next = rt.compute "add" %m, %scaled : (f32, f32) -> f32
    %step = rt.compute "mul" %next, %r : (f32, f32) -> f32
    %new = rt.compute "sub" %old, %step : (f32, f32) -> f32
    rt.yield %next, %new : f32, f32
  } {ech.phase = "update"} : (!w, !w, !w, !one) -> (!w, !w)
  rt.fused ["embed"] = [4](%gb, %mb, %b, %scale) numbers(%lr : f64) -> ["store", "store"](%mb, %b) {
  ^bb0(%g: f32, %m: f32, %old: f32, %s: f32, %r: f32):
    %scaled = rt.compute "mul" %g, %s : (f32, f32) -> f32
    %next = rt.compute "add" %m, %scaled : (f32, f32) -> f32
    %step = rt.compute "mul" %next, %r : (f32, f32) -> f32
    %new = rt.compute "sub" %old, %step : (f32, f32) -> f32
    rt.yield %next, %new : f32, f32
  } {ech.phase = "update"} : (!b, !b, !b, !one) -> (!b, !b)
  rt.fused ["embed"] = [4](%gb, %c) -> ["store"](%c) {
  ^bb0(%g: f32, %old: f32):
    %new = rt.compute "sub" %old, %g : (f32, f32) -> f32
    rt.yield %new : f32
  } {ech.phase = "update"} : (!b, !b) -> (!b)
  %inside = rt.view %d from 0 : !b -> !b
  rt.fused ["embed"] = [4](%inside, %d) -> ["store"](%d) {
  ^bb0(%g: f32, %old: f32):
    %new = rt.compute "sub" %old, %g : (f32, f32) -> f32
    rt.yield %new : f32
  } {ech.phase = "update"} : (!b, !b) -> (!b)
}
