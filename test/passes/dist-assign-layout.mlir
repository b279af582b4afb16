// The list rule on a feed-forward block.
// RUN: echelon-opt %s -split-input-file -dist-assign-layout | FileCheck %s

// Tensor parallelism: the first product comes out split along ff, the second pending; the bias enters the sum as held
// by coordinate 0, and the sum is resolved once.
// CHECK-LABEL: tensor parallel
// CHECK: ech.variable param @w1 : !ech.tensor<[embed=4, ff=6], f32, #dist.state<tp = split ff>>
// CHECK: ech.variable param @b2 : !ech.tensor<[embed=4], f32, #dist.state<tp = whole>>
// CHECK: %[[B2:.*]] = ech.read @b2
// CHECK: %[[X:.*]] = ech.read @x : <[batch=8, embed=4], f32, #dist.state<tp = whole>>
// CHECK: %[[H:.*]] = ech.dot %[[X]], {{.*}} -> !ech.tensor<[batch=8, ff=6], f32, #dist.state<tp = split ff>>
// CHECK: %[[Y0:.*]] = ech.dot {{.*}} -> !ech.tensor<[batch=8, embed=4], f32, #dist.state<tp = sum>>
// CHECK: %[[HELD:.*]] = dist.convert %[[B2]] why "split ff over tp (mlp.ech:33): add (mlp.ech:12)" : <[embed=4], f32, #dist.state<tp = whole>> -> <[embed=4], f32, #dist.state<tp = sum>>
// CHECK: %[[Y:.*]] = ech.map add %[[Y0]], %[[HELD]] {{.*}} -> !ech.tensor<[batch=8, embed=4], f32, #dist.state<tp = sum>>
// CHECK: %[[DONE:.*]] = dist.convert %[[Y]] {{.*}} -> <[batch=8, embed=4], f32, #dist.state<tp = whole>>
// CHECK: ech.map mul %[[DONE]], %[[DONE]]
!x = !ech.tensor<[batch=8, embed=4], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
!w1 = !ech.tensor<[embed=4, ff=6], f32>
!w2 = !ech.tensor<[ff=6, embed=4], f32>
!b2 = !ech.tensor<[embed=4], f32>
!s = !ech.tensor<[], f32>
module @"tensor parallel" attributes {dist.mesh = #dist.mesh<tp = 2 [ff]>, dist.lines = {tp.ff = loc("mlp.ech":33:3)}} {
  ech.input @x 0 : !x below 0
  ech.variable param @w1 : !w1 = normal(0.0, 1.0)
  ech.variable param @w2 : !w2 = normal(0.0, 1.0)
  ech.variable param @b2 : !b2 = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.read @x : !x
    %w1 = ech.read @w1 : !w1
    %w2 = ech.read @w2 : !w2
    %b2 = ech.read @b2 : !b2
    %h = ech.dot %x, %w1 over ["embed"] : (!x, !w1) -> !h
    %r = ech.map relu %h : (!h) -> !h
    %y0 = ech.dot %r, %w2 over ["ff"] : (!h, !w2) -> !x
    %y = ech.map add %y0, %b2 : (!x, !b2) -> !x loc("mlp.ech":12:7)
    %q = ech.map mul %y, %y : (!x, !x) -> !x
    %s = ech.reduce sum %q over ["batch", "embed"] : (!x) -> !s
    ech.report loss "loss", %s : !s
  }
}

// -----

