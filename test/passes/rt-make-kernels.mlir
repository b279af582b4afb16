// RUN: echelon-opt %s --rt-make-kernels | FileCheck %s

!bse = !rt.buffer<[batch=2, seq=4, embed=8], f32>
!se = !rt.buffer<[seq=4, embed=8], f32>
!b = !rt.buffer<[batch=2], f32>
!e = !rt.buffer<[embed=8], f32>
!long = !rt.buffer<[batch=2, n=40000], f32>
!n = !rt.buffer<[n=?], f32>
// CHECK-LABEL: rt.function @train
rt.function @train {
  %x = rt.alloc work at 0 {rt.name = "x"} : !bse
  %w = rt.alloc work at 256 {rt.name = "w"} : !se
  %y = rt.alloc work at 384 {rt.name = "y"} : !bse
  %s = rt.alloc work at 640 {rt.name = "s"} : !b
  %g = rt.alloc work at 704 {rt.name = "g"} : !e
  %l = rt.alloc work at 768 {rt.name = "l"} : !long

  // A thread for 4 points, which it moves at once; seq and embed are walked in one stride by all buffers: one loop.
  // CHECK:      } loops {
  // CHECK-NEXT:   rt.kernel "y_kernel" [#rt.size<batch=2>, #rt.size<seq=4, embed=8>] summed [false, false](%{{.*}}, %{{.*}}, %{{.*}}) {
  // CHECK-NEXT:   ^bb0(%[[B:.*]]: index, %[[I:.*]]: index, %[[TO:.*]]: !rt.buffer{{.*}}, %[[FROM:.*]]: !rt.buffer{{.*}}, %[[BY:.*]]: !rt.buffer{{.*}}):
  // CHECK-NEXT:     %[[X:.*]] = rt.load %[[FROM]][%[[B]], %[[I]]] by [32, 1]
  // CHECK-NEXT:     %[[W:.*]] = rt.load %[[BY]][%[[I]]] by [1]
  // CHECK-NEXT:     %[[P:.*]] = rt.compute "mul" %[[X]], %[[W]]
  // CHECK-NEXT:     rt.store %[[P]] to %[[TO]][%[[B]], %[[I]]] by [32, 1]
  // CHECK-NEXT:   } {rt.name = ["b", "i", "y", "x", "w", "at", "row", "j", "y_pack", "x_pack", "w_pack"], rt.pack = 4 : i64}
  rt.fused ["batch", "seq", "embed"] = [2, 4, 8](%x, %w) -> ["store"](%y) {
  ^bb0(%a: f32, %c: f32):
    %p = rt.compute "mul" %a, %c : (f32, f32) -> f32
    rt.yield %p : f32
  } : (!bse, !se) -> (!bse)

  // Sums over different loops are kernels of their own. What all points have goes with the last, which reads a place that
  // it writes first; the sum over all that is not embed is a sum of columns.
  // CHECK:      } loops {
  // CHECK-NEXT:   rt.kernel "s_kernel" [{{.*}}batch=2>, {{.*}}seq=4>, {{.*}}embed=8>] summed [false, true, true](
  // CHECK:          rt.sum %{{.*}} to %{{.*}}[%{{.*}}] by [1]
  // CHECK:        rt.kernel "g_kernel" [{{.*}}] summed [true, true, false](
  // CHECK:          %[[BEFORE:.*]] = rt.load %{{.*}} by [32, 8, 1] {rt.name = "x_before"}
  // CHECK-NEXT:     rt.sum %[[BEFORE]] to %{{.*}}[%{{.*}}] by [1]
  // CHECK:          rt.store %{{.*}} to %{{.*}} by [32, 8, 1]
  rt.fused ["batch", "seq", "embed"] = [2, 4, 8](%x) -> ["sum", "sum", "store"](%s, %g, %x) {
  ^bb0(%a: f32):
    %p = rt.compute "sqrt" %a : (f32) -> f32
    rt.yield %p, %a, %p : f32, f32, f32
  } : (!bse) -> (!b, !e, !bse)

  // A long sum of floats is added up in double.
  // CHECK:   rt.kernel "s_kernel_2" [#rt.size<batch=2>, #rt.size<n=40000>] summed [false, true](
  // CHECK:     rt.sum %{{.*}} to %{{.*}}[%{{.*}}] by [1] adds wide
  rt.fused ["batch", "n"] = [2, 40000](%l) -> ["add"](%s) {
  ^bb0(%a: f32):
    rt.yield %a : f32
  } : (!long) -> (!b)

  // The same again is the same kernel.
  // CHECK:   rt.kernel "y_kernel" [
  rt.fused ["batch", "seq", "embed"] = [2, 4, 8](%x, %w) -> ["store"](%y) {
  ^bb0(%a: f32, %c: f32):
    %p = rt.compute "mul" %a, %c : (f32, f32) -> f32
    rt.yield %p : f32
  } : (!bse, !se) -> (!bse)

  // An output that lacks a loop is the same in all positions of it: the first is taken.
  // CHECK:      rt.kernel "s_kernel{{.*}}" [#rt.size<n=8>] summed [false](
  // CHECK:        rt.load %{{.*}}[%{{.*}}] by [1]
  // CHECK-NEXT:   rt.store
  %copies = rt.alloc work at 2048 {rt.name = "copies"} : !rt.buffer<[copy=2, n=8], f32>
  %one = rt.alloc work at 4096 {rt.name = "s"} : !rt.buffer<[n=8], f32>
  %same = rt.view %one from 0 : !rt.buffer<[n=8], f32> -> !rt.buffer<[copy=2, n=8], f32, [0, 1]>
  rt.fused ["copy", "n"] = [2, 8](%copies) -> ["store"](%same) {
  ^bb0(%a: f32):
    rt.yield %a : f32
  } : (!rt.buffer<[copy=2, n=8], f32>) -> (!rt.buffer<[copy=2, n=8], f32, [0, 1]>)

  // After the norm of the gradients, kernels do nothing in a step that is not finite.
  // CHECK: rt.report
  // CHECK: rt.kernel "y_kernel_2" [#rt.size<batch=2, seq=4, embed=8>] summed [false](%{{.*}}, %{{.*}}) guarded {
  %norm = rt.alloc work at 1024 {rt.name = "norm"} : !rt.buffer<[], f32>
  rt.report 0 "norm" "norm", %norm : !rt.buffer<[], f32>
  rt.fused ["batch", "seq", "embed"] = [2, 4, 8](%x) -> ["store"](%y) {
  ^bb0(%a: f32):
    rt.yield %a : f32
  } : (!bse) -> (!bse)
}

// A rule's kernel is called after it.
// CHECK-LABEL: rt.function @sgd
// CHECK: rt.kernel "sgd" [#rt.size<n=?>] summed [false](%{{.*}}, %{{.*}} numbers %{{.*}} : f32) guarded {
// CHECK: } {rt.name = ["i", "w", "d_w", "rate", "at", "row", "j", "w_pack", "d_w_pack"], rt.pack = 4 : i64}
rt.function @sgd {
^bb0(%w: !n, %d: !n, %n: index, %rate: f32):
  rt.fused ["n"] = [?](%w, %d) numbers (%rate : f32) -> ["store"](%w) {
  ^bb0(%a: f32, %c: f32, %r: f32):
    %p = rt.compute "mul" %c, %r : (f32, f32) -> f32
    %q = rt.compute "sub" %a, %p : (f32, f32) -> f32
    rt.yield %q : f32
  } : (!n, !n) -> (!n)
} {rt.name = ["w", "d_w", "n", "rate"]}
