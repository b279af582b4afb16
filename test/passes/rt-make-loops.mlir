// RUN: echelon-opt %s --rt-make-loops | FileCheck %s

!bse = !rt.buffer<[batch=2, seq=4, embed=8], f32>
!se = !rt.buffer<[seq=4, embed=8], f32>
!b = !rt.buffer<[batch=2], f32>
!long = !rt.buffer<[batch=2, n=600], f32>
!n = !rt.buffer<[n=600], f32>
// CHECK-LABEL: rt.function @train.start
rt.function @train.start {
  %x = rt.alloc work at 0 {rt.name = "x"} : !bse
  %w = rt.alloc work at 256 {rt.name = "w"} : !se
  %y = rt.alloc work at 384 {rt.name = "y"} : !bse
  %s = rt.alloc work at 640 {rt.name = "s"} : !b
  %l = rt.alloc work at 704 {rt.name = "l"} : !long
  %r = rt.alloc work at 5504 {rt.name = "r"} : !n

  // seq and embed are walked in one stride by all buffers: one loop.
  // CHECK:      } loops {
  // CHECK-NEXT:   rt.loop <batch=2> {
  // CHECK-NEXT:   ^bb0(%[[B:.*]]: index):
  // CHECK-NEXT:     rt.loop innermost <seq=4, embed=8> {
  // CHECK-NEXT:     ^bb0(%[[I:.*]]: index):
  // CHECK-NEXT:       %[[X:.*]] = rt.load %{{.*}}[%[[B]], %[[I]]] by [32, 1]
  // CHECK-NEXT:       %[[W:.*]] = rt.load %{{.*}}[%[[I]]] by [1]
  // CHECK-NEXT:       %[[P:.*]] = rt.compute "mul" %[[X]], %[[W]]
  // CHECK-NEXT:       rt.store %[[P]] to %{{.*}}[%[[B]], %[[I]]] by [32, 1]
  // CHECK-NEXT:     } {rt.name = "i"}
  // CHECK-NEXT:   } {rt.name = "b"}
  rt.fused ["batch", "seq", "embed"] = [2, 4, 8](%x, %w) -> ["store"](%y) {
  ^bb0(%a: f32, %c: f32):
    %p = rt.compute "mul" %a, %c : (f32, f32) -> f32
    rt.yield %p : f32
  } : (!bse, !se) -> (!bse)

  // What a row has once is loaded, and computed, before the loop inside; it then has a name.
  // CHECK:      } loops {
  // CHECK-NEXT:   rt.loop <batch=2> {
  // CHECK-NEXT:   ^bb0(%[[B:.*]]: index):
  // CHECK-NEXT:     %[[S:.*]] = rt.load %{{.*}}[%[[B]]] by [1]
  // CHECK-NEXT:     %[[ROOT:.*]] = rt.compute "sqrt" %[[S]] {rt.name = "value"}
  // CHECK-NEXT:     rt.loop innermost
  // CHECK:            rt.compute "mul" %{{.*}}, %[[ROOT]]
  rt.fused ["batch", "seq", "embed"] = [2, 4, 8](%x, %s) -> ["store"](%y) {
  ^bb0(%a: f32, %c: f32):
    %root = rt.compute "sqrt" %c : (f32) -> f32
    %p = rt.compute "mul" %a, %root : (f32, f32) -> f32
    rt.yield %p : f32
  } : (!bse, !b) -> (!bse)

  // A long sum of floats goes through double, block by block; the last block is shorter.
  // CHECK:      } loops {
  // CHECK-NEXT:   rt.loop <batch=2> {
  // CHECK-NEXT:   ^bb0(%[[B:.*]]: index):
  // CHECK-NEXT:     %[[SUM:.*]] = rt.local {rt.name = "s_sum"} : <f64>
  // CHECK-NEXT:     rt.loop <n=600> step 256 {
  // CHECK-NEXT:     ^bb0(%[[FIRST:.*]]: index):
  // CHECK-NEXT:       %[[END:.*]] = rt.block_end %[[FIRST]] plus 256 of <n=600> {rt.name = "n_e"}
  // CHECK-NEXT:       %[[BLOCK:.*]] = rt.local {rt.name = "block"} : <f32>
  // CHECK-NEXT:       rt.loop innermost <n=600> from %[[FIRST]] to %[[END]] sums(%[[BLOCK]] : !rt.local<f32>) {
  // CHECK-NEXT:       ^bb0(%[[I:.*]]: index):
  // CHECK-NEXT:         %[[X:.*]] = rt.load %{{.*}}[%[[B]], %[[I]]] by [600, 1]
  // CHECK-NEXT:         rt.accumulate %[[X]] to %[[BLOCK]]
  // CHECK-NEXT:       } {rt.name = "n"}
  // CHECK-NEXT:       %[[OF:.*]] = rt.total %[[BLOCK]]
  // CHECK-NEXT:       rt.accumulate %[[OF]] to %[[SUM]]
  // CHECK-NEXT:     } {rt.name = "n_f"}
  // CHECK-NEXT:     %[[ALL:.*]] = rt.total %[[SUM]] : <f64> -> f32
  // CHECK-NEXT:     rt.store %[[ALL]] to %{{.*}}[%[[B]]] by [1]
  rt.fused ["batch", "n"] = [2, 600](%l) -> ["sum"](%s) {
  ^bb0(%a: f32):
    rt.yield %a : f32
  } : (!long) -> (!b)

  // A sum over outer loops begins with zeros, and adds to the places of the output.
  // CHECK:      } loops {
  // CHECK-NEXT:   rt.zero %[[R:.*]] :
  // CHECK-NEXT:   rt.loop <batch=2> {
  // CHECK:          rt.loop innermost <n=600> {
  // CHECK:            rt.store %{{.*}} to %[[R]][%{{.*}}] by [1] adds
  rt.fused ["batch", "n"] = [2, 600](%l) -> ["sum"](%r) {
  ^bb0(%a: f32):
    rt.yield %a : f32
  } : (!long) -> (!n)

  // With two outputs, what one overwrites is loaded before the other is stored.
  // CHECK:      } loops {
  // CHECK:          %[[OLD:.*]] = rt.load %[[X:.*]][%{{.*}}] by [1] {rt.name = "x_before"}
  // CHECK-NEXT:     %[[NEG:.*]] = rt.compute "neg" %[[OLD]]
  // CHECK-NEXT:     rt.store %[[NEG]] to %[[X]]
  // CHECK-NEXT:     rt.store %[[OLD]] to
  rt.fused ["batch", "seq", "embed"] = [2, 4, 8](%x) -> ["store", "store"](%x, %y) {
  ^bb0(%a: f32):
    %n = rt.compute "neg" %a : (f32) -> f32
    rt.yield %n, %a : f32, f32
  } : (!bse) -> (!bse, !bse)

  // A value that is stored and used again is called after where it is stored: an element of a local buffer, or the
  // member of a struct itself.
  // CHECK:      } loops {
  // CHECK:          rt.compute "neg" %{{.*}} {rt.name = "s_element"}
  // CHECK:          rt.compute "sqrt" %{{.*}} {rt.name = "mean"}
  %m = rt.alloc work at 7936 {rt.member = ["Activations", "mean"]} : !b
  rt.fused ["batch"] = [2](%s) -> ["store", "store", "store"](%s, %m, %s) {
  ^bb0(%a: f32):
    %n = rt.compute "neg" %a : (f32) -> f32
    %q = rt.compute "sqrt" %n : (f32) -> f32
    %p = rt.compute "mul" %n, %q : (f32, f32) -> f32
    rt.yield %n, %q, %p : f32, f32, f32
  } : (!b) -> (!b, !b, !b)
}
