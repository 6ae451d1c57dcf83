# What prepare_instance.sh and run_instance.sh share.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# LEAVEOUT_BIN: a folder with the programs leaveout and python, if not what install_tool.sh made.
bin=${LEAVEOUT_BIN:-$here/.venv/bin}

# Turn the ONNX argument into options: it is one file, or a list of pairs such as
# [('f', 'first.onnx'), ('g', 'second.onnx')] where a query is about several networks.
networks_of() {
    "$bin/python" - "$1" <<'PYTHON'
import ast
import sys

given = sys.argv[1]
try:
    pairs = [(str(name), str(file)) for name, file in ast.literal_eval(given)]
    files = [f"{name}={file}" for name, file in pairs]
except (SyntaxError, TypeError, ValueError):
    files = [given]
for file in files:
    sys.stdout.write(f"--network\0{file}\0")
PYTHON
}