// Sequence parallelism: the product of ff takes a value split along seq whole; the pending result is added to one that
// is split, so it is resolved into its own state, split along seq.
// CHECK-LABEL: sequence parallel
// CHECK: %[[P:.*]] = ech.map add {{.*}} -> !ech.tensor<[seq=4, embed=4], f32, #dist.state<tp = split seq>>
// CHECK: %[[WHOLE:.*]] = dist.convert %[[P]] {{.*}}tp = split seq>> -> <[seq=4, embed=4], f32, #dist.state<tp = whole>>
// CHECK: ech.dot %[[WHOLE]], %{{.*}} over ["embed"]
// CHECK: %[[SUM:.*]] = ech.dot {{.*}} over ["ff"] {{.*}} -> !ech.tensor<[seq=4, embed=4], f32, #dist.state<tp = sum>>
// CHECK: %[[PART:.*]] = dist.convert %[[SUM]] {{.*}}tp = sum>> -> <[seq=4, embed=4], f32, #dist.state<tp = split seq>>
// CHECK: ech.map add %[[P]], %[[PART]]
!x = !ech.tensor<[seq=4, embed=4], f32>
!h = !ech.tensor<[seq=4, ff=6], f32>
!w1 = !ech.tensor<[embed=4, ff=6], f32>
!w2 = !ech.tensor<[ff=6, embed=4], f32>
!s = !ech.tensor<[], f32>
module @"sequence parallel" attributes {dist.mesh = #dist.mesh<tp = 2 [ff, seq]>} {
  ech.variable param @p : !x = normal(0.0, 1.0)
  ech.variable param @w1 : !w1 = normal(0.0, 1.0)
  ech.variable param @w2 : !w2 = normal(0.0, 1.0)
  ech.step @train {
    %p = ech.read @p : !x
    %w1 = ech.read @w1 : !w1
    %w2 = ech.read @w2 : !w2
    %x = ech.map add %p, %p : (!x, !x) -> !x
    %h = ech.dot %x, %w1 over ["embed"] : (!x, !w1) -> !h
    %y = ech.dot %h, %w2 over ["ff"] : (!h, !w2) -> !x
    %z = ech.map add %x, %y : (!x, !x) -> !x
    %q = ech.map mul %z, %z : (!x, !x) -> !x
    %s = ech.reduce sum %q over ["seq", "embed"] : (!x) -> !s
    ech.report loss "loss", %s : !s
  }
}

// -----

// Logits split along vocab: the cross-entropy communicates inside and its loss is whole; the index of its derivative is
// made in parts, and never converted.
// CHECK-LABEL: vocabulary parallel
// CHECK: %[[LOSS:[^,]*]], %{{[^,]*}}, %{{[^ ]*}} = ech.cross_entropy {{.*}} {dist.inside = ["tp"], ech.why = "split vocab over tp: inside cross_entropy
// CHECK-SAME: -> (!ech.tensor<[batch=4], f32, #dist.state<tp = whole>>
// CHECK: ech.index "vocab" : <[vocab=6], i32, #dist.state<tp = split vocab>>
// CHECK-NOT: dist.convert
!z = !ech.tensor<[batch=4, vocab=6], f32>
!l = !ech.tensor<[batch=4], i32>
!v = !ech.tensor<[batch=4], f32>
!i = !ech.tensor<[vocab=6], i32>
!e = !ech.tensor<[batch=4, vocab=6], i1>
!s = !ech.tensor<[], f32>
module @"vocabulary parallel" attributes {dist.mesh = #dist.mesh<tp = 2 [vocab]>} {
  ech.input @labels 0 : !l below 6
  ech.variable param @z : !z = normal(0.0, 1.0)
  ech.step @train {
    %z = ech.read @z : !z
    %l = ech.read @labels : !l
    %loss, %shift, %log = ech.cross_entropy %z, %l over ["vocab"] : (!z, !l) -> (!v, !v, !v)
    %i = ech.index "vocab" : !i
    %e = ech.map eq %i, %l : (!i, !l) -> !e
    %c = ech.map cast %e : (!e) -> !z
    %d = ech.map sub %z, %c : (!z, !z) -> !z
    ech.write @z, %d : !z
    %s = ech.reduce sum %loss over ["batch"] : (!v) -> !s
    ech.report loss "loss", %s : !s
  }
}

// -----

