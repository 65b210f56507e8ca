// Command child is a process that only evaluates. Tests start it where their own binary cannot be a child: one that is built with the
// race detector does not start under the limit on memory.
package main

import (
	"os"

	"writ/scripts/evaluator"
)

func main() { os.Exit(evaluator.Main()) }
