// RUN: echelon-opt --ech-split-time --split-input-file --verify-diagnostics %s

// Statistics over the batch, read sample by sample, need all samples at once.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 4} {
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3], f32>
  // expected-error @+1 {{this needs other samples of the step, which come in 4 micro batches; use one, or `local = true` for statistics of each micro batch}}
  %y, %r, %m, %v, %lo = ech.normalize %x over ["batch"] : (!ech.tensor<[batch=8, in=3], f32>) -> (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>)
  %s = ech.reduce sum %y over ["batch", "in"] : (!ech.tensor<[batch=8, in=3], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %s : <[], f32>
}
}

// -----

// A total that a variable enters cannot be computed before the passes that read it.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 2} {
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3], f32>
  %w = ech.read @w : <[in=3], f32>
  %y = ech.dot %x, %w over ["in"] : (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>) -> !ech.tensor<[batch=8], f32>
  %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  // expected-error @+1 {{this needs other samples of the step, which come in 2 micro batches}}
  %z = ech.map div %y, %s : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
  %l = ech.reduce sum %z over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// A particular sample is in one micro batch alone.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 2} {
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
ech.step @train {
  %x = ech.read @x : <[batch=8], f32>
  // expected-error @+1 {{this needs other samples of the step}}
  %l = ech.pick %x["batch" = 0] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 3} {
// expected-error @+1 {{a batch of 8 does not divide into 3 micro batches}}
ech.step @train {
}
}

// -----

// A count that parameters enter, in a loop: samples of a pass would need it before the last pass is known.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 2} {
ech.variable param @w : !ech.tensor<[layer=3], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
ech.step @train {
  %x = ech.read @x : <[batch=8], f32>
  %w = ech.read @w : <[layer=3], f32>
  %final = ech.repeat "layer" = 3 carry(%x : !ech.tensor<[batch=8], f32>) slice(%w : !ech.tensor<[layer=3], f32>) -> (!ech.tensor<[batch=8], f32>) {
  ^bb0(%xi: !ech.tensor<[batch=8], f32>, %wi: !ech.tensor<[], f32>):
    %kept = ech.map gt %xi, %wi : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], i1>
    %one = ech.map cast %kept : (!ech.tensor<[batch=8], i1>) -> !ech.tensor<[batch=8], f32>
    %n = ech.reduce sum %one over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    // expected-error @+1 {{this needs other samples of the step, which come in 2 micro batches}}
    %y = ech.map div %xi, %n : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
    ech.yield carry(%y : !ech.tensor<[batch=8], f32>)
  }
  %s = ech.reduce sum %final over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %s : <[], f32>
}
}

// -----

// The same under evaluation, by way of a value that touches no sample itself.
module attributes {ech.batch_axis = "batch", ech.batch = 8} {
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
ech.step @evaluate {
  %x = ech.read @x : <[batch=8], f32>
  %final = ech.repeat "layer" = 3 carry(%x : !ech.tensor<[batch=8], f32>) -> (!ech.tensor<[batch=8], f32>) {
  ^bb0(%xi: !ech.tensor<[batch=8], f32>):
    %n = ech.reduce sum %xi over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    %bent = ech.map tanh %n : (!ech.tensor<[], f32>) -> !ech.tensor<[], f32>
    // expected-error @+1 {{this needs all held-out samples at once, and evaluation takes them batch by batch; leave the batch out of it}}
    %y = ech.map mul %xi, %bent : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
    ech.yield carry(%y : !ech.tensor<[batch=8], f32>)
  }
  %s = ech.reduce sum %final over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %s : <[], f32>
}
}

// -----

// The samples under another name are as many as a training batch has, which is none of evaluation's numbers.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.like_batch = ["other"]} {
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
ech.step @evaluate {
  %x = ech.read @x : <[batch=8], f32>
  // expected-error @+1 {{this needs all held-out samples at once, and evaluation takes them batch by batch; leave the batch out of it}}
  %y = ech.expand %x : !ech.tensor<[batch=8], f32> -> !ech.tensor<[batch=8, other=8], f32>
  %l = ech.reduce sum %y over ["batch", "other"] : (!ech.tensor<[batch=8, other=8], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// And so they are in a loop that no sample enters.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.like_batch = ["other"]} {
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
ech.step @evaluate {
  %x = ech.read @x : <[batch=8], f32>
  %one = ech.constant 1.0 : !ech.tensor<[], f32>
  %n = ech.repeat "turn" = 2 carry(%one : !ech.tensor<[], f32>) -> (!ech.tensor<[], f32>) {
  ^bb0(%so_far: !ech.tensor<[], f32>):
    // expected-error @+1 {{this needs all held-out samples at once, and evaluation takes them batch by batch; leave the batch out of it}}
    %y = ech.expand %so_far : !ech.tensor<[], f32> -> !ech.tensor<[other=8], f32>
    %more = ech.reduce sum %y over ["other"] : (!ech.tensor<[other=8], f32>) -> !ech.tensor<[], f32>
    ech.yield carry(%more : !ech.tensor<[], f32>)
  }
  %s = ech.reduce sum %x over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  %l = ech.map div %s, %n : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// The sum over a loop's turns of maxima over samples is no maximum.
module attributes {ech.batch_axis = "batch", ech.batch = 8} {
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
ech.step @evaluate {
  %x = ech.read @x : <[batch=8], f32>
  %sum = ech.repeat "turn" = 2 -> () sum(!ech.tensor<[], f32>) {
  ^bb0:
    // expected-error @+1 {{this needs all held-out samples at once, and evaluation takes them batch by batch; in a repeat, take a maximum or minimum over axes of one sample, and the mean of it}}
    %most = ech.reduce max %x over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    ech.yield sum(%most : !ech.tensor<[], f32>)
  }
  ech.report metric "worst", %sum : <[], f32>
}
}

// -----

// Statistics of one value say nothing: here a micro batch has one sample.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 8} {
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3], f32>
  // expected-error @+1 {{E0316: statistics of one value: the micro batch has 1 sample on all ranks together}}
  %y, %r, %m, %v, %lo = ech.normalize %x over ["batch"] {ech.local} : (!ech.tensor<[batch=8, in=3], f32>) -> (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>)
  %s = ech.reduce sum %y over ["batch", "in"] : (!ech.tensor<[batch=8, in=3], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %s : <[], f32>
}
// An evaluation has no micro batch.
ech.step @evaluate {
  %x = ech.read @x : <[batch=8, in=3], f32>
  // expected-error @+1 {{E0313: an evaluation has no micro batch to take statistics of}}
  %y, %r, %m, %v, %lo = ech.normalize %x over ["batch"] {ech.local} : (!ech.tensor<[batch=8, in=3], f32>) -> (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>)
  %s = ech.reduce sum %y over ["batch", "in"] : (!ech.tensor<[batch=8, in=3], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %s : <[], f32>
}
}