// `store optimizer over dp`: the gradient goes into its cut, the moment stays there, the parameter is cut for the
// update and gathered after it. Parts are one piece of memory each. A one-element parameter is never cut.
// CHECK-LABEL: stored optimizer
// CHECK: ech.variable param @w : !ech.tensor<[embed=4], f32, #dist.state<dp = whole>>
// CHECK: ech.variable optimizer @m : !ech.tensor<[embed=4], f32, #dist.state<dp = cut embed>>
// CHECK: ech.variable optimizer @flat : !ech.tensor<[odd=5], f32, #dist.state<dp = flat>>
// CHECK: ech.variable optimizer @rows : !ech.tensor<[odd=5, embed=4], f32, #dist.state<dp = flat>>
// CHECK: ech.variable optimizer @first : !ech.tensor<[in=1, layer=6, odd=5], f32, #dist.state<dp = cut layer>>
// CHECK: ech.variable optimizer @one : !ech.tensor<[], f32, #dist.state<dp = whole>>
// CHECK: %[[G:.*]] = ech.reduce sum {{.*}} -> !ech.tensor<[embed=4], f32, #dist.state<dp = sum>>
// CHECK: %[[CUT:.*]] = dist.convert %[[G]] {{.*}}dp = sum>> -> <[embed=4], f32, #dist.state<dp = cut embed>>
// CHECK: %[[M:.*]] = ech.map add %{{.*}}, %[[CUT]] {{.*}}-> !ech.tensor<[embed=4], f32, #dist.state<dp = cut embed>>
// CHECK: ech.write @m, %[[M]]
// CHECK: %[[W:.*]] = dist.convert %{{.*}} {{.*}}dp = whole>> -> <[embed=4], f32, #dist.state<dp = cut embed>>
// CHECK: %[[NEW:.*]] = ech.map sub %[[W]], %[[M]]
// CHECK: %[[ALL:.*]] = dist.convert %[[NEW]] {{.*}}dp = cut embed>> -> <[embed=4], f32, #dist.state<dp = whole>>
// CHECK: ech.write @w, %[[ALL]]
!w = !ech.tensor<[embed=4], f32>
!x = !ech.tensor<[batch=8, embed=4], f32>
module @"stored optimizer" attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>, dist.store = {optimizer = ["dp"]}} {
  ech.input @x 0 : !x below 0
  ech.variable param @w : !w = normal(0.0, 1.0)
  ech.variable optimizer @m : !w = constant(0.0, 0.0)
  ech.variable optimizer @flat : !ech.tensor<[odd=5], f32> = constant(0.0, 0.0)
  ech.variable optimizer @rows : !ech.tensor<[odd=5, embed=4], f32> = constant(0.0, 0.0)
  ech.variable optimizer @first : !ech.tensor<[in=1, layer=6, odd=5], f32> = constant(0.0, 0.0)
  ech.variable optimizer @one : !ech.tensor<[], f32> = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.read @x : !x
    %w = ech.read @w : !w
    %y = ech.map mul %x, %w : (!x, !w) -> !x
    %g = ech.reduce sum %y over ["batch"] {ech.phase = "backward"} : (!x) -> !w
    %m = ech.read @m {ech.phase = "update"} : !w
    %n = ech.map add %m, %g {ech.phase = "update"} : (!w, !w) -> !w
    ech.write @m, %n {ech.phase = "update"} : !w
    %v = ech.map sub %w, %n {ech.phase = "update"} : (!w, !w) -> !w
    ech.write @w, %v {ech.phase = "update"} : !w
  }
}

// -----

