"""ONNX files: reading, rewriting, and checks against onnxruntime."""
