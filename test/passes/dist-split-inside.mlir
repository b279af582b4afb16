// RUN: echelon-opt %s --dist-split-inside --split-input-file | FileCheck %s

// A softmax along a divided axis: the maximum over all ranks, the sum over all ranks, then each its own part. Both
// messages go by what the `collective` clause says, and belong to the phase of the operation.
// CHECK-LABEL: ech.step @softmax
// CHECK:       %[[X:.*]] = ech.read @x
// CHECK-NEXT:  %[[OWN:.*]] = dist.partial maximum %[[X]] along ["past"] {ech.phase = "backward"} : {{.*}}dp = split batch, cp = own>>
// CHECK-NEXT:  %[[MAX:.*]] = dist.all_reduce %[[OWN]] by "max" over ["cp"] why "split past over cp" with "tree" {ech.phase = "backward"}
// CHECK-NEXT:  %[[PART:.*]] = dist.partial sum_of_exp %[[X]], %[[MAX]] along ["past"] {ech.phase = "backward"} : {{.*}}cp = sum>>
// CHECK-NEXT:  %[[SUM:.*]] = dist.all_reduce %[[PART]] over ["cp"] why "split past over cp" with "tree"
// CHECK-NEXT:  %[[P:.*]] = dist.combine softmax %[[X]], %[[MAX]], %[[SUM]] along ["past"]
// CHECK-NEXT:  ech.write @x, %[[P]]
!x = !ech.tensor<[batch=4, past=6], f32, #dist.state<dp = split batch, cp = split past>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], cp = 2 [past]>,
                   dist.algorithms = [{op = "all_reduce", over = ["cp"], algorithm = "tree"}]} {
  ech.variable state @x : !x = constant(0.0, 0.0)
  ech.step @softmax {
    %x = ech.read @x : !x
    %p = ech.softmax %x over ["past"] {dist.inside = ["cp"], ech.why = "split past over cp", ech.phase = "backward"} : (!x) -> !x
    ech.write @x, %p : !x
  }
}

// -----

// Cross-entropy: the maximum is the shift; the sum and what the label picks are one message. The largest value travels
// with its place, and each rank looks for the largest of all.
// CHECK-LABEL: ech.step @classes
// CHECK:       %[[X:.*]] = ech.read @x
// CHECK:       %[[MAX:.*]] = dist.all_reduce %{{.*}} by "max"
// CHECK-NEXT:  %[[PARTS:.*]]:2 = dist.partial cross_entropy %[[X]], %[[MAX]], %{{.*}} along ["class"]
// CHECK-NEXT:  %[[SUMS:.*]]:2 = dist.all_reduce %[[PARTS]]#0, %[[PARTS]]#1 over ["tp"]
// CHECK-NEXT:  %[[CE:.*]]:2 = dist.combine cross_entropy %[[SUMS]]#0, %[[SUMS]]#1 along ["class"]
// CHECK-NEXT:  %[[OWN:.*]] = dist.partial largest %[[X]] along ["class"] : {{.*}} -> !ech.tensor<[part=2, batch=4], f32, #dist.state<tp = own>>
// CHECK-NEXT:  %[[ALL:.*]] = dist.collect %[[OWN]] into "rank" over ["tp"] why "split class over tp" : {{.*}} -> <[rank=2, part=2, batch=4], f32, #dist.state<tp = whole>>
// CHECK-NEXT:  %[[AT:.*]] = dist.combine argmax %[[ALL]] along ["class"] : {{.*}}i32
// CHECK:       ech.map add %[[CE]]#0, %[[MAX]]
!x = !ech.tensor<[batch=4, class=6], f32, #dist.state<tp = split class>>
!y = !ech.tensor<[batch=4], i32, #dist.state<tp = whole>>
!l = !ech.tensor<[batch=4], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [class]>} {
  ech.variable state @x : !x = constant(0.0, 0.0)
  ech.input @y 0 : !ech.tensor<[batch=4], i32> below 6
  ech.variable state @l : !l = constant(0.0, 0.0)
  ech.step @classes {
    %x = ech.read @x : !x
    %y = ech.read @y : !y
    %l, %shift, %log = ech.cross_entropy %x, %y over ["class"] {dist.inside = ["tp"], ech.why = "split class over tp"} : (!x, !y) -> (!l, !l, !l)
    %i = ech.argmax %x over ["class"] {dist.inside = ["tp"], ech.why = "split class over tp"} : (!x) -> !y
    %f = ech.map cast %i : (!y) -> !l
    %s = ech.map add %l, %shift : (!l, !l) -> !l
    %t = ech.map add %s, %f : (!l, !l) -> !l
    ech.write @l, %t : !l
  }
}

// -----

