// Parameters that a loop reads at its position are offloaded, too: on pages of their own, before the moments. Those that
// are not end where these begin, so that moments lie as parameters do.
// RUN: echelon-opt %s --rt-plan-arenas | FileCheck %s
// CHECK: rt.offloaded = array<i64: 65536, 65536>
// CHECK: ech.variable param @w {{.*}}rt.offset = 65472
// CHECK: ech.variable param @layer.w {{.*}}rt.offset = 65536
// CHECK: ech.variable state @seen {{.*}}rt.offset = 0
// CHECK: ech.variable optimizer @optimizer.m.w {{.*}}rt.offset = 73728
// CHECK: ech.variable optimizer @optimizer.m.layer.w {{.*}}rt.offset = 73792
module attributes {dist.offload = "scratch", dist.offload_params} {
ech.variable param @w : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
ech.variable param @layer.w : !ech.tensor<[layer=2, n=1024], f32> = constant(0.0, 0.0)
ech.variable state @seen : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
ech.variable optimizer @optimizer.m.w : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
ech.variable optimizer @optimizer.m.layer.w : !ech.tensor<[layer=2, n=1024], f32> = constant(0.0, 0.0)
rt.function @train {
  %stack = rt.alloc state of @layer.w : !rt.buffer<[layer=2, n=1024], f32>
  %own = rt.alloc work : !rt.buffer<[n=1024], f32>
  rt.for "layer" = 2 {
  ^bb0(%l: index):
    %w = rt.view %stack from 0 plus (%l) times [1024] : !rt.buffer<[layer=2, n=1024], f32> -> !rt.buffer<[n=1024], f32>
    rt.copy_strided %own, %w : !rt.buffer<[n=1024], f32>, !rt.buffer<[n=1024], f32>
  }
}
}
