// RUN: echelon-opt %s --rt-move-messages | FileCheck %s
// What is computed between a message's start and its wait moves it on, if it takes long enough.

!mk = !rt.buffer<[m=64, k=512], f32>
!kn = !rt.buffer<[k=512, n=1024], f32>
!mn = !rt.buffer<[m=64, n=1024], f32>
!few = !rt.buffer<[a=4, b=4], f32>
// CHECK-LABEL: rt.function @train
rt.function @train {
  %x = rt.alloc work : !mk
  %w = rt.alloc work : !kn
  %y = rt.alloc work : !mn
  %few = rt.alloc work : !few
  // CHECK: rt.gemm
  rt.gemm %y, %x, %w m <m=64> n <n=1024> k <k=512> ld <k=512> <n=1024> <n=1024> with openblas : !mn, !mk, !kn
  // Nothing is under way before the start.
  // CHECK-NEXT: rt.collective "all_reduce"
  %t = rt.collective "all_reduce" %w, %w count 524288 "Sum" over [0] ranks 2 "dp" with "ring" why "t" : !kn, !kn -> !rt.ticket
  // CHECK-NEXT: rt.gemm
  rt.gemm %y, %x, %w m <m=64> n <n=1024> k <k=512> ld <k=512> <n=1024> <n=1024> with openblas {ech.phase = "backward"} : !mn, !mk, !kn
  // CHECK-NEXT: rt.progress {ech.phase = "backward"}
  // A small product is over before a message could be looked at.
  // CHECK-NEXT: rt.gemm
  rt.gemm %few, %few, %few m <a=4> n <b=4> k <a=4> ld <a=4> <b=4> <b=4> with openblas : !few, !few, !few
  // CHECK-NEXT: rt.wait
  rt.wait %t
  // CHECK-NEXT: rt.gemm
  rt.gemm %y, %x, %w m <m=64> n <n=1024> k <k=512> ld <k=512> <n=1024> <n=1024> with openblas : !mn, !mk, !kn
  // A loop that starts messages: from its second iteration on one is under way all through it.
  // CHECK-NEXT: rt.tickets 4
  %each = rt.tickets 4
  // CHECK-NEXT: rt.for
  rt.for "layer" = 4 {
  ^bb0(%i: index):
    // CHECK: rt.gemm
    rt.gemm %y, %x, %w m <m=64> n <n=1024> k <k=512> ld <k=512> <n=1024> <n=1024> with openblas : !mn, !mk, !kn
    // CHECK-NEXT: rt.progress
    // CHECK-NEXT: rt.collective
    rt.collective "all_reduce" %w, %w count 524288 "Sum" over [0] ranks 2 "dp" with "ring" why "" keeps %each[%i] : !kn, !kn
  }
  // CHECK: rt.gemm
  rt.gemm %y, %x, %w m <m=64> n <n=1024> k <k=512> ld <k=512> <n=1024> <n=1024> with openblas : !mn, !mk, !kn
  // CHECK-NEXT: rt.progress
  // CHECK-NEXT: rt.wait
  rt.wait %each
}
