// A large gradient of a repeat travels iteration by iteration; a small one waits for the loop's end, and so does one that
// something else reads.
// RUN: echelon-opt %s -dist-overlap-loops=least-bytes=64 | FileCheck %s
// RUN: echelon-opt %s -dist-overlap-loops=least-bytes=64 -dist-group-messages -dist-overlap \
// RUN:   | FileCheck %s --check-prefix=ORDER
// Ranks of one machine send nothing earlier than they must.
// RUN: sed 's/node_ranks = 1/node_ranks = 2/' %s | echelon-opt -dist-overlap-loops=least-bytes=64 \
// RUN:   | FileCheck %s --check-prefix=NEAR
// RUN: sed 's/, dist.node_ranks = 1 : i64//' %s | echelon-opt -dist-overlap-loops=least-bytes=64 \
// RUN:   | FileCheck %s --check-prefix=NEAR
// NEAR-NOT: dist.start_each
// NEAR: tp = 2 [embed]
// RUN: not echelon-opt %s -dist-overlap-loops=least-bytes=0 2>&1 | FileCheck %s --check-prefix=ZERO

!x = !ech.tensor<[embed=16], f32, #dist.state<dp = sum>>
!s = !ech.tensor<[], f32, #dist.state<dp = sum>>
!xs = !ech.tensor<[layer=3, embed=16], f32, #dist.state<dp = sum>>
!ss = !ech.tensor<[layer=3], f32, #dist.state<dp = sum>>
!g = !ech.tensor<[layer=3, embed=16], f32, #dist.state<dp = whole>>
!gs = !ech.tensor<[layer=3], f32, #dist.state<dp = whole>>
!p = !ech.tensor<[layer=3, embed=16], f32>
!ps = !ech.tensor<[layer=3], f32>
// ZERO: error: least-bytes is at least 1
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>, dist.node_ranks = 1 : i64} {
  ech.variable param @w : !p = constant(0.0, 0.0)
  ech.variable param @v : !p = constant(0.0, 0.0)
  ech.variable param @u : !p = constant(0.0, 0.0)
  ech.variable param @s : !ps = constant(0.0, 0.0)
  // CHECK-LABEL: ech.step @train
  ech.step @train {
    %x = ech.constant 1.0 : !x
    // CHECK: ech.repeat "layer" = 3
    %y, %dw, %ds, %dv = ech.repeat "layer" = 3 reverse carry(%x : !x) -> (!x) stack (!xs, !ss, !xs) {
    ^bb0(%c: !x):
      // CHECK: %[[DW:.*]] = ech.map neg
      // CHECK-NEXT: %[[STARTED:.*]] = dist.start_each "all_reduce" %[[DW]] over ["dp"] why "w" with "ring" {ech.phase = "backward"} : (!ech.tensor<[embed=16], f32, #dist.state<dp = sum>>) -> !ech.tensor<[embed=16], f32, #dist.state<dp = whole>>
      %n = ech.map neg %c : (!x) -> !x
      // CHECK-NEXT: %[[DS:.*]] = ech.reduce
      %t = ech.reduce sum %n over ["embed"] : (!x) -> !s
      // CHECK: stack(%[[STARTED]], %[[DS]], %[[DW]] :
      ech.yield carry(%n : !x) stack(%n, %t, %n : !x, !s, !x)
    } {ech.phase = "backward"}
    // CHECK: %[[W:.*]] = dist.wait_each %{{.*}}#0 {ech.phase = "update"} : <[layer=3, embed=16], f32, #dist.state<dp = whole>>
    // ORDER: dist.start "all_reduce" %{{.*}}#1, %{{.*}}#2 over ["dp"] why "s; v"
    // ORDER-NEXT: ech.map neg
    // ORDER-NEXT: %[[W:.*]] = dist.wait_each
    // ORDER-NEXT: ech.write @w, %[[W]]
    %0 = dist.all_reduce %dw over ["dp"] why "w" with "ring" {ech.phase = "update"} : (!xs) -> !g
    // CHECK: dist.all_reduce {{.*}} why "s"
    %1 = dist.all_reduce %ds over ["dp"] why "s" {ech.phase = "update"} : (!ss) -> !gs
    // CHECK: dist.all_reduce {{.*}} why "v"
    %2 = dist.all_reduce %dv over ["dp"] why "v" {ech.phase = "update"} : (!xs) -> !g
    %3 = ech.map neg %dv {ech.phase = "update"} : (!xs) -> !xs
    // CHECK: ech.write @w, %[[W]]
    ech.write @w, %0 {ech.phase = "update"} : !g
    ech.write @v, %2 {ech.phase = "update"} : !g
    ech.write @u, %3 {ech.phase = "update"} : !xs
    ech.write @s, %1 {ech.phase = "update"} : !gs
  }
}

