// Package scripts defines the language: parsing, checks and formatting of Tengo source, and the pass. A pass is a pure
// function of bundle, inputs and journal that returns the next calls. The package must not depend on SQL, Redis or
// networks. Package scripts/evaluator runs passes in child processes.
package scripts