// In a loop: what is carried is in its own state, what is summed stays pending, the conversion of what comes from
// outside is outside, and a free value comes in as the slice that is asked for.
// CHECK-LABEL: loops
// CHECK-DAG: %[[FREE:.*]] = ech.read @t : <[layer=3, batch=4], f32, #dist.state<tp = split batch>>
// CHECK-DAG: %[[OUT:.*]] = dist.convert %{{.*}} {{.*}}tp = split key>> -> <[key=4], f32, #dist.state<tp = whole>>
// CHECK: ech.repeat "layer" = 3 carry({{.*}}) slice(%[[FREE]] :
// CHECK: ^bb0(%[[X:.*]]: !ech.tensor<[batch=4, key=4], f32, #dist.state<tp = split batch>>, %{{.*}}: !ech.tensor<[batch=4], f32, #dist.state<tp = split batch>>):
// CHECK: ech.map mul %[[X]], %[[OUT]]
// CHECK-NOT: dist.convert
// CHECK: ech.yield {{.*}} sum({{.*}} : !ech.tensor<[], f32, #dist.state<tp = sum>>)
!x = !ech.tensor<[batch=4, key=4], f32>
!k = !ech.tensor<[key=4], f32>
!t = !ech.tensor<[layer=3, batch=4], f32>
!ti = !ech.tensor<[batch=4], f32>
!s = !ech.tensor<[], f32>
module @loops attributes {dist.mesh = #dist.mesh<tp = 2 [batch, key]>} {
  ech.input @x 0 : !x below 0
  ech.input @t 1 : !t below 0
  ech.variable param @k : !k = normal(0.0, 1.0)
  ech.step @train {
    %x = ech.read @x : !x
    %t = ech.read @t : !t
    %k = ech.read @k : !k
    %y, %z = ech.repeat "layer" = 3 carry(%x : !x) slice(%t : !t) -> (!x) sum(!s) {
    ^bb0(%xi: !x, %ti: !ti):
      %m = ech.map mul %xi, %k : (!x, !k) -> !x
      %a = ech.map add %m, %ti : (!x, !ti) -> !x
      %r = ech.reduce sum %a over ["batch", "key"] : (!x) -> !s
      ech.yield carry(%a : !x) sum(%r : !s)
    }
    ech.report loss "loss", %z : !s
  }
}

// -----

// A gradient whose pieces do not divide further as the cut would have it (6 channels over 2, then over 2): it moves to
// the pieces of its parameter while it is pending, and is cut then.
// CHECK-LABEL: moves before it is cut
// CHECK: %[[G:.*]] = ech.conv_grad_w {{.*}} -> !ech.tensor<[out=6, in=1, k=2], f32, #dist.state<dp = sum, tp = split out>>
// CHECK: %[[MOVED:.*]] = dist.convert %[[G]] {{.*}} -> <[out=6, in=1, k=2], f32, #dist.state<dp = sum, tp = split k>>
// The norm reads the gradient first; the message is called by the parameter, and is where that is declared.
// CHECK: %[[CUT:.*]] = dist.convert %[[MOVED]] why "store optimizer over dp: gradient of w (dist-assign-layout.mlir:{{[0-9]+}})"
// CHECK-SAME: -> <[out=6, in=1, k=2], f32, #dist.state<dp = cut out, tp = split k>>
// CHECK: ech.global_norm %[[CUT]]
!x = !ech.tensor<[batch=8, in=1, time=6], f32>
!y = !ech.tensor<[batch=8, out=6, time=5], f32>
!w = !ech.tensor<[out=6, in=1, k=2], f32>
!s = !ech.tensor<[], f32>
module @"moves before it is cut" attributes {dist.mesh = #dist.mesh<dp = 2 [batch], tp = 2 [k, out]>, dist.store = {optimizer = ["dp"]}} {
  ech.input @x 0 : !x below 0
  ech.input @d 1 : !y below 0
  ech.variable param @w : !w = normal(0.0, 1.0)
  ech.step @train {
    %x = ech.read @x : !x
    %d = ech.read @d : !y
    %g = ech.conv_grad_w %d, %x {ech.phase = "backward", kernel = ["k"], over = ["in"], padHigh = array<i64: 0>, padLow = array<i64: 0>, stride = array<i64: 1>, window = ["time"]} : (!y, !x) -> !w
    %n = ech.global_norm %g {ech.parameters = ["w"], ech.phase = "update"} : (!w) -> !s
    ech.report norm "norm", %n {ech.phase = "update"} : !s
    %w = ech.read @w {ech.phase = "update"} : !w
    %v = ech.map sub %w, %g {ech.phase = "update"} : (!w, !w) -> !w
    ech.write @w, %v {ech.phase = "update"} : !w
  }
}

// -----

