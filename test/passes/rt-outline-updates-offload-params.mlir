// RUN: echelon-opt %s --rt-outline-updates | FileCheck %s

// What an iteration reads of a parameter in a file is read while the one before it computes, and let go behind its last
// use. A part that is smaller than a page is left.
// CHECK-LABEL: rt.function @train
// CHECK:      rt.for "layer" = 4 reverse {
// CHECK-NEXT: ^bb0(%[[L:.*]]: index):
// CHECK-NEXT:   rt.next {ech.phase = "backward"}
// CHECK:        %[[W:.*]] = rt.view %[[ALL:.*]] from 0 plus(%[[L]]) times [2048]
// CHECK:        rt.copy_strided %{{.*}}, %[[W]]
// CHECK-NEXT:   rt.copy_strided %{{.*}}, %[[W]]
// CHECK-NEXT:   rt.let_go %[[W]]
// CHECK-NOT:    rt.let_go
// CHECK:      } ahead {
// CHECK-NEXT: ^bb0(%[[AT:.*]]: index):
// CHECK-NEXT:   %[[NEXT:.*]] = rt.view %[[ALL]] from 0 plus(%[[AT]]) times [2048]
// CHECK-NEXT:   rt.will_need %[[NEXT]]

!ws = !rt.buffer<[layer=4, row=2048], f32>
!w = !rt.buffer<[row=2048], f32>
!bs = !rt.buffer<[layer=4, few=512], f32>
!b = !rt.buffer<[few=512], f32>
module attributes {rt.offloaded = array<i64: 65536, 65536>, rt.state_bytes = 131072} {
  ech.variable param @w : !ech.tensor<[layer=4, row=2048], f32> = constant(0.0, 0.0)
  ech.variable param @b : !ech.tensor<[layer=4, few=512], f32> = constant(0.0, 0.0)
  rt.function @train {
    %ws = rt.alloc state of @w at 65536 : !ws
    %bs = rt.alloc state of @b at 98304 : !bs
    %t = rt.alloc work at 0 : !w
    %s = rt.alloc work at 8192 : !b
    rt.for "layer" = 4 reverse {
    ^bb0(%l: index):
      %w = rt.view %ws from 0 plus (%l) times [2048] : !ws -> !w
      rt.copy_strided %t, %w {ech.phase = "backward"} : !w, !w
      rt.copy_strided %t, %w {ech.phase = "backward"} : !w, !w
      %b = rt.view %bs from 0 plus (%l) times [512] : !bs -> !b
      rt.copy_strided %s, %b {ech.phase = "backward"} : !b, !b
    }
  }
}
