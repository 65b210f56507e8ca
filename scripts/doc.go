// Package scripts knows the language: Tengo source, what may be in it, and the pass, a pure function of bundle, inputs and journal
// that says which calls come next. It must not know SQL, Redis or networks. Package scripts/evaluator runs passes in child processes.
package scripts
