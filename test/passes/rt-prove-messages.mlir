// RUN: echelon-opt %s --rt-prove-messages --split-input-file | FileCheck %s

!d = !rt.buffer<[n=64], f32>
!stack = !rt.buffer<[layer=4, n=64], f32>
!row = !rt.buffer<[p=2, n=64], f32>

// Between its start and its wait, nothing touches the bytes of a message: another buffer may lie beside it, not on it.
// What is proven stays as it is.
// CHECK-LABEL: rt.function @beside
// CHECK:         rt.collective "all_reduce"
// CHECK-NEXT:    rt.fill
// CHECK-NEXT:    rt.wait
rt.function @beside {
  %d = rt.alloc work at 0 : !d
  %beside = rt.alloc work at 256 : !d
  rt.fill %d with 1.0 : !d
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !d, !d -> !rt.ticket
  rt.fill %beside with 1.0 : !d
  rt.wait %t
  rt.fill %d with 1.0 : !d
}

// What a message reads may be read meanwhile.
// CHECK-LABEL: rt.function @read
rt.function @read {
  %in = rt.alloc work at 0 : !d
  %all = rt.alloc work at 256 : !row
  %other = rt.alloc work at 1024 : !d
  rt.fill %in with 1.0 : !d
  %t = rt.collective "all_gather" %in, %all count 64 over [1] ranks 2 "tp" with "ring" why "w" : !d, !row -> !rt.ticket
  rt.copy_strided %other, %in : !d, !d
  rt.wait %t
}

// In a loop each iteration has a slice of its own; what is started there is under way in the iterations after it.
// CHECK-LABEL: rt.function @each
rt.function @each {
  %d = rt.alloc work at 0 : !stack
  %all = rt.tickets 4
  rt.for "layer" = 4 {
  ^bb0(%i: index):
    %here = rt.view %d from 0 plus (%i) times [64] : !stack -> !d
    rt.fill %here with 1.0 : !d
    rt.collective "all_reduce" %here, %here count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" keeps %all[%i] : !d, !d
  }
  rt.wait %all
}

// A buffer may take the place of one that nobody reads any more.
// CHECK-LABEL: rt.function @place
rt.function @place {
  %a = rt.alloc work at 0 : !d
  %b = rt.alloc work at 256 : !d
  %c = rt.alloc work at 128 : !d
  rt.fill %a with 1.0 : !d
  rt.copy_strided %b, %a : !d, !d
  rt.fill %c with 2.0 : !d
}

// -----

// Ranks have one text, so the ranks of a group do not differ, however many there are.
// CHECK-LABEL: rt.function @many
!row = !rt.buffer<[p=1024, n=4], f32>
!part = !rt.buffer<[n=4], f32>
module attributes {dist.mesh = #dist.mesh<dp = 1024 [batch]>} {
  rt.function @many {
    %all = rt.alloc work at 0 : !row
    %part = rt.alloc work at 16384 : !part
    rt.fill %all with 1.0 : !row
    rt.collective "reduce_scatter" %all, %part count 4 "Sum" over [0] ranks 1024 "dp" with "automatic" why "w" : !row, !part
  }
}
