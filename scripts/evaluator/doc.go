// Package evaluator runs passes of scripts: in child processes, where a script can at worst crash its own child (Pool),
// or in this process (InProcess). It manages processes and their limits. It must not depend on the meaning of a script
// or its calls.
package evaluator
