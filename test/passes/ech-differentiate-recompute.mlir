// RUN: echelon-opt --split-input-file --ech-differentiate --ech-simplify %s | FileCheck %s

// What enters an iteration is kept. The backward body makes h, a and m of it again, with the draw of the same site; what
// makes only the next iteration's value, o and n, is not made again.
// CHECK-LABEL: policy = "full"
// CHECK: ech.repeat "layer" = 4 carry
// CHECK-NEXT: ^bb0(%[[X:.*]]: {{.*}}, %{{.*}}: {{.*}}):
// CHECK: ech.yield carry({{.*}}) stack(%[[X]] :
// CHECK: ech.repeat "layer" = 4 reverse carry
// CHECK-NEXT: ^bb0(%[[DY:.*]]: {{.*}}, %[[W:.*]]: {{.*}}, %[[KEPT:.*]]: {{.*}}):
// CHECK-NEXT: %[[H:.*]] = ech.map mul %[[KEPT]], %[[W]] {ech.phase = "backward"}
// CHECK-NEXT: %[[A:.*]] = ech.map tanh %[[H]] {ech.phase = "backward"}
// CHECK-NEXT: %[[DRAWN:.*]] = ech.random uniform "drop"
// CHECK-NEXT: %[[M:.*]] = ech.map mul %[[A]], %[[DRAWN]] {ech.phase = "backward"}
// CHECK-NEXT: %[[DM:.*]] = ech.map mul %[[DY]], %[[W]]
// CHECK-NEXT: ech.map mul %[[DY]], %[[M]]
// CHECK-NOT: ech.computes_again
module attributes {ech.recompute = {policy = "full"}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %h = ech.map mul %xi, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %a = ech.map tanh %h : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %drawn = ech.random uniform "drop" (0.0, 1.0) : <[e=2], f32>
    %m = ech.map mul %a, %drawn : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %o = ech.map mul %m, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %n = ech.map add %xi, %o : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// A value with a name of `keep` is kept beside it; what is left, m, is made again of that.
// CHECK-LABEL: ech.kept_by_repeats = ["a"]
// CHECK: ech.repeat "layer" = 4 carry
// CHECK-NEXT: ^bb0(%[[X:.*]]: {{.*}}, %{{.*}}: {{.*}}):
// CHECK: %[[A:.*]] = ech.map tanh
// CHECK: ech.yield carry({{.*}}) stack(%[[A]], %[[X]] :
// CHECK: ech.repeat "layer" = 4 reverse carry
// CHECK-NEXT: ^bb0(%{{.*}}: {{.*}}, %{{.*}}: {{.*}}, %[[KEPT:.*]]: {{.*}}, %{{.*}}: {{.*}}):
// CHECK-NEXT: %[[DRAWN:.*]] = ech.random uniform "drop"
// CHECK-NEXT: ech.map mul %[[KEPT]], %[[DRAWN]]
// CHECK-NOT: ech.kept_as
module attributes {ech.recompute = {policy = "keep", names = ["a"]}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %h = ech.map mul %xi, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %a = ech.map tanh %h {ech.kept_as = ["a"]} : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %drawn = ech.random uniform "drop" (0.0, 1.0) : <[e=2], f32>
    %m = ech.map mul %a, %drawn : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %o = ech.map mul %m, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %n = ech.map add %xi, %o : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// Groups of two: what enters a group is kept. Its derivative runs the loop over the group's iterations again, which
// stacks up what theirs reads; the parameter comes in, and its gradient goes out, in pairs. index(layer) counts on.
// CHECK-LABEL: policy = "every"
// CHECK: %[[PAIRS:.*]] = ech.relabel %{{.*}} {{\[}}["layer"]] -> {{\[}}["layer", "layer_in_group"]]
// CHECK: ech.repeat "layer" = 2 carry({{.*}}) slice(%[[PAIRS]] :
// CHECK-NEXT: ^bb0(%[[X:.*]]: {{.*}}, %{{.*}}: {{.*}}):
// CHECK: ech.repeat "layer_in_group" = 2 carry(%[[X]] : {{.*}}) slice({{.*}}) -> (!ech.tensor<[e=2], f32>) {
// CHECK: %[[GROUP:.*]] = ech.position "layer"
// CHECK: %[[BEFORE:.*]] = ech.map mul %[[GROUP]], %{{.*}} : (!ech.tensor<[], i32>
// CHECK: ech.map add %[[BEFORE]], %{{.*}} : (!ech.tensor<[], i32>
// CHECK: ech.yield carry({{.*}}) stack(%[[X]] :
// CHECK: ech.repeat "layer" = 2 reverse carry
// CHECK-NEXT: ^bb0(%[[DY:.*]]: {{.*}}, %{{.*}}: {{.*}}, %[[START:.*]]: {{.*}}):
// CHECK: %{{.*}}, %[[KEPT:.*]]:3 = ech.repeat "layer_in_group" = 2 carry(%[[START]] :
// CHECK: ech.map tanh
// CHECK: ech.yield carry
// CHECK: ech.repeat "layer_in_group" = 2 reverse carry(%[[DY]] : {{.*}}) slice({{.*}}%[[KEPT]]#
// CHECK-NOT: ech.map tanh
// CHECK: %[[DW:.*]] = ech.relabel %{{.*}} {{\[}}["layer", "layer_in_group"]] -> {{\[}}["layer"]]
// CHECK: ech.gradient @w, %[[DW]]
module attributes {ech.recompute = {policy = "every", every = 2, axis = "layer"}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %at = ech.position "layer" : <[], i32>
    %real = ech.map cast %at : (!ech.tensor<[], i32>) -> !ech.tensor<[], f32>
    %scaled = ech.map mul %xi, %real : (!ech.tensor<[e=2], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[e=2], f32>
    %h = ech.map mul %scaled, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %a = ech.map tanh %h : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %drawn = ech.random uniform "drop" (0.0, 1.0) : <[e=2], f32>
    %m = ech.map mul %a, %drawn : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %o = ech.map mul %m, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    %n = ech.map add %xi, %o : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}
