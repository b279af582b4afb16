// RUN: echelon-opt --ech-split-time --split-input-file --verify-diagnostics %s

// Statistics over the batch, read sample by sample, need all samples at once.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 4} {
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3], f32>
  // expected-error @+1 {{this needs other samples of the step, which come in 4 micro batches; use one, unless it says local}}
  %y, %r, %m, %v = ech.normalize %x over ["batch"] : (!ech.tensor<[batch=8, in=3], f32>) -> (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>, !ech.tensor<[in=3], f32>)
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
