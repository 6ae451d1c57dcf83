"""ONNX: read, rewritten and checked against onnxruntime."""