// What is stacked as it comes in is started first thing; a joint sum, and one of what micro batches added up, stay.
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>, dist.node_ranks = 1 : i64} {
  ech.variable param @w : !p = constant(0.0, 0.0)
  ech.variable param @v : !p = constant(0.0, 0.0)
  ech.variable param @u : !p = constant(0.0, 0.0)
  ech.variable param @t : !p = constant(0.0, 0.0)
  // CHECK-LABEL: ech.step @train
  ech.step @train {
    %x = ech.constant 1.0 : !x
    // CHECK: ^bb0(%[[C:.*]]: !ech.tensor
    // CHECK-NEXT: dist.start_each "all_reduce" %[[C]]
    // CHECK-NOT: dist.start_each
    %y, %dw, %dv, %du = ech.repeat "layer" = 3 carry(%x : !x) -> (!x) stack (!xs, !xs, !xs) {
    ^bb0(%c: !x):
      %n = ech.map neg %c : (!x) -> !x
      ech.yield carry(%n : !x) stack(%c, %n, %n : !x, !x, !x)
    } {ech.phase = "backward"}
    %0 = dist.all_reduce %dw over ["dp"] why "w" {ech.phase = "update"} : (!xs) -> !g
    // CHECK: dist.all_reduce {{.*}} why "v, u"
    %1:2 = dist.all_reduce %dv, %du over ["dp"] why "v, u" {ech.phase = "update"} : (!xs, !xs) -> (!g, !g)
    %z, %dt = ech.repeat "micro" = 2 time carry(%y : !x) -> (!x) sum (!xs) {
    ^bb0(%c: !x):
      %m, %ds = ech.repeat "layer" = 3 carry(%c : !x) -> (!x) stack (!xs) {
      ^bb0(%d: !x):
        ech.yield carry(%d : !x) stack(%d : !x)
      }
      ech.yield carry(%m : !x) sum(%ds : !xs)
    } {ech.phase = "backward"}
    // CHECK: dist.all_reduce {{.*}} why "t"
    %2 = dist.all_reduce %dt over ["dp"] why "t" {ech.phase = "update"} : (!xs) -> !g
    ech.write @w, %0 {ech.phase = "update"} : !g
    ech.write @v, %1#0 {ech.phase = "update"} : !g
    ech.write @u, %1#1 {ech.phase = "update"} : !g
    ech.write @t, %2 {ech.phase = "update"} : !g
  }
}

// With two ranks on each machine the batch is divided over machines, the width within one.
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], tp = 2 [embed]>, dist.node_ranks = 2 : i64} {
  ech.variable param @w : !ech.tensor<[layer=3, embed=64], f32> = constant(0.0, 0.0)
  ech.variable param @v : !ech.tensor<[layer=3, embed=64], f32> = constant(0.0, 0.0)
  // CHECK-LABEL: ech.step @train
  ech.step @train {
    %x = ech.constant 1.0 : <[embed=64], f32, #dist.state<dp = sum, tp = split embed>>
    %u = ech.constant 1.0 : <[embed=64], f32, #dist.state<dp = whole, tp = sum>>
    %y, %z, %dw, %dv = ech.repeat "layer" = 3 carry(%x, %u : !ech.tensor<[embed=64], f32, #dist.state<dp = sum, tp = split embed>>, !ech.tensor<[embed=64], f32, #dist.state<dp = whole, tp = sum>>) -> (!ech.tensor<[embed=64], f32, #dist.state<dp = sum, tp = split embed>>, !ech.tensor<[embed=64], f32, #dist.state<dp = whole, tp = sum>>) stack (!ech.tensor<[layer=3, embed=64], f32, #dist.state<dp = sum, tp = split embed>>, !ech.tensor<[layer=3, embed=64], f32, #dist.state<dp = whole, tp = sum>>) {
    ^bb0(%c: !ech.tensor<[embed=64], f32, #dist.state<dp = sum, tp = split embed>>, %d: !ech.tensor<[embed=64], f32, #dist.state<dp = whole, tp = sum>>):
      // CHECK: dist.start_each "all_reduce" {{.*}} over ["dp"] why "between"
      // CHECK-NOT: dist.start_each
      ech.yield carry(%c, %d : !ech.tensor<[embed=64], f32, #dist.state<dp = sum, tp = split embed>>, !ech.tensor<[embed=64], f32, #dist.state<dp = whole, tp = sum>>) stack(%c, %d : !ech.tensor<[embed=64], f32, #dist.state<dp = sum, tp = split embed>>, !ech.tensor<[embed=64], f32, #dist.state<dp = whole, tp = sum>>)
    } {ech.phase = "backward"}
    // CHECK: dist.wait_each
    %0 = dist.all_reduce %dw over ["dp"] why "between" {ech.phase = "update"} : (!ech.tensor<[layer=3, embed=64], f32, #dist.state<dp = sum, tp = split embed>>) -> !ech.tensor<[layer=3, embed=64], f32, #dist.state<dp = whole, tp = split embed>>
    // CHECK: dist.all_reduce {{.*}} over ["tp"] why "within"
    %1 = dist.all_reduce %dv over ["tp"] why "within" {ech.phase = "update"} : (!ech.tensor<[layer=3, embed=64], f32, #dist.state<dp = whole, tp = sum>>) -> !ech.tensor<[layer=3, embed=64], f32, #dist.state<dp = whole, tp = whole>>
    ech.write @w, %0 {ech.phase = "update"} : <[layer=3, embed=64], f32, #dist.state<dp = whole, tp = split embed>>
    ech.write @v, %1 {ech.phase = "update"} : <[layer=3, embed=64], f32, #dist.state<dp = whole, tp = whole>>
  }
}
