// RUN: echelon-opt %s --rt-plan-arenas | FileCheck %s

// Buffers that live at the same time lie apart, 64-byte aligned; %c takes the place of %a, which nobody reads any more;
// %d is written where %c is read for the last time, so it lies there too. Stored tensors and inputs have arenas of their
// own.
// CHECK: rt.input_bytes = 64 : i64, rt.state_bytes = 128 : i64, rt.work_bytes = 512 : i64
// CHECK: ech.variable param @w {{.*}}rt.offset = 0
// CHECK: ech.variable param @v {{.*}}rt.offset = 64
ech.variable param @w : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
ech.variable param @v : !ech.tensor<[n=16], f32> = constant(0.0, 0.0)
ech.input @x 0 : !ech.tensor<[n=3], f32> below 0
rt.function @train {
  // CHECK: rt.alloc input of @x at 0
  %x = rt.alloc input of @x {rt.read = {type = !ech.tensor<[n=3], f32>}} : !rt.buffer<[n=3], f32>
  // CHECK: rt.alloc state of @v at 64
  %v = rt.alloc state of @v : !rt.buffer<[n=16], f32>
  // CHECK: rt.alloc work at [[A:[0-9]+]] : <[n=64], f32>
  %a = rt.alloc work : !rt.buffer<[n=64], f32>
  // CHECK: rt.alloc work at [[B:[0-9]+]] : <[n=64], f32>
  %b = rt.alloc work : !rt.buffer<[n=64], f32>
  // CHECK: rt.alloc work at [[A]] : <[n=64], f32>
  %c = rt.alloc work : !rt.buffer<[n=64], f32>
  // CHECK: rt.alloc work at [[A]] : <[n=64], f32>
  %d = rt.alloc work : !rt.buffer<[n=64], f32>
  rt.fill %a with 1.0 : !rt.buffer<[n=64], f32>
  rt.copy_strided %b, %a : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  rt.copy_strided %c, %b : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  rt.softmax %d, %c of <> <n=64> <> : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  rt.copy_strided %b, %d : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
}

// A buffer made outside of a loop and read in it is there in every iteration: nothing of the loop may lie on it.
// CHECK-LABEL: rt.function @evaluate
rt.function @evaluate {
  // CHECK: rt.alloc work at [[K:[0-9]+]] : <[n=64], f32>
  %k = rt.alloc work : !rt.buffer<[n=64], f32>
  rt.fill %k with 1.0 : !rt.buffer<[n=64], f32>
  rt.for "layer" = 2 {
  ^bb0(%i: index):
    // CHECK-NOT: rt.alloc work at [[K]] :
    %t = rt.alloc work : !rt.buffer<[n=64], f32>
    rt.copy_strided %t, %k : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
    rt.copy_strided %t, %t : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  }
}