// One value that is the gradient of two parameters moves once, and is called by both.
// CHECK-LABEL: the gradient of two
// CHECK: dist.convert %{{.*}} why "split batch over dp: gradients of w, v (dist-assign-layout.mlir:{{[0-9]+}})"
!d = !ech.tensor<[batch=8, out=6], f32>
!b = !ech.tensor<[out=6], f32>
!n = !ech.tensor<[], f32>
module @"the gradient of two" attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
  ech.input @d 0 : !d below 0
  ech.variable param @w : !b = normal(0.0, 1.0)
  ech.variable param @v : !b = normal(0.0, 1.0)
  ech.step @train {
    %d = ech.read @d : !d
    %g = ech.reduce sum %d over ["batch"] {ech.phase = "backward"} : (!d) -> !b
    %n = ech.global_norm %g, %g {ech.parameters = ["w", "v"], ech.phase = "update"} : (!b, !b) -> !n
    ech.report norm "norm", %n {ech.phase = "update"} : !n
    ech.write @w, %g {ech.phase = "update"} : !b
    ech.write @v, %g {ech.phase = "update"} : !b
  }
}

// -----

// LAMB's norms of a parameter of repeats, one for each index: a sum of what is cut along another axis is pending, one of
// what is cut along the repeats' is cut as they are. Nothing is gathered but the parameter.
// CHECK-LABEL: norms of cuts
// CHECK: %[[PART:.*]] = ech.reduce {{.*}}dp = cut in>>) -> !ech.tensor<[layer=3], f32, #dist.state<dp = sum>>
// CHECK: dist.convert %[[PART]] {{.*}}dp = sum>> -> <[layer=3], f32, #dist.state<dp = whole>>
// CHECK: %[[OWN:.*]] = ech.reduce {{.*}}dp = cut layer>>) -> !ech.tensor<[layer=4], f32, #dist.state<dp = cut layer>>
// CHECK-NEXT: ech.map {{.*}}, %[[OWN]] {{.*}}-> !ech.tensor<[layer=4, in=6], f32, #dist.state<dp = cut layer>>
!w = !ech.tensor<[in=6, layer=3], f32>
!n = !ech.tensor<[layer=3], f32>
!v = !ech.tensor<[layer=4, in=6], f32>
!m = !ech.tensor<[layer=4], f32>
module @"norms of cuts" attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>, dist.store = {optimizer = ["dp"]}} {
  ech.variable param @w : !w = constant(0.0, 0.0)
  ech.variable param @v : !v = constant(0.0, 0.0)
  ech.step @train {
    %w = ech.read @w : !w
    %r = ech.map mul %w, %w {ech.phase = "update"} : (!w, !w) -> !w
    %s = ech.reduce sum %r over ["in"] {ech.phase = "update"} : (!w) -> !n
    %d = ech.map div %w, %s {ech.phase = "update"} : (!w, !n) -> !w
    ech.write @w, %d {ech.phase = "update"} : !w
    %v = ech.read @v : !v
    %q = ech.map mul %v, %v {ech.phase = "update"} : (!v, !v) -> !v
    %t = ech.reduce sum %q over ["in"] {ech.phase = "update"} : (!v) -> !m
    %e = ech.map div %v, %t {ech.phase = "update"} : (!v, !m) -> !v
    ech.write @v, %e {ech.phase = "update"} : !v
  }
}

// -----

