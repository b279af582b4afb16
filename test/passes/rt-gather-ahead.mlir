// RUN: echelon-opt %s --rt-gather-ahead | FileCheck %s
// The parameters of an iteration are gathered while the iteration before it computes, into one of two places; with the
// gather goes what lays out its message.

!stack = !rt.buffer<[layer=4, in=8, out=8], f32>
!part = !rt.buffer<[in=8, out=8], f32>
!bias = !rt.buffer<[layer=4, out=8], f32>
!some = !rt.buffer<[out=8], f32>
!message = !rt.buffer<[message=8], f32>
!both = !rt.buffer<[message=16], f32>
!w = !rt.buffer<[in=16, out=8], f32>
!x = !rt.buffer<[batch=2, in=16], f32>
!y = !rt.buffer<[batch=2, out=8], f32>
module {
ech.variable param @w : !ech.tensor<[layer=4, in=8, out=8], f32> = constant(0.0, 0.0)
ech.variable param @b : !ech.tensor<[layer=4, out=8], f32> = constant(0.0, 0.0)
// CHECK-LABEL: rt.function @train
rt.function @train {
  %stack = rt.alloc state of @w : !stack
  %biases = rt.alloc state of @b : !bias
  %x = rt.alloc work : !x
  %y = rt.alloc work : !y
  // CHECK: %[[BOTH:.*]] = rt.alloc work : <[slot=2, in=16, out=8], f32>
  // CHECK: %[[TICKETS:.*]] = rt.tickets 2
  // CHECK: %[[MESSAGE:.*]] = rt.alloc work : <[message=8], f32>
  // CHECK: %[[BOTH_B:.*]] = rt.alloc work : <[slot=2, message=16], f32>
  // CHECK: %[[TICKETS_B:.*]] = rt.tickets 2
  // CHECK: rt.for "layer" = 4 {
  // CHECK-NEXT: ^bb0(%[[L:.*]]: index):
  // CHECK-NEXT: %[[SLOT:.*]] = rt.slot %[[L]]
  // CHECK: rt.wait %[[TICKETS]][%[[SLOT]]]
  // CHECK-NEXT: rt.wait %[[TICKETS_B]][%[[SLOT]]]
  // CHECK-NEXT: rt.next
  // CHECK-NOT: rt.collective "all_gather"
  // CHECK: %[[W:.*]] = rt.view %[[BOTH]] from 0 plus(%[[SLOT]]) times [128]
  // CHECK: rt.gemm %{{.*}}, %{{.*}}, %[[W]]
  // A part of the result: in its slot, too.
  // CHECK: %[[SECOND:.*]] = rt.view %[[BOTH_B]] from 8 plus(%[[SLOT]]) times [16]
  // CHECK: rt.copy_strided %{{.*}}, %[[SECOND]]
  // What the loop makes is gathered where it stood.
  // CHECK: rt.collective "all_gather"
  // CHECK-NOT: rt.collective
  // CHECK: } ahead {
  // CHECK-NEXT: ^bb0(%[[AT:.*]]: index):
  // CHECK-NEXT: %[[OTHER:.*]] = rt.slot %[[AT]]
  // CHECK-NEXT: %[[PART:.*]] = rt.view %{{.*}} from 0 plus(%[[AT]]) times [64]
  // CHECK-NEXT: %[[THERE:.*]] = rt.view %[[BOTH]] from 0 plus(%[[OTHER]]) times [128]
  // CHECK-NEXT: rt.collective "all_gather" %[[PART]], %[[THERE]] {{.*}} keeps %[[TICKETS]][%[[OTHER]]]
  // CHECK-NEXT: %[[B:.*]] = rt.view %{{.*}} from 0 plus(%[[AT]]) times [8]
  // CHECK-NEXT: rt.copy_strided %[[MESSAGE]], %[[B]]
  // CHECK: rt.collective "all_gather" %[[MESSAGE]], %{{.*}} keeps %[[TICKETS_B]][%[[OTHER]]]
  rt.for "layer" = 4 {
  ^bb0(%l: index):
    %part = rt.view %stack from 0 plus (%l) times [64] : !stack -> !part
    %w = rt.alloc work : !w
    rt.collective "all_gather" %part, %w count 64 over [0] ranks 2 "dp" with "automatic" why "store params over dp" : !part, !w
    rt.gemm %y, %x, %w m <batch=2> n <out=8> k <in=16> ld <in=16> <out=8> <out=8> with tiled : !y, !x, !w
    %b = rt.view %biases from 0 plus (%l) times [8] : !bias -> !some
    %message = rt.alloc work : !message
    rt.copy_strided %message, %b : !message, !some
    %gathered = rt.alloc work : !both
    rt.collective "all_gather" %message, %gathered count 8 over [0] ranks 2 "dp" with "automatic" why "store params over dp" : !message, !both
    %second = rt.view %gathered from 8 : !both -> !some
    %own = rt.alloc work : !some
    rt.copy_strided %own, %second : !some, !some
    %all = rt.alloc work : !both
    rt.collective "all_gather" %own, %all count 8 over [0] ranks 2 "dp" with "automatic" why "of what is computed" : !some, !both
  }
  // A loop of one iteration has no iteration before it.
  // CHECK: rt.for "layer" = 1
  // CHECK-NOT: ahead
  rt.for "layer" = 1 {
  ^bb0(%l: index):
    %part = rt.view %stack from 0 plus (%l) times [64] : !stack -> !part
    %w = rt.alloc work : !w
    rt.collective "all_gather" %part, %w count 64 over [0] ranks 2 "dp" with "automatic" why "store params over dp" : !part, !w
    rt.gemm %y, %x, %w m <batch=2> n <out=8> k <in=16> ld <in=16> <out=8> <out=8> with tiled : !y, !x, !w
  }
}
}
