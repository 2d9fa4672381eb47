import sys

print("the last words", file=sys.stderr)
sys.exit(3)