// `store gradients, params` of a loop: each iteration gathers its parameters and scatters its gradients. Both are cut
// below the axis of the loop: along the first axis of a slice that divides (w), or flat in each slice (o).
// CHECK-LABEL: parameters of loops
// CHECK: ech.variable param @layer.w : !ech.tensor<[layer=2, embed=4, ff=6], f32, #dist.state<dp = cut embed>>
// CHECK: ech.variable param @layer.o : !ech.tensor<[layer=2, odd=5], f32, #dist.state<dp = flat below layer>>
// CHECK: %[[D:.*]]:2 = ech.repeat "layer" = 2 slice
// CHECK: ^bb0(%[[W:.*]]: !ech.tensor<[embed=4, ff=6], f32, #dist.state<dp = cut embed>>, %[[O:.*]]: !ech.tensor<[odd=5], f32, #dist.state<dp = flat>>):
// CHECK: dist.convert %[[W]] why "store gradients, params over dp: dot (dist-assign-layout.mlir:{{[0-9]+}})" {{.*}} -> <[embed=4, ff=6], f32, #dist.state<dp = whole>>
// CHECK: %[[G:.*]] = ech.dot {{.*}} over ["batch"]
// CHECK: dist.convert %[[O]] {{.*}} -> <[odd=5], f32, #dist.state<dp = whole>>
// CHECK: %[[R:.*]] = ech.reduce sum
// CHECK-DAG: %[[GW:.*]] = dist.convert %[[G]] {{.*}}dp = sum>> -> <[embed=4, ff=6], f32, #dist.state<dp = cut embed>>
// CHECK-DAG: %[[GO:.*]] = dist.convert %[[R]] {{.*}}dp = sum>> -> <[odd=5], f32, #dist.state<dp = flat>>
// CHECK: ech.yield stack(%[[GW]], %[[GO]] :
// CHECK: ech.gradient @layer.w, %[[D]]#0 {{.*}} : <[layer=2, embed=4, ff=6], f32, #dist.state<dp = cut embed>>
// CHECK: ech.gradient @layer.o, %[[D]]#1 {{.*}} : <[layer=2, odd=5], f32, #dist.state<dp = flat below layer>>
!wl = !ech.tensor<[layer=2, embed=4, ff=6], f32>
!ol = !ech.tensor<[layer=2, odd=5], f32>
!w = !ech.tensor<[embed=4, ff=6], f32>
!o = !ech.tensor<[odd=5], f32>
!x = !ech.tensor<[batch=8, embed=4], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
!y = !ech.tensor<[batch=8, odd=5], f32>
module @"parameters of loops" attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>, dist.store = {gradients = ["dp"], params = ["dp"]}} {
  ech.input @x 0 : !x below 0
  ech.input @y 1 : !y below 0
  ech.variable param @layer.w : !wl = normal(0.0, 1.0)
  ech.variable param @layer.o : !ol = normal(0.0, 1.0)
  ech.step @train {
    %x = ech.read @x : !x
    %y = ech.read @y : !y
    %w = ech.read @layer.w : !wl
    %o = ech.read @layer.o : !ol
    %dw, %do = ech.repeat "layer" = 2 slice(%w, %o : !wl, !ol) -> () stack(!wl, !ol) {
    ^bb0(%a: !w, %b: !o):
      %h = ech.dot %x, %a over ["embed"] : (!x, !w) -> !h
      %g = ech.dot %x, %h over ["batch"] {ech.phase = "backward"} : (!x, !h) -> !w
      %z = ech.map mul %y, %b : (!y, !o) -> !y
      %r = ech.reduce sum %z over ["batch"] {ech.phase = "backward"} : (!y) -> !o
      ech.yield stack(%g, %r : !w, !o)
    }
    ech.gradient @layer.w, %dw {ech.phase = "update"} : !wl
    ech.gradient @layer.o, %do {ech.phase = "update"} : !ol
  }
}

// -----

// In micro batches what stands outside of loops is gathered for each pass, and its gradient scattered in each. What is
// rounded is rounded before it travels.
// CHECK-LABEL: parameters of passes
// CHECK: %[[W:.*]] = ech.read @w : <[embed=4], f32, #dist.state<dp = cut embed>>
// CHECK: ech.map cast %[[W]] : {{.*}} -> !ech.tensor<[embed=4], bf16, #dist.state<dp = cut embed>>
// CHECK: ech.repeat "micro" = 2 time
// CHECK: dist.convert {{.*}} -> <[embed=4], bf16, #dist.state<dp = whole>>
// CHECK: %[[G:.*]] = ech.reduce sum
// CHECK: %[[C:.*]] = dist.convert %[[G]] {{.*}} -> <[embed=4], f32, #dist.state<dp = cut embed>>
// CHECK: ech.yield sum(%[[C]]
!w = !ech.tensor<[embed=4], f32>
!n = !ech.tensor<[embed=4], bf16>
!x = !ech.tensor<[batch=8, embed=4], f32>
!xs = !ech.tensor<[micro=2, batch=8, embed=4], f32>
module @"parameters of passes" attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>, dist.store = {gradients = ["dp"], params = ["dp"]}} {
  ech.input @x 0 : !xs below 0
  ech.variable param @w : !w = normal(0.0, 1.0)
  ech.step @train {
    %x = ech.read @x : !xs
    %w = ech.read @w : !w
    %n = ech.map cast %w : (!w) -> !n
    %d = ech.repeat "micro" = 2 time slice(%x : !xs) -> () sum(!w) {
    ^bb0(%i: !x):
      %v = ech.map cast %n : (!n) -> !w
      %h = ech.map mul %i, %v : (!x, !w) -> !x
      %g = ech.reduce sum %h over ["batch"] {ech.phase = "backward"} : (!x) -> !w
      ech.yield sum(%g : !w)
    }
    ech.gradient @w, %d {ech.phase = "update"} : !w
  }
}

