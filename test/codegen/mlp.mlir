// RUN: echelon-opt %s --mlir-print-debuginfo --dist-fuse --dist-lower-to-rt --rt-select-kernels --rt-plan-arenas --shape-program | echelon-translate --rt-to-cpp | FileCheck %s
// RUN: echelon-opt %s --mlir-print-debuginfo --dist-fuse --dist-lower-to-rt --rt-select-kernels --rt-plan-arenas --shape-program | echelon-translate --rt-to-cpp --profile | FileCheck %s --check-prefix=PROBED

// A multilayer perceptron as the passes before dist-fuse leave it: one step, forward, backward and update, on one rank.
module attributes {ech.batch = 8 : i64, ech.batch_axis = "batch"} {
  run.train "test" of "M" in "" folder "." batch 8 steps 3 seed 0
  run.data <kind = "npy", paths = ["x.npy", "y.npy"]> to ["x", "y"]
  run.optimize "sgd" all on ["*"] with {} rate <kind = constant, peak = 1.0e-1>
  ech.variable param @w1 : !ech.tensor<[in=6, hidden=5], f32> = constant(0.25, 0.0) decayed
  ech.variable param @b1 : !ech.tensor<[hidden=5], f32> = constant(0.0, 0.0)
  ech.variable param @w2 : !ech.tensor<[hidden=5, class=3], f32> = constant(0.125, 0.0) decayed
  ech.variable param @b2 : !ech.tensor<[class=3], f32> = constant(0.0, 0.0)
  ech.input @x 0 : !ech.tensor<[batch=8, in=6], f32> below 0
  ech.input @y 1 : !ech.tensor<[batch=8], i32> below 3
  ech.step @train {
    %x = ech.read @x : !ech.tensor<[batch=8, in=6], f32>
    %y = ech.read @y : !ech.tensor<[batch=8], i32>
    %w1 = ech.read @w1 : !ech.tensor<[in=6, hidden=5], f32>
    %b1 = ech.read @b1 : !ech.tensor<[hidden=5], f32>
    %w2 = ech.read @w2 : !ech.tensor<[hidden=5, class=3], f32>
    %b2 = ech.read @b2 : !ech.tensor<[class=3], f32>
    %a = ech.dot %x, %w1 over ["in"] : (!ech.tensor<[batch=8, in=6], f32>, !ech.tensor<[in=6, hidden=5], f32>) -> !ech.tensor<[batch=8, hidden=5], f32> loc("a"("mlp.ech":3:1))
    %s = ech.map add %a, %b1 : (!ech.tensor<[batch=8, hidden=5], f32>, !ech.tensor<[hidden=5], f32>) -> !ech.tensor<[batch=8, hidden=5], f32> loc("mlp.ech":4:1)
    %h = ech.map relu %s : (!ech.tensor<[batch=8, hidden=5], f32>) -> !ech.tensor<[batch=8, hidden=5], f32> loc("h"("mlp.ech":5:1))
    %l0 = ech.dot %h, %w2 over ["hidden"] : (!ech.tensor<[batch=8, hidden=5], f32>, !ech.tensor<[hidden=5, class=3], f32>) -> !ech.tensor<[batch=8, class=3], f32> loc("l0"("mlp.ech":6:1))
    %l = ech.map add %l0, %b2 : (!ech.tensor<[batch=8, class=3], f32>, !ech.tensor<[class=3], f32>) -> !ech.tensor<[batch=8, class=3], f32> loc("logits"("mlp.ech":7:1))
    %ce:3 = ech.cross_entropy %l, %y over ["class"] : (!ech.tensor<[batch=8, class=3], f32>, !ech.tensor<[batch=8], i32>) -> (!ech.tensor<[batch=8], f32>, !ech.tensor<[batch=8], f32>, !ech.tensor<[batch=8], f32>) loc("ce"("mlp.ech":8:1))
    %sum = ech.reduce sum %ce#0 over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    %n = ech.count over ["batch"] = [8] : !ech.tensor<[], f32>
    %loss = ech.map div %sum, %n : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32> loc("loss"("mlp.ech":9:1))
    ech.report loss "loss", %loss : !ech.tensor<[], f32>
    %one = ech.constant 1.0 {ech.phase = "backward"} : !ech.tensor<[], f32>
    %g = ech.map div %one, %n {ech.phase = "backward"} : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
    %i = ech.index "class" {ech.phase = "backward"} : !ech.tensor<[class=3], i32>
    %eq = ech.map eq %i, %y {ech.phase = "backward"} : (!ech.tensor<[class=3], i32>, !ech.tensor<[batch=8], i32>) -> !ech.tensor<[batch=8, class=3], i1>
    %oh = ech.map cast %eq {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], i1>) -> !ech.tensor<[batch=8, class=3], f32>
    %d00 = ech.map sub %l, %ce#1 {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], f32>, !ech.tensor<[batch=8], f32>) -> !ech.tensor<[batch=8, class=3], f32>
    %d0 = ech.map sub %d00, %ce#2 {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], f32>, !ech.tensor<[batch=8], f32>) -> !ech.tensor<[batch=8, class=3], f32>
    %p = ech.map exp %d0 {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], f32>) -> !ech.tensor<[batch=8, class=3], f32>
    %d1 = ech.map sub %p, %oh {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], f32>, !ech.tensor<[batch=8, class=3], f32>) -> !ech.tensor<[batch=8, class=3], f32>
    %dl = ech.map mul %d1, %g {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8, class=3], f32> loc("d_logits"("mlp.ech":8:1))
    %db2 = ech.reduce sum %dl over ["batch"] {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], f32>) -> !ech.tensor<[class=3], f32> loc("d_b2"("mlp.ech":7:1))
    %dw2 = ech.dot %h, %dl over ["batch"] {ech.phase = "backward"} : (!ech.tensor<[batch=8, hidden=5], f32>, !ech.tensor<[batch=8, class=3], f32>) -> !ech.tensor<[hidden=5, class=3], f32> loc("d_w2"("mlp.ech":6:1))
    %dh = ech.dot %dl, %w2 over ["class"] {ech.phase = "backward"} : (!ech.tensor<[batch=8, class=3], f32>, !ech.tensor<[hidden=5, class=3], f32>) -> !ech.tensor<[batch=8, hidden=5], f32> loc("d_h"("mlp.ech":6:1))
    %zero = ech.constant 0.0 {ech.phase = "backward"} : !ech.tensor<[], f32>
    %pos = ech.map gt %s, %zero {ech.phase = "backward"} : (!ech.tensor<[batch=8, hidden=5], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8, hidden=5], i1>
    %ds = ech.map select %pos, %dh, %zero {ech.phase = "backward"} : (!ech.tensor<[batch=8, hidden=5], i1>, !ech.tensor<[batch=8, hidden=5], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8, hidden=5], f32> loc("d_s"("mlp.ech":5:1))
    %db1 = ech.reduce sum %ds over ["batch"] {ech.phase = "backward"} : (!ech.tensor<[batch=8, hidden=5], f32>) -> !ech.tensor<[hidden=5], f32> loc("d_b1"("mlp.ech":4:1))
    %dw1 = ech.dot %x, %ds over ["batch"] {ech.phase = "backward"} : (!ech.tensor<[batch=8, in=6], f32>, !ech.tensor<[batch=8, hidden=5], f32>) -> !ech.tensor<[in=6, hidden=5], f32> loc("d_w1"("mlp.ech":3:1))
    %lr = ech.scalar "learning_rate" {ech.phase = "update"} : !ech.tensor<[], f32>
    %u1 = ech.map mul %lr, %dw1 {ech.phase = "update"} : (!ech.tensor<[], f32>, !ech.tensor<[in=6, hidden=5], f32>) -> !ech.tensor<[in=6, hidden=5], f32>
    %n1 = ech.map sub %w1, %u1 {ech.phase = "update"} : (!ech.tensor<[in=6, hidden=5], f32>, !ech.tensor<[in=6, hidden=5], f32>) -> !ech.tensor<[in=6, hidden=5], f32>
    ech.write @w1, %n1 {ech.phase = "update"} : !ech.tensor<[in=6, hidden=5], f32>
    %u2 = ech.map mul %lr, %dw2 {ech.phase = "update"} : (!ech.tensor<[], f32>, !ech.tensor<[hidden=5, class=3], f32>) -> !ech.tensor<[hidden=5, class=3], f32>
    %n2 = ech.map sub %w2, %u2 {ech.phase = "update"} : (!ech.tensor<[hidden=5, class=3], f32>, !ech.tensor<[hidden=5, class=3], f32>) -> !ech.tensor<[hidden=5, class=3], f32>
    ech.write @w2, %n2 {ech.phase = "update"} : !ech.tensor<[hidden=5, class=3], f32>
    %u3 = ech.map mul %lr, %db1 {ech.phase = "update"} : (!ech.tensor<[], f32>, !ech.tensor<[hidden=5], f32>) -> !ech.tensor<[hidden=5], f32>
    %n3 = ech.map sub %b1, %u3 {ech.phase = "update"} : (!ech.tensor<[hidden=5], f32>, !ech.tensor<[hidden=5], f32>) -> !ech.tensor<[hidden=5], f32>
    ech.write @b1, %n3 {ech.phase = "update"} : !ech.tensor<[hidden=5], f32>
    %u4 = ech.map mul %lr, %db2 {ech.phase = "update"} : (!ech.tensor<[], f32>, !ech.tensor<[class=3], f32>) -> !ech.tensor<[class=3], f32>
    %n4 = ech.map sub %b2, %u4 {ech.phase = "update"} : (!ech.tensor<[class=3], f32>, !ech.tensor<[class=3], f32>) -> !ech.tensor<[class=3], f32>
    ech.write @b2, %n4 {ech.phase = "update"} : !ech.tensor<[class=3], f32>
  }
}

// The program reads like the model. The rate comes before the functions that call it.
// CHECK: double learning_rate(int64_t) { return 0.1; }
// CHECK: void update_parameter(float *w, const float *d_w, int64_t n, double lr) {
// CHECK:     w[i] = w[i] - static_cast<float>(lr) * d_w[i];
// CHECK: void forward(
// CHECK:   // mlp.ech:3
// CHECK-NEXT:   gemm(a, in.x, p.w1, batch, hidden, in_, Form::nn, Blas::{{[a-z]+}});
// CHECK:       act.h[b * hidden + h] = math::relu(
// CHECK:   update_parameter(p.w1, grad.w1, in_ * hidden, lr);

// Products count 2 m n k, and the bytes of both factors and the result.
// PROBED: {"gemm a [batch=8, hidden=5]", "mlp.ech:3", "products", 480, 472},
// An update counts the functions of its rule once: a product and a difference at each of 30 elements.
// PROBED: {"update_parameter w1 [in=6, hidden=5]", "{{.*}}", "loops", 60, 360},
