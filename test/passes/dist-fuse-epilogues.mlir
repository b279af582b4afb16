// RUN: echelon-opt %s --dist-fuse-epilogues | FileCheck %s
// What a GPU's kernels do beside a product, on the way of its numbers to memory.

!x = !ech.tensor<[batch=4, embed=6], bf16, #dist.state<dp = whole>>
!w = !ech.tensor<[embed=6, ff=8], bf16, #dist.state<dp = whole>>
!b = !ech.tensor<[ff=8], f32, #dist.state<dp = whole>>
!y = !ech.tensor<[batch=4, ff=8], f32, #dist.state<dp = whole>>
!r = !ech.tensor<[batch=4, ff=8], bf16, #dist.state<dp = whole>>
!renamed = !ech.tensor<[batch=4, ff2=8], f32, #dist.state<dp = whole>>
!renamedr = !ech.tensor<[batch=4, ff2=8], bf16, #dist.state<dp = whole>>
!pending = !ech.tensor<[batch=4, ff=8], f32, #dist.state<dp = sum>>

module attributes {dist.mesh = #dist.mesh<dp = 2 []>} {
ech.variable param @w : !w = constant(0.0, 0.0)
ech.variable param @b : !b = constant(0.0, 0.0)
ech.input @x 0 : !x below 0

ech.step @train {
  // CHECK:      %[[X:.*]] = ech.read @x
  // CHECK-NEXT: %[[W:.*]] = ech.read @w
  // CHECK-NEXT: %[[BIAS:.*]] = ech.read @b
  %x = ech.read @x : !x
  %w = ech.read @w : !w
  %b = ech.read @b : !b

  // The bias is rounded, added to the sum in f32, and that rounded once. Who reads it under another name of its axis
  // reads it rounded, too.
  // CHECK-NEXT: %[[B:.*]] = ech.map cast %[[BIAS]] :
  // CHECK-NEXT: %[[L:.*]] = dist.linear %[[X]], %[[W]] bias %[[B]] over ["embed"] : {{.*}} -> !ech.tensor<[batch=4, ff=8], bf16,
  // CHECK-NEXT: ech.relabel %[[L]]
  %y = ech.dot %x, %w over ["embed"] : (!x, !w) -> !y
  %z = ech.map add %y, %b : (!y, !b) -> !y
  %renamed = ech.relabel %z [["ff"]] -> [["ff2"]] : (!y) -> !renamed
  %rr = ech.map cast %renamed : (!renamed) -> !renamedr
  %f1 = ech.map cast %rr : (!renamedr) -> !renamed
  %n1 = ech.reduce sum %f1 over ["batch", "ff2"] : (!renamed) -> !ech.tensor<[], f32, #dist.state<dp = whole>>
  ech.report loss "one", %n1 : !ech.tensor<[], f32, #dist.state<dp = whole>>

  // Without a bias.
  // CHECK: dist.linear %[[X]], %[[W]] over ["embed"]
  %u = ech.dot %x, %w over ["embed"] : (!x, !w) -> !y
  %ur = ech.map cast %u : (!y) -> !r
  %f2 = ech.map cast %ur : (!r) -> !y
  %n2 = ech.reduce sum %f2 over ["batch", "ff"] : (!y) -> !ech.tensor<[], f32, #dist.state<dp = whole>>
  ech.report loss "two", %n2 : !ech.tensor<[], f32, #dist.state<dp = whole>>

  // What someone reads in f32, and what ranks have to sum up, stays f32.
  // CHECK-NOT: dist.linear
  // CHECK-COUNT-2: ech.dot
  %v = ech.dot %x, %w over ["embed"] : (!x, !w) -> !y
  %vr = ech.map cast %v : (!y) -> !r
  %f3 = ech.map cast %vr : (!r) -> !y
  %f4 = ech.map add %f3, %v : (!y, !y) -> !y
  %n3 = ech.reduce sum %f4 over ["batch", "ff"] : (!y) -> !ech.tensor<[], f32, #dist.state<dp = whole>>
  ech.report loss "three", %n3 : !ech.tensor<[], f32, #dist.state<dp = whole>>
  %p = ech.dot %x, %w over ["embed"] : (!x, !w) -> !pending
  %q = dist.all_reduce %p over ["dp"] why "a sum" : (!pending) -> !y
  %qr = ech.map cast %q : (!y) -> !r
  %f5 = ech.map cast %qr : (!r) -> !y
  %n4 = ech.reduce sum %f5 over ["batch", "ff"] : (!y) -> !ech.tensor<[], f32, #dist.state<dp = whole>>
  ech.report loss "four", %n4 : !ech.tensor<[], f32, #dist.state<dp = whole>>
}
}