// -----

// Totals that stages have added up are whole before a pass in which a loop takes slices of them: one stage alone may do
// that loop, so no message is in it.
// CHECK-LABEL: totals of stages
// CHECK: %[[COUNTS:.*]] = ech.repeat "micro" = 2 time {{.*}} sum (!ech.tensor<[front=3], f32, #dist.state<pp = sum>>)
// CHECK: %[[WHOLE:.*]] = dist.convert %[[COUNTS]] {{.*}} -> <[front=3], f32, #dist.state<pp = whole>>
// CHECK: ech.repeat "micro" = 2 time
// CHECK: ech.repeat "front" = 3 carry({{.*}}) slice(%[[WHOLE]]
// CHECK-NOT: dist.convert
// CHECK: ech.repeat "layer" = 2
!one = !ech.tensor<[], f32>
!c = !ech.tensor<[front=3], f32>
!x = !ech.tensor<[batch=8, embed=4], f32>
!xs = !ech.tensor<[micro=2, batch=8, embed=4], f32>
!w = !ech.tensor<[embed=4], f32>
!ws = !ech.tensor<[layer=2, embed=4], f32>
module @"totals of stages" attributes {dist.mesh = #dist.mesh<pp = 2 [layer]>} {
  ech.input @x 0 : !xs below 0
  ech.variable param @layer.w : !ws = normal(0.0, 1.0)
  ech.step @train {
    %x = ech.read @x : !xs
    %w = ech.read @layer.w : !ws
    %counts = ech.repeat "micro" = 2 time slice(%x : !xs) -> () sum(!c) {
    ^bb0(%i: !x):
      %kept = ech.repeat "front" = 3 -> () stack(!c) {
        %n = ech.reduce sum %i over ["batch", "embed"] : (!x) -> !one
        ech.yield stack(%n : !one)
      }
      %late = ech.repeat "layer" = 2 carry(%i : !x) slice(%w : !ws) -> (!x) {
      ^bb1(%j: !x, %v: !w):
        %k = ech.map mul %j, %v : (!x, !w) -> !x
        ech.yield carry(%k : !x)
      }
      ech.yield sum(%kept : !c)
    }
    %loss = ech.repeat "micro" = 2 time slice(%x : !xs) -> () sum(!one) {
    ^bb0(%i: !x):
      %front = ech.repeat "front" = 3 carry(%i : !x) slice(%counts : !c) -> (!x) {
      ^bb1(%j: !x, %n: !one):
        %k = ech.map tanh %j : (!x) -> !x
        %m = ech.map div %k, %n : (!x, !one) -> !x
        ech.yield carry(%m : !x)
      }
      %y = ech.repeat "layer" = 2 carry(%front : !x) slice(%w : !ws) -> (!x) {
      ^bb1(%j: !x, %v: !w):
        %k = ech.map mul %j, %v : (!x, !w) -> !x
        ech.yield carry(%k : !x)
      }
      %s = ech.reduce sum %y over ["batch", "embed"] : (!x) -> !one
      ech.yield sum(%s : !one)
    }
    ech.report loss "loss", %loss : !one
  }
}
