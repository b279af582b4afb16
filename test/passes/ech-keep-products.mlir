// RUN: echelon-opt --ech-keep-products --ech-differentiate --ech-choose-types %s | FileCheck %s
// What reads a parameter of `keep` takes and gives f32, also a slice of it in a loop, and so do its derivatives.

!x = !ech.tensor<[batch=8, embed=4], f32>
!w = !ech.tensor<[embed=4, ff=6], f32>
!h = !ech.tensor<[batch=8, ff=6], f32>
!s = !ech.tensor<[], f32>
!layers = !ech.tensor<[layer=3, embed=4, ff=6], f32>
module attributes {ech.batch = "batch"} {
run.precision bf16 keep ["head.*", "blocks.w"]
ech.input @x 0 : !x below 0
ech.variable param @head.w : !w = constant(0.0, 0.0)
ech.variable param @blocks.w : !layers = constant(0.0, 0.0) stacked 1
ech.variable param @blocks.v : !layers = constant(0.0, 0.0) stacked 1
// CHECK-LABEL: ech.step @train
ech.step @train {
  %x = ech.read @x : <[batch=8, embed=4], f32>
  %wi = ech.read @blocks.w : <[layer=3, embed=4, ff=6], f32>
  %vi = ech.read @blocks.v : <[layer=3, embed=4, ff=6], f32>
  // CHECK: ech.repeat "layer"
  %y = ech.repeat "layer" = 3 carry(%x : !x) slice(%wi, %vi : !layers, !layers) -> (!x) {
  ^bb0(%xi: !x, %w: !w, %v: !w):
    // CHECK: ech.dot %{{.*}} over ["embed"] {ech.stays_f32} : ({{.*}}, f32>, {{.*}}, f32>)
    // CHECK: ech.dot %{{.*}} over ["ff"] : ({{.*}}, bf16>, {{.*}}, bf16>)
    %h = ech.dot %xi, %w over ["embed"] : (!x, !w) -> !h
    %next = ech.dot %h, %v over ["ff"] : (!h, !w) -> !x
    ech.yield carry(%next : !x)
  }
  %head = ech.read @head.w : <[embed=4, ff=6], f32>
  // CHECK: ech.dot %{{.*}} over ["embed"] {ech.stays_f32} : ({{.*}}, f32>, {{.*}}, f32>)
  %z = ech.dot %y, %head over ["embed"] : (!x, !w) -> !h
  %l = ech.reduce sum %z over ["batch", "ff"] : (!h) -> !s
  ech.report loss "loss", %l : !s
  // Two products of the head's derivative, and in the loop two of w's and two of v's.
  // CHECK-COUNT-2: ech.dot %{{.*}} {ech.phase = "backward", ech.stays_f32} : ({{.*}}, f32>, {{.*}}, f32>)
  // CHECK: ech.repeat "layer"
  // CHECK-COUNT-2: ech.dot %{{.*}} {ech.phase = "backward"} : ({{.*}}, bf16>, {{.*}}, bf16>)
  // CHECK-COUNT-2: ech.dot %{{.*}} {ech.phase = "backward", ech.stays_f32} : ({{.*}}, f32>, {{.*}}, f32>)
  // CHECK-NOT: ech.dot
}
}