// Norms: moments are gathered, for they do not add up; the sums of the derivative do, and those of rms. What travels is
// in fp64. Of a norm whose result nobody reads the statistics are made.
// CHECK-LABEL: ech.step @norms
// CHECK:       %[[X:.*]] = ech.read @x
// CHECK-NEXT:  %[[M:.*]] = dist.partial moments %[[X]] along ["c"] : {{.*}} -> !ech.tensor<[batch=4, moment=3], f64, #dist.state<tp = own>>
// CHECK-NEXT:  %[[ALL:.*]] = dist.collect %[[M]] into "rank"
// CHECK-NEXT:  %[[Y:.*]]:5 = dist.combine normalize %[[X]], %[[ALL]] along ["c"]
// CHECK-NEXT:  %[[S:.*]] = dist.partial norm_sums %[[X]], %[[Y]]#0 along ["c"] : {{.*}} -> !ech.tensor<[batch=4, part=2], f64, #dist.state<tp = sum>>
// CHECK-NEXT:  %[[SUMS:.*]] = dist.all_reduce %[[S]] over ["tp"]
// CHECK-NEXT:  dist.combine normalize_grad %[[X]], %[[Y]]#0, %[[Y]]#1, %[[SUMS]] along ["c"]
// CHECK:       %[[Q:.*]] = dist.partial squares %[[X]] along ["c"] : {{.*}} -> !ech.tensor<[batch=4], f64, #dist.state<tp = sum>>
// CHECK-NEXT:  %[[SQUARES:.*]] = dist.all_reduce %[[Q]] over ["tp"]
// CHECK-NEXT:  dist.combine rms_normalize %[[X]], %[[SQUARES]] along ["c"]
// CHECK:       dist.collect
// CHECK-NEXT:  dist.combine statistics %{{.*}} along ["c"]
!x = !ech.tensor<[batch=4, c=6], f32, #dist.state<tp = split c>>
!r = !ech.tensor<[batch=4], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [c]>} {
  ech.variable state @x : !x = constant(0.0, 0.0)
  ech.variable state @m : !r = constant(0.0, 0.0)
  ech.step @norms {
    %x = ech.read @x : !x
    %y, %rstd, %mean, %variance, %low = ech.normalize %x over ["c"] {dist.inside = ["tp"], ech.why = "split c over tp"} : (!x) -> (!x, !r, !r, !r, !r)
    %dx = ech.normalize_grad %x, %y, %rstd over ["c"] {dist.inside = ["tp"], ech.why = "split c over tp"} : (!x, !x, !r) -> !x
    %z = ech.map add %dx, %y : (!x, !x) -> !x
    %u, %rstd_u, %mean_u, %variance_u, %low_u = ech.normalize %x over ["c"] {rms, dist.inside = ["tp"], ech.why = "split c over tp"} : (!x) -> (!x, !r, !r, !r, !r)
    %w = ech.map add %z, %u : (!x, !x) -> !x
    ech.write @x, %w : !x
    %v, %rstd_v, %mean_v, %variance_v, %low_v = ech.normalize %x over ["c"] {dist.inside = ["tp"], ech.why = "split c over tp"} : (!x) -> (!x, !r, !r, !r, !r)
    ech.write @m, %mean_v : !r
  }
}

// -----

// The global norm: one sum of squares, in fp64, over all mesh axes that divide a gradient.
// CHECK-LABEL: ech.step @norm
// CHECK:       %[[A:.*]] = ech.read @a
// CHECK-NEXT:  %[[B:.*]] = ech.read @b
// CHECK-NEXT:  %[[S:.*]] = dist.partial all_squares %[[A]], %[[B]] along [] {ech.parameters = ["a", "b"]} : {{.*}} -> !ech.tensor<[], f64, #dist.state<dp = sum, tp = sum>>
// CHECK-NEXT:  %[[SUM:.*]] = dist.all_reduce %[[S]] over ["dp", "tp"]
// CHECK-NEXT:  %[[N:.*]] = dist.combine root %[[SUM]] along []
// CHECK-NEXT:  ech.report norm "norm", %[[N]]
!a = !ech.tensor<[in=4, out=6], f32, #dist.state<dp = cut in, tp = whole>>
!b = !ech.tensor<[out=6], f32, #dist.state<dp = whole, tp = split out>>
!n = !ech.tensor<[], f32, #dist.state<dp = whole, tp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [], tp = 2 [out]>} {
  ech.variable state @a : !a = constant(0.0, 0.0)
  ech.variable state @b : !b = constant(0.0, 0.0)
  ech.step @norm {
    %a = ech.read @a : !a
    %b = ech.read @b : !b
    %n = ech.global_norm %a, %b {dist.inside = ["dp", "tp"], ech.why = "norm", ech.parameters = ["a", "b"]} : (!a, !b) -> !n
    ech.report norm "norm", %n : !n
  }
}
