// RUN: echelon-opt %s --rt-check-streams --split-input-file --verify-diagnostics

// Between its start and its wait, nothing touches the bytes of a message: another buffer may lie beside it, not on it.
rt.function @train {
  %d = rt.alloc work at 0 {rt.name = "d"} : !rt.buffer<[n=64], f32>
  %beside = rt.alloc work at 256 : !rt.buffer<[n=64], f32>
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32> -> !rt.ticket
  rt.fill %beside with 1.0 : !rt.buffer<[n=64], f32>
  rt.wait %t
  rt.fill %d with 1.0 : !rt.buffer<[n=64], f32>
}

// -----

// A buffer that shares its bytes is on it.
rt.function @train {
  %d = rt.alloc work at 0 : !rt.buffer<[n=64], f32>
  %on = rt.alloc work at 128 : !rt.buffer<[n=64], f32>
  // expected-note@+1 {{it is started here}}
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32> -> !rt.ticket
  // expected-error-re@+1 {{rt.fill {{.*}} writes what all_reduce over dp {{.*}} writes at the same time: no rt.wait orders them}}
  rt.fill %on with 1.0 : !rt.buffer<[n=64], f32>
  rt.wait %t
}

// -----

// What a message reads may be read meanwhile, and not written; what it writes may not be read.
rt.function @train {
  %in = rt.alloc work at 0 : !rt.buffer<[n=64], f32>
  %all = rt.alloc work at 256 : !rt.buffer<[p=2, n=64], f32>
  %other = rt.alloc work at 1024 : !rt.buffer<[n=64], f32>
  // expected-note@+1 {{it is started here}}
  %t = rt.collective "all_gather" %in, %all count 64 over [1] ranks 2 "tp" with "ring" why "w" : !rt.buffer<[n=64], f32>, !rt.buffer<[p=2, n=64], f32> -> !rt.ticket
  rt.copy_strided %other, %in : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  // expected-error-re@+1 {{rt.fill {{.*}} writes what all_gather over tp {{.*}} reads at the same time: no rt.wait orders them}}
  rt.fill %in with 1.0 : !rt.buffer<[n=64], f32>
  rt.wait %t
}

// -----

// Two messages are in streams of their own: the second waits for nobody.
rt.function @train {
  %d = rt.alloc work at 0 : !rt.buffer<[n=64], f32>
  // expected-note@+1 {{it is started here}}
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32> -> !rt.ticket
  // expected-error-re@+1 {{rt.collective {{.*}} reads what all_reduce over dp {{.*}} writes at the same time: no rt.wait orders them}}
  rt.collective "all_reduce" %d, %d count 64 "Sum" over [1] ranks 2 "tp" with "ring" why "w" : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  rt.wait %t
}

// -----

// In a loop each iteration has a slice of its own; what is started there is under way in the iterations after it.
rt.function @train {
  %d = rt.alloc work at 0 : !rt.buffer<[layer=4, n=64], f32>
  %all = rt.tickets 4
  rt.for "layer" = 4 {
  ^bb0(%i: index):
    %here = rt.view %d from 0 plus (%i) times [64] : !rt.buffer<[layer=4, n=64], f32> -> !rt.buffer<[n=64], f32>
    rt.fill %here with 1.0 : !rt.buffer<[n=64], f32>
    rt.collective "all_reduce" %here, %here count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" keeps %all[%i] : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  }
  rt.wait %all
}

// -----

rt.function @train {
  %d = rt.alloc work at 0 : !rt.buffer<[layer=4, n=64], f32>
  %all = rt.tickets 4
  rt.for "layer" = 4 {
  ^bb0(%i: index):
    %first = rt.view %d from 0 : !rt.buffer<[layer=4, n=64], f32> -> !rt.buffer<[n=64], f32>
    %here = rt.view %d from 0 plus (%i) times [64] : !rt.buffer<[layer=4, n=64], f32> -> !rt.buffer<[n=64], f32>
    // expected-error-re@+1 {{rt.fill {{.*}} writes what all_reduce over dp {{.*}} writes at the same time: no rt.wait orders them}}
    rt.fill %first with 1.0 : !rt.buffer<[n=64], f32>
    // expected-note@+1 {{it is started here}}
    rt.collective "all_reduce" %here, %here count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" keeps %all[%i] : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32>
  }
  rt.wait %all
}

// -----

// Each is waited for before the function ends.
rt.function @train {
  %d = rt.alloc work at 0 : !rt.buffer<[n=64], f32>
  // expected-error-re@+1 {{all_reduce over dp {{.*}} is started and never waited for}}
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !rt.buffer<[n=64], f32>, !rt.buffer<[n=64], f32> -> !rt.ticket
}
